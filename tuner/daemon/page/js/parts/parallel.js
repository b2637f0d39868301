// Parallel coordinates: each trial a line through the values of its parameters to its score.

import { h, say } from "../dom.js";
import { number, same, value } from "../format.js";
import { colours, onTurn } from "./colours.js";

const HEIGHT = 316;
const TOP = 50;
const BOTTOM = 22;
const SIDE = 56;
const NEAR = 8;
const MOST = 1500; // lines that anybody can tell apart, and more
const BEST = 300;

/**
 * The picture of how parameters and scores go together.
 *
 * @param {Scope} scope Ends with it.
 * @param {Function} open Called with a trial's number when its line is clicked.
 */
export function parallel(scope, open) {
  const canvas = h("canvas", { role: "img", "aria-label": "Parameters and scores of the trials, as parallel coordinates" });
  const said = h("p.small.soft", { "aria-hidden": "true" }, " ");
  const place = h("div.chart", {}, canvas);
  place.style.setProperty("height", `${HEIGHT}px`);
  let trials = [];
  let axes = [];
  let lines = [];
  let near = null;
  let waiting = false;

  const paint = () => {
    waiting = false;
    const width = place.clientWidth;
    if (!scope.alive || width === 0 || axes.length === 0) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(HEIGHT * ratio);
      canvas.style.setProperty("width", `${width}px`);
      canvas.style.setProperty("height", `${HEIGHT}px`);
    }
    const draw = canvas.getContext("2d");
    draw.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw.clearRect(0, 0, width, HEIGHT);
    const step = axes.length > 1 ? (width - 2 * SIDE) / (axes.length - 1) : 0;
    lines = trials.map((trial) => axes.map((axis, n) => [SIDE + n * step, TOP + (1 - axis.at(trial)) * (HEIGHT - TOP - BOTTOM)]));
    strokes(draw, trials, lines, near);
    frame(draw, axes, step);
  };
  const later = () => {
    if (!waiting) requestAnimationFrame(paint);
    waiting = true;
  };

  canvas.addEventListener("mousemove", (event) => {
    const found = closest(lines, event.offsetX, event.offsetY);
    if (found === near) return;
    near = found;
    canvas.style.setProperty("cursor", near === null ? "default" : "pointer");
    say(said, near === null ? " " : `trial ${trials[near].trial}: ${sentence(trials[near])}`);
    later();
  });
  canvas.addEventListener("click", () => near !== null && open(trials[near].trial));
  const watch = new ResizeObserver(later);
  watch.observe(place);
  scope.end(() => watch.disconnect());
  onTurn(scope, later);
  const nothing = h("p.soft", {}, "Nothing was measured yet.");
  return {
    place: h("div", {}, nothing, place, said),
    /** Show these trials. */
    set(given) {
      trials = chosen(given.filter((t) => t.score !== null && t.origin !== "repeat"));
      axes = trials.length ? axesOf(trials) : [];
      near = null;
      nothing.hidden = trials.length > 0;
      place.hidden = said.hidden = trials.length === 0;
      later();
    },
  };
}

/** All trials, or where they are too many the best ones and every so-manieth of the others. */
function chosen(trials) {
  if (trials.length <= MOST) return trials;
  const best = new Set(trials.filter((t) => t.feasible).sort((a, b) => b.score - a.score).slice(0, BEST));
  const step = Math.ceil(trials.length / (MOST - BEST));
  return trials.filter((t, n) => best.has(t) || n % step === 0);
}

function sentence(trial) {
  const point = Object.entries(trial.params).map(([name, v]) => `${name}=${value(v)}`).join(" ");
  return `score ${number(trial.score)}, ${point}`;
}

function axesOf(trials) {
  const names = [...new Set(trials.flatMap((t) => Object.keys(t.params)))];
  const varied = names.filter((name) => trials.some((t) => !same(t.params[name], trials[0].params[name])));
  const scores = trials.map((t) => t.score);
  return [...varied.map((name) => axisOf(name, trials)), line("score", scores, (t) => t.score)];
}

