// The exact command of a server, and how it differs from another one.

import { copier, h } from "../dom.js";
import { shell } from "../format.js";

/** Commands as options with their values: one entry for each that belongs together. */
function grouped(words) {
  const found = [];
  for (const word of words) {
    const before = found.at(-1);
    if (before && /^--?\D/.test(before[0]) && before.length === 1 && !/^--?\D/.test(word) && !before[0].includes("=")) before.push(word);
    else found.push([word]);
  }
  return found.map((entry) => shell(entry).join(" "));
}

/** Variables as a shell takes them; secrets by the names of those that hold them. */
function variables({ env, deployment }) {
  return Object.entries(env).map(([name, value]) => `${name}=${name in deployment.secrets ? `"${value}"` : shell([value])[0]}`);
}

/** A trial's command as text that a shell takes. */
export function line(trial) {
  return [...variables(trial), ...shell(trial.command)].join(" ");
}

/**
 * A command with what differs from another one marked.
 *
 * @param {object} mine A trial.
 * @param {?object} other The baseline; null to mark nothing.
 */
export function command(mine, other) {
  if (mine.command === null) return h("p.soft", {}, "The engine is not built yet.");
  const copy = copier(() => line(mine), "Copy the command");
  return h("div", {},
    h("div.words", { tabindex: "0", role: "region", "aria-label": "Command" },
      between(variables(mine), other ? variables(other) : null), between(grouped(mine.command), other ? grouped(other.command ?? []) : null)),
    h("p.row", {}, copy, other ? h("span.small.soft", {}, h("ins", {}, "only here"), " ", h("del", {}, "only in the baseline")) : null));
}

function between(mine, other) {
  const theirs = new Set(other ?? mine);
  const own = new Set(mine);
  const entries = mine.map((text) => [theirs.has(text) ? "span" : "ins", text]);
  for (const text of other ?? []) {
    if (own.has(text)) continue;
    // Beside what stands in its place here, if anything does.
    const option = text.split(/[ =]/)[0];
    const beside = entries.findIndex(([tag, mineText]) => tag === "ins" && mineText.split(/[ =]/)[0] === option);
    entries.splice(beside < 0 ? entries.length : beside + 1, 0, ["del", text]);
  }
  return entries.map(([tag, text]) => h("div", {}, h(tag, {}, text)));
}
