// The machine while a study runs: its last minutes, as they go on.

import { h, put } from "../dom.js";
import { bytes, number } from "../format.js";
import { chart, lineLegend } from "./chart.js";

const KEPT = 300;
const SHADES = ["best", "missed", "good", "memory", "wrong", "worse", "crashed", "outside"];

/** Curves of the host, the engine and the devices; "take" is given each sample. */
export function watch() {
  const place = h("div", {}, h("p.soft", {}, "It is shown while a trial runs."));
  let times = [];
  let pictures = null;
  let known = "";

  const build = (sample) => {
    const devices = (sample.devices ?? []).map((_, n) => [`device ${n}`, (s) => s.devices?.[n]]);
    const busy = [["host", (s) => s.host?.cpu], ...devices.map(([name, of]) => [name, (s) => of(s)?.utilization])];
    const memory = [
      ["engine", (s) => s.tree?.pss ?? s.tree?.rss],
      ["used on the host", (s) => (s.host?.memory_limit ? s.host.memory_limit - s.host.memory_available : null)],
      ...devices.map(([name, of]) => [name, (s) => of(s)?.memory_used]),
    ];
    pictures?.forEach((one) => one.close());
    pictures = [picture("Busy, %", busy, (v) => number(v, 3), 100), picture("Memory", memory, bytes, null)];
    put(place, h("div.grid.two", {}, pictures.map((one) => one.place)));
    times = [];
  };

  return {
    place,
    take({ at, data }) {
      const shape = JSON.stringify([data.devices?.length ?? 0]);
      if (shape !== known || pictures === null) build(data);
      known = shape;
      times = [...times, at].slice(-KEPT);
      for (const one of pictures) one.add(data, times);
    },
    end() {
      pictures?.forEach((one) => one.close());
    },
  };
}

function picture(label, lines, values, top) {
  const ends = [];
  const drawn = chart({ end: (action) => ends.push(action) }, {
    says: `${label}, the last minutes`, height: 170, x: "seconds ago", y: "", values,
    series: lines.map(([name], n) => ({ label: name, colour: SHADES[n % SHADES.length], span: true })),
    yRange: (_, low, high) => [0, top ?? 1.08 * (high || 1)],
    xValues: (v) => number(-v),
  });
  let points = lines.map(() => []);
  return {
    place: h("section", {}, h("h3", {}, label), lineLegend(lines.map(([name], n) => [name, `s${n + 1}`])), drawn.place),
    add(sample, times) {
      points = points.map((before, n) => [...before, lines[n][1](sample) ?? null].slice(-KEPT));
      const last = times.at(-1);
      drawn.set([times.map((at) => at - last), ...points]);
    },
    close() {
      for (const action of ends) action();
    },
  };
}
