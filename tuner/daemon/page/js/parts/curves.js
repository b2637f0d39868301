// Curves of the machine while a trial ran: host, engine, devices.

import { h } from "../dom.js";
import { bytes, number } from "../format.js";
import { chart, lineLegend } from "./chart.js";

const SHADES = ["best", "missed", "good", "memory", "wrong", "worse", "crashed", "outside"];

/** All curves of a trial's samples; they end with the scope. */
export function curves(scope, samples) {
  const known = samples.filter((sample) => !sample.gap);
  if (known.length < 2) return h("p.soft", {}, "There are no samples of this start.");
  const times = known.map((sample) => sample.at);
  const devices = [...new Set(known.flatMap((sample) => (sample.devices ?? []).map((d) => d.key ?? d.uuid ?? String(d.index))))];
  const of = (figure) => devices.map((key, n) => [`device ${n}`, known.map((s) => (s.devices ?? []).find((d) => (d.key ?? d.uuid ?? String(d.index)) === key)?.[figure] ?? null)]);
  const host = (figure) => [["host", known.map((s) => s.host?.[figure] ?? null)]];
  const pictures = [
    ["Processors of the host, % busy", host("cpu"), (v) => number(v, 3), 100],
    ["Memory", [
      ["engine", known.map((s) => s.tree?.pss ?? s.tree?.rss ?? null)],
      ["used on the host", known.map((s) => (s.host?.memory_limit ? s.host.memory_limit - s.host.memory_available : null))],
    ], bytes, null],
    ["Devices, % busy", of("utilization"), (v) => number(v, 3), 100],
    ["Memory of the devices", of("memory_used"), bytes, null],
    ["Power of the devices, W", of("power"), (v) => number(v, 3), null],
  ];
  return h("div.grid.two", {}, pictures.map(([label, lines, values, top]) => picture(scope, known, times, label, lines, values, top)));
}

function picture(scope, samples, times, label, lines, values, top) {
  const shown = lines.filter(([, points]) => points.some((v) => v !== null));
  if (shown.length === 0) return null;
  const drawn = chart(scope, {
    says: label, height: 190, x: "seconds", y: "", values,
    series: shown.map(([name], n) => ({ label: name, colour: SHADES[n % SHADES.length], span: true })),
    yRange: (_, low, high) => [0, top ?? 1.08 * (high || 1)],
    hooks: { drawClear: [(plot) => bands(plot, samples)] },
  });
  drawn.set([times, ...shown.map(([, points]) => points)]);
  const legend = shown.length > 1 ? lineLegend(shown.map(([name], n) => [name, `s${n + 1}`])) : null;
  return h("section", {}, h("h3", {}, label), legend, drawn.place);
}

// Where one stage ends and the next begins.
function bands(plot, samples) {
  const style = getComputedStyle(document.documentElement);
  const draw = plot.ctx;
  const ratio = devicePixelRatio || 1;
  draw.save();
  draw.font = `${11 * ratio}px system-ui, sans-serif`;
  draw.fillStyle = style.getPropertyValue("--soft");
  draw.strokeStyle = style.getPropertyValue("--line");
  draw.setLineDash([3 * ratio, 3 * ratio]);
  let before = null;
  let end = -Infinity;
  let row = 1;
  for (const sample of samples) {
    if (sample.stage === before) continue;
    before = sample.stage;
    const x = plot.valToPos(sample.at, "x", true);
    draw.beginPath();
    draw.moveTo(x, plot.bbox.top);
    draw.lineTo(x, plot.bbox.top + plot.bbox.height);
    draw.stroke();
    row = x < end ? row + 1 : 1; // a short stage's name would run into the next one
    end = Math.max(x < end ? end : 0, x + draw.measureText(sample.stage).width + 8 * ratio);
    const over = x + draw.measureText(sample.stage).width > plot.bbox.left + plot.bbox.width;
    draw.textAlign = over ? "right" : "left";
    draw.fillText(sample.stage, x + (over ? -4 : 4) * ratio, plot.bbox.top + row * 11 * ratio);
  }
  draw.restore();
}
