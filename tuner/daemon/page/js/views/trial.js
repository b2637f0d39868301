// A trial: why it ended as it did, what was measured, what ran, what the engine printed.

import { get, hear, study as path, text } from "../api.js";
import { card, copier, fill, h, put, renew, saver, table } from "../dom.js";
import { moment, number, percent, same, seconds, value } from "../format.js";
import { exporter } from "../parts/actions.js";
import { stages } from "../parts/bars.js";
import { command } from "../parts/command.js";
import { curves } from "../parts/curves.js";
import { workload } from "../parts/figures.js";
import { link } from "../parts/list.js";
import { log } from "../parts/log.js";
import { verdict } from "../parts/scores.js";

const PART = 1 << 20;
const AGAIN = 1000;

export const title = (name, number) => `Trial ${number} of ${name}`;

export async function show(root, scope, name, given) {
  const view = new Trial(root, scope, name, Number(given));
  await view.begin();
}

class Trial {
  constructor(root, scope, name, number) {
    Object.assign(this, { scope, name, number, read: 0, reading: false, over: false, attempt: 0, last: 0 });
    this.error = h("div", { role: "alert" });
    this.parts = h("div");
    this.log = log("Log of the engine");
    this.logPlace = h("div", {}, h("p.soft", {}, "…"));
    fill(root, this.error, this.parts, card("Log of the engine", this.logPlace));
    scope.every(AGAIN, () => this.over || this.follow());
    scope.end(() => {
      clearTimeout(this.soon);
      this.fade();
    });
  }

  /** End the curves that are shown, for they are drawn anew. */
  fade() {
    for (const action of this.curves?.ends ?? []) action();
    const ends = [];
    this.curves = { ends, end: (action) => ends.push(action) };
  }

  below(more = "") {
    return path(this.name, `/trials/${this.number}${more}`);
  }

  async begin() {
    this.study = await get(path(this.name));
    const base = await this.baseline();
    await this.look(base);
    if (this.over) return;
    this.scope.end(hear(path(this.name, "/events"), this.study.last_event, {
      event: ({ id, number }) => {
        if (!id || number !== this.number) return;
        clearTimeout(this.soon);
        this.soon = setTimeout(() => this.look(base).catch((error) => this.scope.complain(error, this.error)), 200);
      },
      state: (connected) => this.over || this.scope.live(connected),
      lost: () => this.begin().catch((error) => this.scope.complain(error, this.error)),
    }));
  }

  async baseline() {
    const first = this.study.decision?.baseline ?? 0;
    if (this.study.trials === 0 || first === this.number) return null;
    try {
      const found = await get(path(this.name, `/trials/${first}`));
      return found.origin === "baseline" ? found : null;
    } catch {
      return null;
    }
  }

  async look(base) {
    const trial = await get(this.below());
    const [loads, samples] = await Promise.all([
      trial.metrics ? get(this.below("/loads")).catch(() => ({})) : {},
      trial.attempt ? get(this.below("/telemetry?points=400")).catch(() => []) : [],
    ]);
    if (!this.scope.alive) return;
    this.over = trial.stage === "told";
    renew(this.parts, [trial, loads, samples], () => [this.fade(), this.head(trial, base), end(trial, this), h("div.grid.two", {}, card("Stages", times(trial)), card("Point", point(trial, base))),
      trial.metrics && trial.origin !== "profile" ? card("Measured", Object.entries(trial.metrics.workloads).map(([name, found]) => workload(name, found, loads[name]))) : null,
      trial.attempt ? card("Machine", curves(this.curves, samples)) : null,
      card("Command", command(trial, base))]);
    this.proofs = (trial.judgement?.evidence ?? []).map((one) => one.line).filter((line) => line !== null);
    if (trial.attempt === 0) put(this.logPlace, h("p.soft", {}, "No engine was started for it, so there is no log."));
    else {
      if (trial.attempt !== this.last) this.turn((this.last = trial.attempt));
      this.mark();
      await this.follow();
    }
  }

  /** Show the log of another start. */
  turn(attempt) {
    Object.assign(this, { attempt, read: 0 });
    this.log.clear();
    this.mark();
  }

  /** Mark what proves the verdict: lines of the last start. */
  mark() {
    this.log.proofs(this.attempt === this.last ? this.proofs : []);
  }

  /** A choice among the starts of a trial that was started more than once. */
  starts() {
    if (this.last < 2) return null;
    const choice = h("select", { id: "start" }, Array.from({ length: this.last }, (_, n) => h("option", { value: n + 1 }, `start ${n + 1} of ${this.last}`)));
    choice.value = this.attempt;
    choice.addEventListener("change", () => {
      this.turn(Number(choice.value));
      this.follow();
    });
    return h("p.row", {}, h("label", { for: "start" }, "Log of"), choice);
  }

