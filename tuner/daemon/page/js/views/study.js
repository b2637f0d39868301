// A study while it runs and after.

import { get, hear, study as path, text } from "../api.js";
import { card, fill, h, put, renew } from "../dom.js";
import { moment, number } from "../format.js";
import { actions, downloads } from "../parts/actions.js";
import { importance, margins } from "../parts/bars.js";
import { decision } from "../parts/decision.js";
import { levels } from "../parts/levels.js";
import { link, list } from "../parts/list.js";
import { ahead, happening, now, spent } from "../parts/now.js";
import { parallel } from "../parts/parallel.js";
import { scores } from "../parts/scores.js";
import { watch } from "../parts/watch.js";
import { OPEN, USUAL } from "../words.js";

const SOON = 250;
const CALM = 5000;
const PAST = 200;
const MOST = 300;

export const title = (name) => name;

export async function show(root, scope, name) {
  const view = new Study(root, scope, name);
  await view.begin();
}

class Study {
  constructor(root, scope, name) {
    Object.assign(this, { scope, name, trials: new Map(), changed: new Set(), budget: null, said: 0, known: -1 });
    const open = (trial) => (location.hash = link(name, trial));
    this.list = list(name);
    this.now = now(name);
    this.machine = watch();
    this.machineCard = card("Machine", this.machine.place);
    this.scores = scores(scope, open);
    this.parallel = parallel(scope, open);
    this.head = h("div");
    this.error = h("div", { role: "alert" });
    this.best = h("div");
    this.spent = h("div");
    this.importance = h("div", {}, h("p.soft", {}, "…"));
    this.decision = h("div");
    this.levels = h("div");
    this.happenings = h("ol.happenings", { tabindex: "0", "aria-label": "What happened, the newest first" });
    this.log = h("div");
    fill(root, this.head, this.error, this.decision,
      h("div.grid", {}, card("Now", this.now.place), card("Best so far", this.best), card("Spent", this.spent)),
      card("Scores", this.scores.place),
      this.machineCard,
      h("div.grid.two", {}, card("Importance of parameters", this.importance), card("Parameters and scores", this.parallel.place)),
      this.levels,
      card("Trials", this.list.place),
      card("What happened", this.happenings, this.log));
    scope.end(() => {
      clearTimeout(this.soon);
      clearTimeout(this.calm);
      this.list.end();
      this.machine.end();
    });
    scope.every(1000, () => this.now.tick());
  }

  /** Ask for all, and hear what comes after. */
  async begin() {
    const [study, trials] = await Promise.all([get(path(this.name)), get(path(this.name, "/trials"))]);
    if (!this.scope.alive) return;
    this.known = study.last_event;
    this.trials = new Map(trials.map((trial) => [trial.trial, trial]));
    this.take(study);
    this.paint();
    this.weigh();
    const from = Math.max(0, this.said || study.last_event - PAST);
    this.scope.end(hear(path(this.name, "/events"), from, {
      event: (event) => this.hear(event),
      state: (connected) => this.scope.live(connected),
      lost: () => this.begin().catch((error) => this.scope.complain(error, this.error)),
    }));
  }

