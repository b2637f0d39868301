// A table of any number of trials: only the rows that are seen are there.

import { h, put, say } from "../dom.js";
import { number, percent, seconds, value, what } from "../format.js";
import { FAMILIES } from "../words.js";
import { verdict } from "./scores.js";

const ROW = 30;
const SPARE = 12;
const TALLEST = 560; // as the style sheet has it: an empty box is lower

const COLUMNS = [
  ["trial", "Trial", true, (t) => t.trial],
  ["origin", "Origin", false, (t) => t.origin],
  ["verdict", "Verdict", false, (t) => t.verdict ?? t.stage],
  ["score", "Score", true, (t) => t.score],
  ["base", "To baseline", true, (t) => t.score],
  ["seconds", "Seconds", true, (t) => t.seconds],
  ["point", "What it changes", false, null],
];

/**
 * The trials of a study.
 *
 * @param {string} name The study's name.
 */
export function list(name) {
  let trials = [];
  let shown = [];
  let order = { column: "trial", down: false };
  let about = { base: null, baseScore: null, best: null };
  let active = 0;
  const fresh = new Map();

  const search = h("input", { type: "search", id: "filter", placeholder: "batch=4096, oom, 17 …", autocomplete: "off" });
  const family = h("select", { id: "family" }, h("option", { value: "" }, "all"),
    Object.entries(FAMILIES).map(([key, one]) => h("option", { value: key }, one.label)));
  const count = h("span.small.soft", { role: "status" });
  const heads = COLUMNS.map(([key, label, numeric]) => h(`th.c-${key}${numeric ? ".number" : ""}`, { scope: "col", "aria-sort": "none" },
    h("button", { type: "button", on: { click: () => sortBy(key) } }, label)));
  const rows = h("tbody");
  const grid = h("table", { "aria-label": `Trials of ${name}` }, h("thead", {}, h("tr", {}, heads)), rows);
  const box = h("div.list", { tabindex: "0", role: "region", "aria-label": "Trials; arrow keys go through them, Enter opens one" }, grid);

  function choose() {
    const wanted = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    shown = trials.filter((t) => (!family.value || t.family === family.value) && wanted.every((word) => text(t).includes(word)));
    const [, , , of] = COLUMNS.find(([key]) => key === order.column);
    const by = of ?? ((t) => what(t, about.base));
    const none = order.down ? -Infinity : Infinity;
    const keyed = shown.map((t) => [by(t) ?? none, t]);
    keyed.sort(([a, s], [b, t]) => (a === b ? s.trial - t.trial : (a < b ? -1 : 1) * (order.down ? -1 : 1)));
    shown = keyed.map(([, t]) => t);
    heads.forEach((head, n) => head.setAttribute("aria-sort", COLUMNS[n][0] !== order.column ? "none" : order.down ? "descending" : "ascending"));
    grid.setAttribute("aria-rowcount", String(shown.length + 1));
    say(count, `${shown.length === trials.length ? "" : `${shown.length} of `}${trials.length} trial${trials.length === 1 ? "" : "s"}`);
    active = Math.min(active, Math.max(0, shown.length - 1));
    paint();
  }

  function sortBy(key) {
    const falling = key === "score" || key === "base";
    order = { column: key, down: order.column === key ? !order.down : falling };
    choose();
  }

  function paint() {
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
    const last = Math.min(shown.length, Math.ceil((box.scrollTop + Math.max(box.clientHeight, TALLEST)) / ROW) + SPARE);
    const inside = document.activeElement?.closest?.(".list tbody tr");
    const at = inside && box.contains(inside) ? Number(inside.dataset.row) : null;
    put(rows, room(first * ROW), shown.slice(first, last).map((t, n) => row(t, first + n)), room((shown.length - last) * ROW));
    if (at !== null) rows.querySelector(`tr[data-row="${at}"] a`)?.focus({ preventScroll: true });
  }

  function row(t, n) {
    const difference = t.score !== null && about.baseScore ? percent(t.score / about.baseScore - 1) : "–";
    const missed = (t.missed?.length ? ` ${t.missed.join(", ")}` : "") + (t.level ? ` on ${t.level}` : "");
    const point = what(t, about.base);
    return h(`tr${t.trial === about.best ? ".best" : ""}${fresh.has(t.trial) ? ".fresh" : ""}`, { "data-row": n, "aria-rowindex": n + 2 },
      h("td.number", {}, h("a", { href: link(name, t.trial), on: { focus: () => (active = n) } }, t.trial)),
      h("td", {}, t.origin),
      h("td", { title: (t.verdict ?? t.stage) + missed }, verdict(t.family, (t.verdict ?? t.stage) + missed)),
      h("td.number", {}, number(t.score)), h("td.number", {}, t.origin === "baseline" ? "baseline" : difference),
      h("td.number", {}, t.seconds ? seconds(t.seconds) : "–"), h("td", { title: point }, point));
  }

  function go(to) {
    const target = Math.min(Math.max(0, to), shown.length - 1);
    const top = target * ROW;
    const head = grid.tHead.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + ROW + head > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW + head - box.clientHeight;
    paint();
    active = target;
    rows.querySelector(`tr[data-row="${target}"] a`)?.focus({ preventScroll: true });
  }

  const page = () => Math.max(1, Math.floor(box.clientHeight / ROW) - 2);
  const KEYS = {
    ArrowDown: () => active + (box === document.activeElement ? 0 : 1), ArrowUp: () => active - 1, PageDown: () => active + page(),
    PageUp: () => active - page(), Home: () => 0, End: () => shown.length - 1,
  };
  box.addEventListener("keydown", (event) => {
    if (!(event.key in KEYS) || event.target.closest("th") || shown.length === 0) return;
    event.preventDefault();
    go(KEYS[event.key]());
  });
  box.addEventListener("scroll", () => requestAnimationFrame(paint), { passive: true });
  search.addEventListener("input", choose);
  family.addEventListener("change", choose);

  return {
    place: h("div", {},
      h("p.row", {}, h("label", { for: "filter" }, "Find"), search, h("label", { for: "family" }, "Show"), family, count), box),
    /** Show these trials; "about" is the baseline's point and score, and the best trial's number. */
    set(given, more) {
      trials = given;
      about = more;
      choose();
    },
    /** Mark a trial as one that has just come. */
    fresh(trial) {
      fresh.set(trial, setTimeout(() => fresh.delete(trial) && paint(), 4000));
    },
    end() {
      for (const timer of fresh.values()) clearTimeout(timer);
    },
  };
}

function text(t) {
  const point = Object.entries(t.params).map(([name, v]) => `${name}=${value(v)}`).join(" ");
  return `${t.trial} ${t.origin} ${t.verdict ?? t.stage} ${(t.missed ?? []).join(" ")} ${point}`.toLowerCase();
}

function room(height) {
  const cell = h("td", { colspan: COLUMNS.length });
  cell.style.setProperty("height", `${Math.max(0, height)}px`);
  return height > 0 ? h("tr.room", { "aria-hidden": "true" }, cell) : null;
}

/** The address of a trial's page. */
export function link(study, trial) {
  return `#/study/${encodeURIComponent(study)}/trial/${trial}`;
}