function axisOf(name, trials) {
  const known = trials.map((t) => t.params[name]);
  const distinct = [...new Set(known.map((v) => JSON.stringify(v) ?? ""))];
  const numbers = known.every((v) => typeof v === "number");
  if (numbers && distinct.length > 8) return line(name, known, (t) => t.params[name]);
  distinct.sort((a, b) => (Number(a) - Number(b) || (a < b ? -1 : 1)));
  const place = new Map(distinct.map((v, n) => [v, distinct.length > 1 ? n / (distinct.length - 1) : 0.5]));
  const ticks = distinct.length > 12 ? [distinct[0], distinct.at(-1)] : distinct;
  return {
    name,
    at: (t) => place.get(JSON.stringify(t.params[name]) ?? ""),
    ticks: ticks.map((v) => [place.get(v), v === "" ? "–" : value(JSON.parse(v))]),
  };
}

function line(name, values, of) {
  const low = Math.min(...values);
  const high = Math.max(...values);
  const wide = low > 0 && high / low >= 32 && name !== "score";
  const scale = wide ? Math.log : (v) => v;
  const span = scale(high) - scale(low) || 1;
  return { name, at: (t) => (scale(of(t)) - scale(low)) / span, ticks: [[0, number(low)], [1, number(high)]] };
}

function strokes(draw, trials, lines, near) {
  const shades = colours("s6", "s2", "s4", "missed", "good");
  const scores = trials.map((t) => t.score);
  const best = Math.max(...trials.filter((t) => t.feasible).map((t) => t.score));
  const low = Math.min(...scores);
  const span = Math.max(...scores) - low || 1;
  const order = trials.map((_, n) => n).sort((a, b) => scores[a] - scores[b]);
  for (const n of order) {
    const part = (scores[n] - low) / span;
    const top = trials[n].feasible && scores[n] === best;
    const shown = n === near || top;
    draw.globalAlpha = shown ? 1 : trials.length > 200 ? 0.25 + 0.35 * part : 0.75;
    draw.strokeStyle = n === near ? shades.missed : top ? shades.good : !trials[n].feasible ? shades.s6 : part > 0.6 ? shades.s4 : shades.s2;
    draw.lineWidth = shown ? 3 : 1.2;
    draw.beginPath();
    lines[n].forEach(([x, y]) => draw.lineTo(x, y));
    draw.stroke();
  }
  draw.globalAlpha = 1;
}

function frame(draw, axes, step) {
  const shades = colours("line", "ink", "soft", "paper");
  draw.font = "12px system-ui, sans-serif";
  axes.forEach((axis, n) => {
    const x = SIDE + n * step;
    draw.strokeStyle = shades.line;
    draw.lineWidth = 1;
    draw.beginPath();
    draw.moveTo(x, TOP);
    draw.lineTo(x, HEIGHT - BOTTOM);
    draw.stroke();
    draw.textAlign = "center";
    // In two rows, so that neighbours have room.
    text(draw, shorten(draw, axis.name, Math.min(2 * (step || SIDE), 2 * SIDE + 40) - 12), x, n % 2 ? 28 : 13, shades.ink, shades.paper);
    for (const [at, label] of axis.ticks) {
      text(draw, shorten(draw, label, 90), x, TOP + (1 - at) * (HEIGHT - TOP - BOTTOM) + (at === 0 ? 14 : at === 1 ? -5 : 4), shades.soft, shades.paper);
    }
  });
}

// Lines run through labels; a border of paper keeps them readable.
function text(draw, words, x, y, ink, paper) {
  draw.lineWidth = 4;
  draw.lineJoin = "round";
  draw.strokeStyle = paper;
  draw.strokeText(words, x, y);
  draw.fillStyle = ink;
  draw.fillText(words, x, y);
}

function shorten(draw, words, room) {
  if (draw.measureText(words).width <= room) return words;
  let kept = words;
  while (kept.length > 1 && draw.measureText(`${kept}…`).width > room) kept = kept.slice(0, -1);
  return `${kept}…`;
}

function closest(lines, x, y) {
  let found = null;
  let least = NEAR;
  lines.forEach((points, n) => {
    for (let i = 1; i < points.length; i += 1) {
      const [[ax, ay], [bx, by]] = [points[i - 1], points[i]];
      if (x < ax || x > bx) continue;
      const far = Math.abs(ay + ((x - ax) / (bx - ax || 1)) * (by - ay) - y);
      if (far < least) [found, least] = [n, far];
    }
  });
  return found;
}