  head(trial, base) {
    const other = trial.repeats === null ? null : h("a", { href: link(this.name, trial.repeats) }, trial.repeats);
    const words = trial.origin === "repeat" ? ["trial ", other, " again"]
      : trial.origin === "profile" ? ["profile of trial ", other] : [`origin: ${trial.origin}`];
    return h("div", {},
      h("p.crumbs", {}, h("a", { href: "#/" }, "Studies"), " / ", h("a", { href: `#/study/${encodeURIComponent(this.name)}` }, this.name), " / "),
      h("div.head", {},
        h("h1", {}, `Trial ${trial.trial}`), h("span.status.plain", {}, verdict(trial.family, trial.verdict ?? trial.stage)),
        trial.score === null ? null : h("span", {}, "score ", h("strong", {}, number(trial.score)), base?.score ? `, ${percent(trial.score / base.score - 1)} to the baseline` : ""),
        h("span.soft.small", {}, words, trial.level ? `, on the level ${trial.level}` : ""),
        h("div.row", {},
          this.number > 0 ? h("a.button", { href: link(this.name, this.number - 1) }, "Previous") : null,
          this.number + 1 < this.study.trials ? h("a.button", { href: link(this.name, this.number + 1) }, "Next") : null,
          trial.family === "good" && trial.origin !== "profile" ? exporter(this.name, trial.trial, "Export") : null,
          base ? h("a.button", { href: `#/study/${encodeURIComponent(this.name)}/compare/${base.trial}/${trial.trial}` }, "Compare with the baseline") : null)),
      trial.proxy.map((did) => h("p.soft", {}, `Proxy: ${did}`)),
      trial.history ? h("p.notice.warn", {}, `It does not count any more: ${trial.history}`) : null);
  }

  /** Read on in the log, until it is over and read to its end. */
  async follow() {
    if (this.reading) return;
    this.reading = true;
    const { attempt } = this;
    const first = this.read === 0;
    try {
      for (let more = attempt > 0; more && this.scope.alive;) {
        const part = await text(this.below(`/log?attempt=${attempt}&offset=${this.read}&limit=${PART}`));
        if (attempt !== this.attempt) break; // another start was chosen meanwhile
        this.log.add(part.text);
        more = !part.atEnd && part.next > this.read;
        this.read = part.next;
      }
      if (first && attempt && attempt === this.attempt && this.scope.alive) {
        put(this.logPlace, this.starts(), this.log.place, h("p.row", {}, copier(this.log.text, "Copy the log"), saver(`${this.name}-${this.number}.log`, this.log.text, "Save the log")));
        this.log.settle(!this.over && attempt === this.last);
      }
    } catch (error) {
      if (first) put(this.logPlace, h("p.soft", {}, error.message));
    } finally {
      this.reading = false;
      if (attempt !== this.attempt && this.scope.alive) this.follow();
    }
  }
}

function end(trial, view) {
  const found = trial.judgement;
  if (!found) return null;
  if (!found.title) return h("p.notice.warn", {}, Object.entries(found).filter(([, v]) => typeof v !== "object").map(([k, v]) => `${k}: ${value(v)}`).join(", "));
  return h("section", { class: found.failed ? "problem" : "notice good", "aria-label": "Why it ended" },
    h("p", {}, h("strong", {}, found.title), found.failed ? ` (while ${found.stage})` : ""),
    found.evidence?.length ? h("ol.evidence", {}, found.evidence.map((one) => h("li", {},
      one.line !== null && trial.attempt ? h("button.small", { type: "button", "aria-label": `Show line ${one.line} of the log`, on: { click: () => jump(view, one.line) } }, `line ${one.line}`) : null,
      one.line !== null && trial.attempt ? " " : null, one.text))) : null,
    found.failed ? h("p", {}, found.advice) : null,
    found.notes?.map((note) => h("p.small.soft", {}, note)));
}

function jump(view, line) {
  view.logPlace.scrollIntoView({ block: "center" });
  view.log.go(line);
}

function times(trial) {
  const shown = Object.keys(trial.stages).length ? stages(trial.stages) : h("p.soft", {}, "No engine was started for it.");
  return h("div", {}, shown, h("dl.facts", {},
    h("dt", {}, "Planned"), h("dd", {}, moment(trial.created)), h("dt", {}, "Over"), h("dd", {}, moment(trial.ended)),
    h("dt", {}, "Starts"), h("dd", {}, trial.attempt), h("dt", {}, "With an engine"), h("dd", {}, seconds(trial.seconds))));
}

function point(trial, base) {
  const names = [...new Set([...Object.keys(trial.params), ...Object.keys(base?.params ?? {})])];
  const rows = names.map((name) => {
    const differs = base && !same(trial.params[name], base.params[name]);
    return h("tr", { class: differs ? "other" : "" },
      h("th.mono", { scope: "row" }, name), h("td", {}, differs ? h("strong", {}, value(trial.params[name])) : value(trial.params[name])),
      base ? h("td.soft", {}, value(base.params[name])) : null);
  });
  if (rows.length === 0) return table(["Parameter"], []);
  return h("div.wide", {}, h("table", {},
    h("thead", {}, h("tr", {}, ["Parameter", "Here", base && "Baseline"].filter(Boolean).map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
}
