// Bars with their numbers: importance of parameters, margins to gates, stages of a trial.

import { h } from "../dom.js";
import { number, percent, seconds } from "../format.js";
import { STAGES } from "../words.js";

function bar(part, kind = "") {
  const inside = h("span");
  inside.style.setProperty("width", `${100 * Math.min(1, Math.max(0, part))}%`);
  return h("div.bar", { class: kind, "aria-hidden": "true" }, inside);
}

/** How much a part of a whole is done. */
export function progress(part) {
  return bar(part);
}

/** Which parameters matter. */
export function importance(found) {
  const shares = Object.entries(found.shares);
  if (shares.length === 0) {
    return h("p.soft", {}, `Which parameters matter cannot be said from ${found.trials} told trials.`);
  }
  const most = shares[0][1] || 1;
  return h("div", {},
    h("div.bars", {}, shares.map(([name, share]) => [
      h("span.name.mono", {}, name), bar(share / most), h("span.value", {}, percent(share, { sign: false })),
    ])),
    h("p.small.soft", {}, `What tells the best trials from the others, by PED-ANOVA over ${found.trials} trials.`));
}

/** Gates with how far a trial stays from each: to the right of the middle it passed. */
export function margins(found) {
  const shown = Object.entries(found);
  if (shown.length === 0) return h("p.soft", {}, "No gates, or nothing measured yet.");
  return h("div.bars.gates", {}, shown.map(([name, margin]) => {
    const failed = margin === null || margin < 0;
    const one = h("div.bar", { class: failed ? "failed" : "passed", "aria-hidden": "true" }, h("span"));
    const size = 50 * Math.min(1, Math.abs(margin ?? 1));
    one.firstChild.style.setProperty("width", `${size}%`);
    if (failed) one.firstChild.style.setProperty("left", `${50 - size}%`);
    return [
      h("span.name.mono", {}, name), one,
      h("span.value", {}, margin === null ? "not measured" : `${failed ? "missed" : "passed"}, ${percent(margin)}`),
    ];
  }));
}

/** A measured trial's gates in full. */
export function gateRows(gates) {
  return gates.map((gate) => [
    h("span.verdict", { class: gate.passed ? "good" : "crashed" }, h("i", { "aria-hidden": "true" }, gate.passed ? "●" : "✖"), gate.passed ? "passed" : "missed"),
    h("span.mono", {}, gate.figure), `${gate.at_least ? "at least" : "at most"} ${number(gate.limit)}`, number(gate.value), percent(gate.margin),
  ]);
}

const SHADES = ["ready", "probed", "warmed", "measured", "stopping", "verified", "told"];

/** How long each stage of a trial took. */
export function stages(took, live = null) {
  const shown = Object.entries(took).filter(([name]) => SHADES.includes(name));
  const whole = shown.reduce((sum, [, length]) => sum + length, 0) || 1;
  const line = h("div.times", { class: live ? "live" : "", "aria-hidden": "true" }, shown.map(([name, length]) => {
    const part = h("span", { class: shade(name), title: `${STAGES[name]}: ${seconds(length)}` });
    part.style.setProperty("width", `${(100 * length) / whole}%`);
    return part;
  }));
  const list = h("div.bars", {}, shown.map(([name, length], n) => [
    h("span.name", {}, h("span.key", { class: shade(name), "aria-hidden": "true" }), live && n === shown.length - 1 ? `${STAGES[name]} …` : STAGES[name]),
    bar(length / whole), h("span.value", {}, seconds(length)),
  ]));
  return h("div", {}, line, list);
}

function shade(name) {
  return `t${SHADES.indexOf(name) + 1}`;
}
