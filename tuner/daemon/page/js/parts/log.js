// A log of any length: only the lines that are seen are there; those that prove a verdict are marked.

import { h, put, say } from "../dom.js";

const LINE = 18;
const SPARE = 30;
const WIDEST = 4000;

/** A log; "add" appends text in whole lines, "proofs" says which lines are marked, from 1. */
export function log(label) {
  let lines = [];
  let marked = new Set();
  let found = [];
  let place = -1;
  const list = h("ol");
  const height = h("div");
  const box = h("div.log", { tabindex: "0", role: "region", "aria-label": label }, height, list);
  const search = h("input", { type: "search", id: "log-find", placeholder: "error, oom …", autocomplete: "off" });
  const count = h("span.small.soft", { role: "status" });
  const tail = h("input", { type: "checkbox", id: "log-tail" });

  const paint = () => {
    const first = Math.max(0, Math.floor(box.scrollTop / LINE) - SPARE);
    const last = Math.min(lines.length, Math.ceil((box.scrollTop + (box.clientHeight || 500)) / LINE) + SPARE);
    height.style.setProperty("height", `${lines.length * LINE}px`);
    list.style.setProperty("top", `${first * LINE}px`);
    put(list, lines.slice(first, last).map((text, n) => {
      const number = first + n + 1;
      const kind = (marked.has(number) ? ".proof" : "") + (found[place] === number ? ".found" : "");
      return h(`li${kind}`, { "data-line": number, "aria-label": marked.has(number) ? `proof, line ${number}: ${text}` : null },
        text.length > WIDEST ? `${text.slice(0, WIDEST)} …` : text);
    }));
  };
  const go = (number) => {
    box.scrollTop = Math.max(0, (number - 1) * LINE - box.clientHeight / 3);
    paint();
  };
  const look = () => {
    const wanted = search.value.toLowerCase();
    found = wanted ? lines.flatMap((text, n) => (text.toLowerCase().includes(wanted) ? [n + 1] : [])) : [];
    place = -1;
    say(count, wanted ? `${found.length} lines` : `${lines.length} lines`);
  };
  const step = (by) => {
    const among = found.length || search.value ? found : [...marked].sort((a, b) => a - b);
    if (among.length === 0) return;
    if (!found.length) found = among;
    place = (place + by + among.length) % among.length;
    go(among[place]);
  };
  box.addEventListener("scroll", () => requestAnimationFrame(paint), { passive: true });
  search.addEventListener("input", () => {
    look();
    step(1);
    paint();
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
  });
  return {
    place: h("div", {},
      h("p.row", {}, h("label", { for: "log-find" }, "Find"), search,
        h("button.small", { type: "button", on: { click: () => step(1) } }, "Next"),
        h("button.small", { type: "button", on: { click: () => step(-1) } }, "Previous"), count,
        h("label", { for: "log-tail" }, "Stay at the end "), tail), box),
    add(text) {
      if (!text) return;
      lines.push(...text.replace(/\n$/, "").split("\n"));
      if (search.value === "") look();
      if (tail.checked) box.scrollTop = lines.length * LINE;
      paint();
    },
    proofs(numbers) {
      marked = new Set(numbers);
      paint();
    },
    /** Show the first line that proves something, or the end of a log that still grows. */
    settle(growing) {
      tail.checked = growing;
      if (growing) box.scrollTop = lines.length * LINE;
      else if (marked.size) go(Math.min(...marked));
      paint();
    },
    go,
    clear() {
      lines = [];
      look();
      paint();
    },
    text: () => `${lines.join("\n")}\n`,
  };
}
