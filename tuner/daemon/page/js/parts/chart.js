// A chart of lines over one axis, by uPlot, in the page's colours and as wide as its place.

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { h } from "../dom.js";
import { number } from "../format.js";
import { colours, onTurn } from "./colours.js";

const FONT = "12px system-ui, sans-serif";

/** An axis in the page's colours. */
function axis(label, values, size) {
  const { soft, grid } = colours("soft", "grid");
  return {
    stroke: soft, font: FONT, labelFont: FONT, label, labelSize: 22, labelGap: 2, size, gap: 6,
    grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 },
    values: values && ((_, splits) => splits.map(values)),
  };
}

/**
 * Draw a chart.
 *
 * @param {Scope} scope Ends with it.
 * @param {object} given "says" is what it shows, in words; "height"; "x" and "y" are the axes' labels; "series"
 *   the lines: label, colour (a name), dash, step; "yRange" and "xRange" give an axis' ends from its lowest and highest value; "hooks"
 *   are uPlot's, "values" formats the y axis.
 * @returns {object} "place" is the element, "set" gives it data, "again" draws it anew.
 */
export function chart(scope, given) {
  const place = h("div.chart", { role: "img", "aria-label": given.says });
  const height = given.height ?? 260;
  place.style.setProperty("height", `${height}px`);
  let data = null;
  let plot = null;
  let left = false;

  const build = () => {
    plot?.destroy();
    plot = null;
    if (data === null || place.clientWidth === 0) return;
    const shades = colours(...given.series.map((line) => line.colour));
    plot = new uPlot({
      width: place.clientWidth, height,
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, ...given.cursor },
      scales: { x: { time: false, range: given.xRange }, y: { range: given.yRange } },
      axes: [axis(given.x, given.xValues, 38), axis(given.y, given.values ?? ((v) => number(v)), 64)],
      series: [{}, ...given.series.map((line) => ({
        label: line.label, stroke: shades[line.colour], width: line.width ?? 1.6, dash: line.dash,
        paths: line.step ? uPlot.paths.stepped({ align: 1 }) : undefined, points: { show: false }, spanGaps: line.span,
      }))],
      hooks: given.hooks ?? {},
    }, data, place);
  };
  const watch = new ResizeObserver(() => {
    if (left) return;
    if (plot === null) build();
    else if (Math.abs(plot.width - place.clientWidth) > 1) plot.setSize({ width: place.clientWidth, height });
  });
  watch.observe(place);
  onTurn(scope, build);
  scope.end(() => {
    left = true;
    watch.disconnect();
    plot?.destroy();
  });
  return {
    place,
    set(next) {
      data = next;
      if (plot === null) build();
      else plot.setData(data);
    },
    again: build,
    get plot() {
      return plot;
    },
  };
}

/** The names of a chart's lines, beside their colours. */
export function lineLegend(lines) {
  return h("ul.legend", {}, lines.map(([label, kind]) => h("li", {}, h("span.swatch", { class: kind, "aria-hidden": "true" }), label)));
}

/** A small box beside the pointer. */
export function tip(place) {
  const box = h("div.tip", { hidden: true });
  place.append(box);
  return {
    show(x, y, ...lines) {
      box.replaceChildren(...lines.map((line) => h("p", {}, line)));
      box.hidden = false;
      const right = x > place.clientWidth / 2;
      box.style.setProperty("left", right ? "auto" : `${x + 14}px`);
      box.style.setProperty("right", right ? `${place.clientWidth - x + 14}px` : "auto");
      box.style.setProperty("top", `${Math.max(0, y - 12)}px`);
    },
    hide() {
      box.hidden = true;
    },
  };
}
