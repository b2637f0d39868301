// What was measured of a trial: figures, gates, and how they change with the length of the prompt.

import { h, table } from "../dom.js";
import { number, percent } from "../format.js";
import { FIGURES } from "../words.js";
import { gateRows } from "./bars.js";

/** A figure's value as people read it. */
export function figure(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "part") return percent(value, { sign: false });
  return unit ? `${number(value)} ${unit}` : number(value);
}

/** Everything that was measured of a workload; "more" is what its records say, where they are kept. */
export function workload(name, found, more) {
  return h("section", {},
    h("h3", {}, `Workload ${name}`),
    found.gates.length ? table(["Gate", "Figure", "Limit", "Measured", "Margin"], gateRows(found.gates), [3, 4]) : h("p.soft", {}, "It has no gates."),
    h("h3", {}, "Figures"),
    table(["Figure", "Value"], FIGURES.filter(([key]) => found.figures[key] !== undefined && found.figures[key] !== null)
      .map(([key, label, unit]) => [label, figure(found.figures[key], unit)]), [1]),
    more ? [h("h3", {}, "By length of the prompt"), buckets(more.buckets), source(more)] : null);
}

/** Figures by the length of the prompt, in tokens. */
export function buckets(found) {
  const shown = found.filter((bucket) => bucket.count > 0);
  if (shown.length === 0) return h("p.soft", {}, "No request was answered.");
  return table(
    ["Prompt tokens", "Requests", "Share", "TTFT P50", "TTFT P90", "E2E P90", "Output TPS P50", "Cache hit rate"],
    shown.map((b) => [
      b.label, b.count, percent(b.share, { sign: false }), figure(b.ttft_s?.p50, "s"), figure(b.ttft_s?.p90, "s"), figure(b.e2e_s?.p90, "s"),
      number(b.request_output_tps?.p50), percent(b.cache_hit_rate, { sign: false }),
    ]), [1, 2, 3, 4, 5, 6, 7]);
}

function source({ shares, wall_time: wall, tokens, population }) {
  const parts = (given, names) => Object.entries(names).filter(([key]) => given?.[key] !== undefined && given[key] !== null)
    .map(([key, label]) => `${label} ${percent(given[key], { sign: false })}`).join(", ");
  const faults = Object.entries(population?.errors ?? {}).map(([kind, count]) => `${count} × ${kind}`).join(", ");
  return h("dl.facts", {},
    h("dt", {}, "The weighted score comes from"), h("dd", {}, parts(shares, { output: "output", uncached_input: "uncached input", cached: "cached input" }) || "–"),
    h("dt", {}, "The time went to"), h("dd", {}, parts(wall, { prefill: "prefill", decode: "decode", lost: "what failed", idle: "nothing" }) || "–"),
    h("dt", {}, "Tokens"), h("dd", {}, `${number(tokens?.prompt)} in prompts (${number(tokens?.cached)} from the cache), ${number(tokens?.output)} in answers`),
    h("dt", {}, "Requests"), h("dd", {}, `${population?.succeeded} of ${population?.planned} succeeded${faults ? `; ${faults}` : ""}`));
}
