// Scores over the trials: a mark for each, the best so far, the baseline.

import { h, put } from "../dom.js";
import { number, what } from "../format.js";
import { FAMILIES } from "../words.js";
import { chart, tip } from "./chart.js";
import { colours } from "./colours.js";

const NEAR = 18;

/**
 * The picture of a study's scores.
 *
 * @param {Scope} scope Ends with it.
 * @param {Function} open Called with a trial's number when its mark is clicked.
 */
export function scores(scope, open) {
  let trials = [];
  let base = null;
  const legend = h("ul.legend");
  const drawn = chart(scope, {
    says: "Scores over the trials", height: 320, x: "trial", y: "score",
    series: [{ label: "best so far", colour: "best", step: true, width: 2, span: true }, { label: "baseline", colour: "base", dash: [6, 5], width: 1 }],
    xValues: (v) => (Number.isInteger(v) ? String(v) : ""),
    xRange: (_, low, high) => [Math.min(-0.5, (low ?? 0) - 0.5), (high ?? 1) + 0.5],
    yRange: () => [0, 1.06 * (Math.max(0, ...trials.map((t) => t.score ?? 0)) || 1)],
    hooks: { draw: [marks], ready: [listen] },
  });

  function marks(plot) {
    const shades = colours(...Object.keys(FAMILIES), "paper");
    const ratio = devicePixelRatio || 1;
    const at = places(plot);
    const draw = plot.ctx;
    draw.save();
    draw.lineWidth = 1.5 * ratio;
    draw.setLineDash([]);
    trials.forEach((trial, n) => {
      if (trial.family === "open") return;
      draw.strokeStyle = draw.fillStyle = shades[trial.family];
      mark(draw, trial, at[n][0] * ratio, at[n][1] * ratio, 4 * ratio, shades.paper);
    });
    draw.restore();
  }

  function places(plot) {
    const ratio = devicePixelRatio || 1;
    const floor = (plot.bbox.top + plot.bbox.height) / ratio;
    return trials.map((t) => [
      plot.valToPos(t.trial, "x", true) / ratio,
      t.score === null ? floor - 5 : plot.valToPos(t.score, "y", true) / ratio,
    ]);
  }

  function listen(plot) {
    const box = tip(drawn.place);
    let near = null;
    const frame = () => [plot.bbox.left / (devicePixelRatio || 1), plot.bbox.top / (devicePixelRatio || 1)];
    plot.over.addEventListener("mousemove", (event) => {
      const [left, top] = frame();
      const x = event.offsetX + left;
      const y = event.offsetY + top;
      near = nearest(places(plot), x, y);
      drawn.place.classList.toggle("link", near !== null);
      if (near === null) return box.hide();
      const trial = trials[near];
      box.show(x, y,
        h("span.verdict", { class: trial.family }, h("i", {}, FAMILIES[trial.family].mark), `trial ${trial.trial}: ${trial.verdict}`),
        trial.score === null ? "not measured" : `score ${number(trial.score)}`, what(trial, base));
    });
    plot.over.addEventListener("mouseleave", () => box.hide());
    plot.over.addEventListener("click", () => near !== null && open(trials[near].trial));
  }

  const nothing = h("p.soft", {}, "Nothing was told yet.");
  return {
    place: h("div", {}, nothing, legend, drawn.place),
    /** Show these trials, in the order of their numbers. */
    set(given, baseline) {
      trials = given.filter((t) => t.family !== "open" && t.origin !== "profile");  // never to be scored
      base = baseline;
      nothing.hidden = trials.length > 0;
      legend.hidden = drawn.place.hidden = trials.length === 0;
      put(legend, ...entries(trials));
      const first = trials.find((t) => t.origin === "baseline")?.score ?? null;
      drawn.set([trials.map((t) => t.trial), soFar(trials), trials.map(() => first)]);
    },
  };
}

function soFar(trials) {
  let best = null;
  return trials.map((t) => {
    if (t.feasible && t.score !== null && t.origin !== "repeat" && (best === null || t.score > best)) best = t.score;
    return best;
  });
}

function nearest(at, x, y) {
  let found = null;
  let least = NEAR * NEAR;
  at.forEach(([px, py], n) => {
    const far = (px - x) ** 2 + (py - y) ** 2;
    if (far < least) [found, least] = [n, far];
  });
  return found;
}

// The shapes of words.js, around a middle: corners as steps of the mark's size.
const SHAPES = {
  missed: [[0, -1.2], [1.2, 1], [-1.2, 1]],
  memory: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
  refused: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  worse: [[0, 1.2], [1.2, -1], [-1.2, -1]],
  wrong: [...Array(10).keys()].map((n) => [(n % 2 ? 0.6 : 1.5) * Math.sin((n * Math.PI) / 5), (n % 2 ? -0.6 : -1.5) * Math.cos((n * Math.PI) / 5)]),
};

function mark(draw, trial, x, y, size, paper) {
  draw.beginPath();
  const corners = SHAPES[trial.family];
  if (trial.family === "crashed") {
    draw.moveTo(x - size, y - size);
    draw.lineTo(x + size, y + size);
    draw.moveTo(x - size, y + size);
    draw.lineTo(x + size, y - size);
    draw.stroke();
    return;
  }
  if (corners) corners.forEach(([right, down]) => draw.lineTo(x + right * size, y + down * size));
  else draw.arc(x, y, trial.origin === "baseline" ? 1.5 * size : size, 0, 2 * Math.PI);
  draw.closePath();
  if (trial.origin === "repeat" || trial.family === "outside") {
    draw.fillStyle = paper;
    draw.fill();
    draw.stroke();
  } else {
    draw.fill();
  }
}

function entries(trials) {
  const counts = new Map();
  for (const t of trials) counts.set(t.family, (counts.get(t.family) ?? 0) + 1);
  const lines = [["best so far", ""], ["baseline", "dash"]].map(([label, kind]) => h("li", {}, h("span.swatch", { class: kind, "aria-hidden": "true" }), label));
  const families = Object.entries(FAMILIES).filter(([name]) => counts.has(name)).map(([name, family]) =>
    h("li", {}, verdict(name, `${family.label}: ${counts.get(name)}`)));
  if (trials.some((t) => t.origin === "repeat")) lines.push(h("li", {}, "hollow: measured again"));
  return [...families, ...lines];
}

/** A verdict's words beside its family's mark. */
export function verdict(family, words) {
  return h("span.verdict", { class: family }, h("i", { "aria-hidden": "true" }, FAMILIES[family].mark), words);
}
