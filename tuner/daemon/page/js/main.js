// The page's frame: which view is shown, the session, what is wrong with the daemon.

import { Problem, get, session } from "./api.js";
import { h, put, say } from "./dom.js";
import * as compare from "./views/compare.js";
import * as create from "./views/create.js";
import * as machine from "./views/machine.js";
import * as studies from "./views/studies.js";
import * as study from "./views/study.js";
import * as trial from "./views/trial.js";

const VIEWS = [
  [/^#\/$/, studies],
  [/^#\/new$/, create],
  [/^#\/machine$/, machine],
  [/^#\/study\/([^/]+)$/, study],
  [/^#\/study\/([^/]+)\/trial\/(\d+)$/, trial],
  [/^#\/study\/([^/]+)\/compare\/(\d+)\/(\d+)$/, compare],
];
const HEALTH = 15_000;

const main = document.querySelector("#main");
const link = document.querySelector("#link");
const problems = document.querySelector("#problems");

/** What a view may use for as long as it is shown; all of it ends when another is. */
class Scope {
  constructor() {
    this.alive = true;
    this.ends = [];
  }

  /** Have something done when the view goes. */
  end(action) {
    if (this.alive) this.ends.push(action);
    else action();
  }

  /** Do something again and again, while somebody looks. */
  every(milliseconds, action) {
    const timer = setInterval(() => document.hidden || action(), milliseconds);
    this.end(() => clearInterval(timer));
  }

  /** Say in the page's head whether what is shown is true now. */
  live(connected) {
    if (!this.alive) return;
    link.className = connected ? "live" : "lost";
    say(link, connected ? "live" : "no connection, trying again");
  }

  /** Show why something could not be done. */
  complain(error, place) {
    if (!this.alive) return;
    if (error instanceof Problem && error.status === 401) put(main, stranger());
    else put(place ?? main, trouble(error));
  }

  close() {
    this.alive = false;
    for (const action of this.ends.splice(0)) action();
  }
}

let scope = new Scope();

function trouble(error) {
  if (!(error instanceof Problem)) console.error(error);
  const again = h("button.small", { type: "button", on: { click: () => show({ focus: false }) } }, "Try again");
  return h("div.problem", { role: "alert" },
    h("p", {}, error.message),
    error.errors?.length ? h("ul", {}, error.errors.map((line) => h("li", {}, line))) : null,
    error.status === 0 ? h("p.soft", {}, "If it was ended, start it again: tuner page") : null,
    h("p", {}, again));
}

function stranger() {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const enter = async (event) => {
    event.preventDefault();
    try {
      await session(field.value.trim().replace(/^.*#token=/, ""));
      show({ focus: false });
    } catch (error) {
      put(main, stranger(), trouble(error));
    }
  };
  return h("section.card", {},
    h("h1", {}, "This page is its owner's alone"),
    h("p", {}, "Open it with the address that ", h("code", {}, "tuner page"), " prints, or paste that address, or the token in it, here."),
    h("form.row", { on: { submit: enter } },
      h("label", { for: "token" }, "Token"), field, h("button.primary", { type: "submit" }, "Open")));
}

async function show({ focus = true } = {}) {
  scope.close();
  const own = (scope = new Scope());
  const given = location.hash || "#/";
  link.className = "";
  say(link, "");
  put(problems);
  for (const [pattern, view] of VIEWS) {
    const found = pattern.exec(given);
    if (!found) continue;
    const args = found.slice(1).map(decodeURIComponent);
    document.title = `${view.title(...args)} · tuner`;
    mark(view === create ? "#/new" : view === machine ? "#/machine" : "#/");
    put(main);
    if (focus) {
      main.focus({ preventScroll: true });
      scrollTo(0, 0);
    }
    try {
      await view.show(main, own, ...args);
    } catch (error) {
      own.complain(error);
    }
    if (own.alive) health(own);
    return;
  }
  put(main, h("p.problem", {}, "There is no such page. ", h("a", { href: "#/" }, "All studies")));
}

function mark(current) {
  for (const entry of document.querySelectorAll("body > header nav a")) {
    if (entry.getAttribute("href") === current) entry.setAttribute("aria-current", "page");
    else entry.removeAttribute("aria-current");
  }
}

function health(own) {
  const look = async () => {
    try {
      const found = await get("/v1/health");
      const lines = [...found.problems];
      if (found.recovering) lines.push("the daemon still ends what an earlier one left");
      if (found.stopping) lines.push("the daemon is ending");
      if (own.alive) put(problems, lines.map((line) => h("p.problem", {}, line)));
    } catch {
      // A view that needs the daemon says so itself.
    }
  };
  look();
  own.every(HEALTH, look);
}

async function begin() {
  const token = /^#token=(.+)$/.exec(location.hash);
  if (token) {
    history.replaceState(null, "", "#/");
    try {
      await session(token[1]);
    } catch (error) {
      put(main, stranger(), trouble(error));
      return;
    }
  }
  addEventListener("hashchange", begin_again);
  show({ focus: false });
}

function begin_again() {
  if (location.hash.startsWith("#token=")) {
    removeEventListener("hashchange", begin_again);
    begin();
  } else if (location.hash !== "#main") {
    show();
  }
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
begin();