  hear(event) {
    const words = happening(event);
    if (event.id && event.id > this.said) {
      this.said = event.id;
      if (words) this.happened(event, words);
    } else if (event.id) {
      return;
    }
    if (event.id && event.id <= this.known) return;
    if (event.kind === "budget") {
      this.budget = event.data;
      if (this.study) put(this.spent, spent(this.study, this.budget));
    }
    this.now.take(event);
    if (event.kind === "sample") this.machine.take(event);
    if (!event.id) return;
    if (event.number !== null) this.changed.add(event.number);
    if (event.kind === "told") {
      this.list.fresh(event.number);
      this.later();
    }
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.refresh(), SOON);
  }

  happened(event, words) {
    const line = h("li", {}, h("time", {}, moment(event.at).slice(11)), words);
    this.happenings.prepend(line);
    while (this.happenings.children.length > MOST) this.happenings.lastChild.remove();
  }

  /** Ask again for what has changed; one question at a time, so that no older answer comes last. */
  async refresh() {
    this.again = true;
    if (this.asking) return;
    this.asking = true;
    while (this.again && this.scope.alive) {
      this.again = false;
      await this.ask();
    }
    this.asking = false;
  }

  async ask() {
    const changed = [...this.changed];
    this.changed.clear();
    try {
      const low = Math.min(...changed);
      const high = Math.max(...changed);
      const below = `/trials?after=${low - 1}&limit=${high - low + 1}`;
      const [study, trials] = await Promise.all([get(path(this.name)), changed.length ? get(path(this.name, below)) : []]);
      if (!this.scope.alive) return;
      for (const trial of trials) this.trials.set(trial.trial, trial);
      this.take(study);
      this.paint();
    } catch (error) {
      this.scope.complain(error, this.error);
    }
  }

  take(study) {
    const { scope, name } = this;
    const ended = this.study && this.study.status !== study.status && !OPEN.has(study.status);
    this.study = study;
    const complain = (error) => scope.complain(error, this.error);
    const { status, reason, wanted, limits, priority, decision: decided } = study;
    renew(this.head, [status, reason, wanted, limits, priority, decided, study.best, study.trials > 0], () => [
      h("p.crumbs", {}, h("a", { href: "#/" }, "Studies"), " / "),
      h("div.head", {},
        h("h1", {}, name), h("span.status", { class: status }, status),
        reason ? h("span.soft.small", {}, reason) : null,
        h("div.row", {}, actions(study, () => this.refresh(), complain), downloads(study)))]);
    this.now.set(study);
    this.machineCard.hidden = !OPEN.has(status);
    renew(this.best, [study.best, study.margins, study.front, study.trials > 0, this.first()?.score], () => best(study, this.first()));
    put(this.spent, spent(study, this.budget));
    renew(this.decision, decided, () => (decided ? card("Baseline against finalists", decision(name, decided)) : null));
    renew(this.levels, study.levels, () => (study.levels.length ? card("Levels of fidelity", levels(study.levels)) : null));
    if (ended) this.weigh();
    if (study.status === "failed" || study.status === "stopped") this.worker();
  }

  first() {
    for (const trial of this.trials.values()) if (trial.origin === "baseline") return trial;
    return null;
  }

  paint() {
    const trials = [...this.trials.values()].sort((a, b) => a.trial - b.trial);
    this.scores.set(trials, this.study.baseline);
    this.parallel.set(trials);
    this.list.set(trials, { base: this.study.baseline, baseScore: this.first()?.score ?? null, best: this.study.best?.trial ?? null });
  }

  /** Ask which parameters matter, not more often than anybody reads. */
  later() {
    if (this.calm) return;
    this.calm = setTimeout(() => {
      this.calm = null;
      this.weigh();
    }, CALM);
  }

  async weigh() {
    try {
      const found = await get(path(this.name, "/importance"));
      if (this.scope.alive) put(this.importance, importance(found));
    } catch (error) {
      put(this.importance, h("p.soft", {}, error.message));
    }
  }

  /** What the worker printed, where it did not end well. */
  async worker() {
    try {
      const found = await text(path(this.name, "/log"));
      if (found.text.trim() && this.scope.alive) put(this.log, h("h3", {}, "What its worker printed"), h("pre", { tabindex: "0" }, found.text.slice(-20_000)));
    } catch {
      // There is none.
    }
  }
}

function best(study, baseline) {
  if (!study.best) return h("p.soft", {}, study.trials ? "Nothing has passed its gates yet." : "Nothing was measured yet.");
  const more = ahead(study.best, baseline);
  const place = h("div", {},
    h("p.big", {}, number(study.best.score)),
    h("p.soft.small", {}, "trial ", h("a", { href: link(study.study, study.best.trial) }, study.best.trial),
      more ? `, ${more} to the baseline on one start each` : study.best.trial === baseline?.trial ? ", the baseline itself" : ""),
    study.objective === USUAL ? null : h("p.soft.small", {}, `The score is ${study.objective}.`),
    h("h3", {}, "How far it stays from each gate"), margins(study.margins), front(study));
  return place;
}

/** The trials that no other one beats in both of two objectives, with what the rule takes of them. */
function front(study) {
  if (!study.front?.trials.length) return null;
  const names = study.front.objectives;
  return h("div", {}, h("h3", {}, "No trial beats these in both objectives"), h("div.wide", {}, h("table", {},
    h("thead", {}, h("tr", {}, h("th", {}, "Trial"), names.map((name) => h("th.number", {}, name)), h("th", {}, ""))),
    h("tbody", {}, study.front.trials.map((one) => h("tr", {},
      h("td", {}, h("a", { href: link(study.study, one.trial) }, one.trial)),
      names.map((name) => h("td.number", {}, number(one.figures[name]))),
      h("td", {}, one.trial === study.front.chosen ? "chosen" : one.kept ? "" : "over the rule's limit")))))));
}
