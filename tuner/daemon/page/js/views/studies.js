// All studies.

import { get, hear } from "../api.js";
import { h, put } from "../dom.js";
import { moment, number } from "../format.js";

const SOON = 250;

export const title = () => "Studies";

export async function show(root, scope) {
  const place = h("div");
  put(root, h("div.head", {}, h("h1", {}, "Studies"), h("div.row", {}, h("a.button.primary", { href: "#/new" }, "New study"))), place);
  let timer = null;
  scope.end(() => clearTimeout(timer));

  const refresh = async () => {
    try {
      const found = await get("/v1/studies");
      if (scope.alive) put(place, found.length ? rows(found) : nothing());
    } catch (error) {
      scope.complain(error, place);
    }
  };
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(refresh, SOON);
  };
  const listen = () => {
    if (!scope.alive) return;
    const state = (connected) => {
      scope.live(connected);
      if (connected) soon(); // what happened before the stream was open
    };
    scope.end(hear("/v1/events", null, { event: ({ id }) => id && soon(), state, lost: listen }));
  };

  await refresh();
  listen();
}

function rows(studies) {
  const order = { running: 0, queued: 1, paused: 2 };
  const sorted = [...studies].sort((a, b) => (order[a.status] ?? 9) - (order[b.status] ?? 9) || (a.place ?? 0) - (b.place ?? 0) || b.created - a.created);
  return h("section.card", {}, h("div.wide", {}, h("table", {},
    h("thead", {}, h("tr", {}, ["Study", "Status"].map((name) => h("th", { scope: "col" }, name)),
      ["Trials", "Best score"].map((name) => h("th.number", { scope: "col" }, name)),
      ["Devices", "Begun", "Ended"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, sorted.map(row)))));
}

function row(study) {
  const address = `#/study/${encodeURIComponent(study.study)}`;
  const more = study.waiting ?? study.reason;
  return h("tr", {},
    h("td", {}, h("a.strong", { href: address }, study.study), study.priority ? h("span.small.soft", {}, ` priority ${study.priority}`) : null),
    h("td", {}, h("span.status", { class: study.status }, study.place ? `${study.status}, place ${study.place}` : study.status), more ? h("div.small.soft", {}, more) : null),
    h("td.number", {}, study.trials),
    h("td.number", {}, study.best ? number(study.best.score) : "–"),
    h("td", {}, study.devices.join(", ") || "–"), h("td", {}, moment(study.created)), h("td", {}, moment(study.ended)));
}

function nothing() {
  return h("section.card", {},
    h("h2", {}, "There is no study yet"),
    h("p", {}, "A study looks for the best way to deploy a model on this machine. It begins with a search space: which engine, which flags may change, how good an answer has to be."),
    h("p", {}, h("a.button.primary", { href: "#/new" }, "Begin one"), " ", h("span.soft", {}, "or in a terminal: "), h("code", {}, "tuner run")));
}
