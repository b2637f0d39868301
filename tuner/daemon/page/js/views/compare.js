// Two trials side by side; where the study compared them in pairs, with the interval.

import { get, study as path } from "../api.js";
import { card, fill, h, table } from "../dom.js";
import { number, percent, same, value } from "../format.js";
import { comparison } from "../parts/decision.js";
import { figure } from "../parts/figures.js";
import { link } from "../parts/list.js";
import { verdict } from "../parts/scores.js";
import { FIGURES } from "../words.js";

export const title = (name, a, b) => `${a} against ${b} of ${name}`;

export async function show(root, scope, name, a, b) {
  const trial = (number) => get(path(name, `/trials/${number}`));
  const records = (number) => get(path(name, `/trials/${number}/loads`)).catch(() => ({}));
  const [study, one, other, loads, more] = await Promise.all([get(path(name)), trial(a), trial(b), records(a), records(b)]);
  if (!scope.alive) return;
  const paired = study.decision?.comparisons.find((c) => study.decision.baseline === one.trial && c.number === other.trial);
  fill(root,
    h("p.crumbs", {}, h("a", { href: "#/" }, "Studies"), " / ", h("a", { href: `#/study/${encodeURIComponent(name)}` }, name), " / "),
    h("div.head", {}, h("h1", {}, `Trial ${a} against trial ${b}`), chooser(name, one, other)),
    paired ? card("In pairs", comparison(name, study.decision.baseline, paired, { links: false }))
      : h("p.notice.warn", {}, "These figures are from one start each, and starts differ. For an interval compare the two in pairs: ",
        h("code", {}, `tuner compare ${name} ${a} ${b}`)),
    card("What they are", ends(name, one, other), points(one, other)),
    Object.keys(one.metrics?.workloads ?? {}).filter((load) => other.metrics?.workloads?.[load]).map((load) =>
      card(`Workload ${load}`, figures(one, other, load), lengths(one, other, loads[load], more[load]))));
}

function chooser(name, one, other) {
  const field = (id, label, number) => {
    const input = h("input", { id, type: "number", min: 0, step: 1, required: true, value: number });
    return { input, place: h("label", { for: id }, label, input) };
  };
  const [left, right] = [field("left", "Trial", one.trial), field("right", "against", other.trial)];
  const go = (event) => {
    event.preventDefault();
    location.hash = `#/study/${encodeURIComponent(name)}/compare/${Number(left.input.value)}/${Number(right.input.value)}`;
  };
  return h("form.row", { on: { submit: go } }, left.place, right.place, h("button", { type: "submit" }, "Compare"));
}

function ends(name, ...trials) {
  return h("div.wide", {}, h("table", {},
    h("thead", {}, h("tr", {}, ["Trial", "Origin", "Verdict", "Score"].map((one) => h("th", { scope: "col" }, one)))),
    h("tbody", {}, trials.map((t) => h("tr", {},
      h("td", {}, h("a", { href: link(name, t.trial) }, t.trial)), h("td", {}, t.origin),
      h("td", {}, verdict(t.family, t.verdict ?? t.stage)), h("td", {}, number(t.score)))))));
}

function points(one, other) {
  const names = [...new Set([...Object.keys(one.params), ...Object.keys(other.params)])].filter((name) => !same(one.params[name], other.params[name]));
  if (names.length === 0) return h("p.soft", {}, "They are the same point.");
  return [h("h3", {}, "What differs"), table(["Parameter", `Trial ${one.trial}`, `Trial ${other.trial}`],
    names.map((name) => [h("span.mono", {}, name), value(one.params[name]), value(other.params[name])]))];
}

function ratio(a, b, better) {
  if (!a || b === null || b === undefined) return "–";
  const change = b / a - 1;
  const good = better === "higher" ? change > 0 : change < 0;
  const words = percent(change);
  return Math.abs(change) < 0.005 ? words : h("span.verdict", { class: good ? "good" : "crashed" }, h("i", { "aria-label": good ? "better" : "worse" }, good ? "▲" : "▼"), words);
}

function figures(one, other, load) {
  const [mine, theirs] = [one, other].map((t) => t.metrics.workloads[load].figures);
  const rows = FIGURES.filter(([key]) => typeof mine[key] === "number" && typeof theirs[key] === "number").map(([key, label, unit, better]) =>
    [label, figure(mine[key], unit), figure(theirs[key], unit), ratio(mine[key], theirs[key], better)]);
  return table(["Figure", `Trial ${one.trial}`, `Trial ${other.trial}`, "Change"], rows, [1, 2, 3]);
}

function lengths(one, other, loads, more) {
  if (!loads || !more) return null;
  const rows = loads.buckets.flatMap((mine) => {
    const theirs = more.buckets.find((b) => b.label === mine.label);
    if (!theirs || !mine.count || !theirs.count) return [];
    return [[mine.label, mine.count, theirs.count, figure(mine.ttft_s?.p90, "s"), figure(theirs.ttft_s?.p90, "s"), ratio(mine.ttft_s?.p90, theirs.ttft_s?.p90, "lower"),
      number(mine.request_output_tps?.p50), number(theirs.request_output_tps?.p50), ratio(mine.request_output_tps?.p50, theirs.request_output_tps?.p50, "higher")]];
  });
  const [a, b] = [one.trial, other.trial];
  return [h("h3", {}, "By length of the prompt"),
    table(["Prompt tokens", `Requests ${a}`, `Requests ${b}`, `TTFT P90 ${a}`, `TTFT P90 ${b}`, "Change", `Output TPS P50 ${a}`, `Output TPS P50 ${b}`, "Change"], rows, [1, 2, 3, 4, 5, 6, 7, 8])];
}
