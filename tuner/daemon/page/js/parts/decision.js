// Baseline against finalists: ratios with their intervals, and the paired runs behind them.

import { draw, h } from "../dom.js";
import { number, percent } from "../format.js";
import { link } from "./list.js";

const WIDTH = 560;
const LEFT = 24;

/** What a study came to. */
export function decision(study, found) {
  const words = found.clear
    ? `Trial ${found.winner} is better than the baseline, for sure.`
    : "No clear winner: nothing was better than the baseline for sure, so the baseline is what to deploy.";
  return h("div", {},
    h(`p.notice${found.clear ? ".good" : ".warn"}`, {}, h("strong", {}, words)),
    found.comparisons.map((one) => comparison(study, found.baseline, one)));
}

/** One finalist against the baseline. */
export function comparison(study, baseline, one, { links = true } = {}) {
  const compare = `#/study/${encodeURIComponent(study)}/compare/${baseline}/${one.number}`;
  return h("section", {},
    h("h3", {}, "Trial ", h("a", { href: link(study, one.number) }, one.number), " against the baseline: ", one.answer),
    one.broken ? h("p", {}, one.broken) : null,
    one.ratio === null ? h("p.soft", {}, "There is no comparison.") : [h("p", {}, sentence(one)), interval(one)],
    one.runs.length ? runs(one) : null,
    links ? h("p", {}, h("a", { href: compare }, "Compare all their figures")) : null);
}

function sentence(one) {
  const ends = [one.low, one.high].map((end) => (end === null ? "anything" : percent(end - 1)));
  const sure = one.confidence ? `${Math.round(100 * one.confidence)} % interval` : "interval";
  return [h("strong", {}, percent(one.ratio - 1)), ` in score (${sure}: ${ends[0]} to ${ends[1]}, from ${one.runs.length} starts in pairs).`];
}

function interval(one) {
  const low = one.low ?? Math.min(one.ratio, 1) / 2;
  const high = one.high ?? Math.max(one.ratio, 1) * 2;
  const ends = [Math.log(Math.min(low, 1)), Math.log(Math.max(high, 1))];
  const pad = 0.06 * (ends[1] - ends[0] || 1);
  const at = (ratio) => LEFT + ((Math.log(ratio) - ends[0] + pad) / (ends[1] - ends[0] + 2 * pad)) * (WIDTH - 2 * LEFT);
  return draw("svg", { class: "picture", viewBox: `0 0 ${WIDTH} 62`, role: "img", "aria-label": "The ratio to the baseline with its interval" },
    draw("line", { class: "axis", x1: at(1), x2: at(1), y1: 4, y2: 42 }),
    draw("text", { x: at(1), y: 57, "text-anchor": "middle" }, "baseline"),
    draw("line", { class: "range", x1: at(low), x2: at(high), y1: 23, y2: 23 }),
    [low, high].map((end) => draw("line", { class: "range", x1: at(end), x2: at(end), y1: 16, y2: 30 })),
    draw("circle", { class: "b", cx: at(one.ratio), cy: 23, r: 6 }),
    draw("text", { class: "name", x: at(one.ratio), y: 10, "text-anchor": "middle" }, percent(one.ratio - 1)));
}

function runs(one) {
  const most = Math.max(...one.runs.map((run) => run.score)) || 1;
  const step = (WIDTH - 2 * LEFT - 60) / one.runs.length;
  const at = (score) => 84 - (score / most) * 72;
  return h("div", {},
    draw("svg", { class: "picture", viewBox: `0 0 ${WIDTH} 112`, role: "img", "aria-label": "Scores of the paired runs in their order" },
      draw("line", { class: "grid", x1: LEFT, x2: WIDTH - LEFT, y1: 84, y2: 84 }),
      one.runs.map((run, n) => {
        const x = LEFT + 60 + n * step + step / 2;
        const kind = run.arm === "A" ? "a" : "b";
        return [
          draw("rect", { class: kind, x: x - 9, y: at(run.score), width: 18, height: 84 - at(run.score) }, draw("title", {}, number(run.score))),
          draw("text", { x, y: 98, "text-anchor": "middle" }, run.arm),
          draw("text", { x, y: 110, "text-anchor": "middle" }, number(run.score, 3)),
        ];
      }),
      draw("text", { x: LEFT, y: 98 }, "start"), draw("text", { x: LEFT, y: 110 }, "score")),
    h("p.small.soft", {}, "A: the baseline, B: the finalist, each on a fresh start, in the order in which they ran."));
}
