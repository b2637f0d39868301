// What a study does now: the trial in hand, its stages and load, the machine beside it, what is left.

import { h, put, say } from "../dom.js";
import { bytes, number, percent, seconds, what } from "../format.js";
import { STAGES } from "../words.js";
import { progress, stages } from "./bars.js";
import { link } from "./list.js";

const WAYS = Object.keys(STAGES);

/** What is said of the work in hand; "take" is given each event, "set" the study. */
export function now(name) {
  const place = h("div");
  const timeline = h("div");
  const load = h("div");
  const machine = h("p.small.soft");
  let found = null;
  let said = {};

  const tick = () => {
    const current = found?.current;
    if (current) put(timeline, stages(took(current.entered), true));
  };

  const render = () => {
    const current = found.current;
    if (current) {
      put(place,
        h("p", {}, "Trial ", h("a", { href: link(name, current.trial) }, current.trial), `, attempt ${current.attempt}: `,
          h("strong", {}, what({ ...current, repeats: current.repeats ?? "" }, found.baseline))),
        timeline, load, machine);
      tick();
    } else if (said.build && found.status === "running") {
      const { recipe, step, place: at, of, line } = said.build;
      put(place, h("p", {}, `Builds the engine ${recipe}: ${step} (${at} of ${of})`), progress(of ? at / of : 0), h("p.small.soft.mono", {}, line ?? ""));
    } else {
      put(place, h("p", {}, waiting(found)));
    }
  };

  return {
    place,
    tick,
    set(study) {
      if (found?.current?.trial !== study.current?.trial) {
        said = { build: said.build };
        put(load);
        say(machine, "");
      }
      found = study;
      render();
    },
    take(event) {
      said[event.kind] = event.data;
      if (found === null) return;
      if (event.kind === "stage" && found.current?.trial === event.number) {
        found.current.entered[event.data.stage] = event.at;
        tick();
      }
      if (event.kind === "build" && !found.current) render();
      if (event.kind === "load") put(load, loading(event.data));
      if (event.kind === "engine") say(machine, `the engine: ${event.data.stage}`);
      if (event.kind === "sample") say(machine, sampled(event.data));
    },
  };
}

function took(entered) {
  const known = WAYS.filter((name) => name in entered && name !== "planned");
  const found = {};
  known.forEach((name, n) => {
    const next = WAYS[WAYS.indexOf(name) + 1];
    const end = n + 1 < known.length ? entered[known[n + 1]] : Date.now() / 1000;
    if (next) found[n + 1 < known.length ? known[n + 1] : next] = Math.max(0, end - entered[name]);
  });
  return found;
}

function loading({ phase, workload, done, of, ok }) {
  const failed = done - ok;
  return [
    h("p.small", {}, `${phase} ${workload}: ${done} of ${of} requests`, failed ? `, ${failed} failed` : ""),
    progress(of ? done / of : 0),
  ];
}

function sampled({ host, tree, devices }) {
  const parts = [];
  if (host?.cpu !== null && host?.cpu !== undefined) parts.push(`host ${number(host.cpu, 3)} % busy`);
  if (tree) parts.push(`engine ${bytes(tree.pss ?? tree.rss)} in ${tree.processes} processes`);
  for (const [n, device] of (devices ?? []).entries()) {
    const part = device.utilization === null || device.utilization === undefined ? "" : ` ${number(device.utilization, 3)} %`;
    parts.push(`device ${device.index ?? n}${part}, ${bytes(device.memory_used)}`);
  }
  return parts.join(" · ");
}

function waiting(found) {
  switch (found.status) {
    case "queued": return `Waits${found.place ? ` in place ${found.place}` : ""}: ${found.waiting ?? "its turn comes next"}`;
    case "running": return "Makes ready.";
    case "paused": return "Paused: it goes on when it is told to.";
    case "stopped": return "Stopped: it goes on when it is told to.";
    case "failed": return `Failed: ${found.reason ?? "its log says why"}`;
    default: return found.reason ?? "Finished.";
  }
}

/** What was spent of what may be spent, and how long the rest takes. */
export function spent(found, budget) {
  const { limits, spent: used } = found;
  const rows = [];
  const row = (label, done, limit, say) => rows.push(
    h("span.name", {}, label), limit ? progress(done / limit) : h("span"), h("span.value", {}, limit ? `${say(done)} of ${say(limit)}` : say(done)));
  row("trials of the search", used.trials, limits.trials, String);
  if (budget?.wall !== undefined) row("wall time", budget.wall, limits.wall, seconds);
  else if (limits.wall) rows.push(h("span.name", {}, "wall time"), h("span"), h("span.value", {}, `at most ${seconds(limits.wall)}`));
  row("with an engine", used.engine, limits.engine, seconds);
  const left = remaining(found, budget);
  return h("div", {}, h("div.bars", {}, rows),
    h("p.small.soft", {},
      used.typical ? `A trial takes ${seconds(used.typical)}, the median. ` : "",
      left !== null && found.status === "running" ? `About ${seconds(left)} are left, at most.` : ""));
}

function remaining({ limits, spent: used, finals, repeats }, budget) {
  if (!used.typical) return null;
  const found = [];
  if (finals !== null) return finals * used.typical;
  if (limits.trials) found.push(Math.max(0, limits.trials - used.trials) * used.typical);
  if (limits.wall && budget?.wall !== undefined) found.push(Math.max(0, limits.wall - budget.wall));
  if (limits.engine) found.push(Math.max(0, limits.engine - used.engine));
  return found.length ? Math.min(...found) + repeats * used.typical : null;
}

/** One thing that happened, in a sentence; null where the page shows it elsewhere. */
export function happening({ kind, number: trial, data }) {
  switch (kind) {
    case "study": return `the study is ${data.status}${data.reason ? `: ${data.reason}` : ""}`;
    case "told": return `trial ${trial}: ${data.verdict}${data.score === null ? "" : `, score ${number(data.score)}`}${data.best ? ", the best so far" : ""}`;
    case "retry": return `trial ${trial} is tried again: ${data.verdict}`;
    case "quarantine": return `in quarantine: ${data.device ? `${data.device}: ` : ""}${data.reason}`;
    case "note": return data.text;
    case "gate": return data.point === undefined ? data.text : `trial ${trial}: ${data.text}`;
    case "search_over": return `the search is over after ${data.trials} trials`;
    case "finalists": return `finalists: ${data.numbers.join(", ")}; ${data.starts} starts a round, at most ${data.rounds} rounds`;
    case "decision": return data.clear ? `trial ${data.winner} wins` : "no clear winner";
    case "delivered": return data.export ? "report and export were written" : "the report was written";
    case "migrated": return "the search space was changed; trials that still fit it count on";
    case "comparison": return `trials ${data.a} and ${data.b} are compared in pairs`;
    default: return null;
  }
}

/** How far the best is from the baseline. */
export function ahead(best, baseline) {
  if (!best || !baseline?.score || best.trial === baseline.trial) return null;
  return percent(best.score / baseline.score - 1);
}
