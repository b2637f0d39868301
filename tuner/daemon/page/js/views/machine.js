// The machine and the daemon.

import { get } from "../api.js";
import { card, h, put, table } from "../dom.js";
import { bytes, moment, number } from "../format.js";

const AGAIN = 2000;

export const title = () => "Machine";

export async function show(root, scope) {
  const place = h("div");
  put(root, h("div.head", {}, h("h1", {}, "Machine")), place);
  const refresh = async () => {
    try {
      const [machine, health] = await Promise.all([get("/v1/devices"), get("/v1/health")]);
      if (!scope.alive) return;
      scope.live(true);
      put(place, card("Devices", devices(machine)), h("div.grid.two", {}, card("Host", host(machine)), card("Daemon", daemon(health))));
    } catch (error) {
      scope.live(false);
      scope.complain(error, place);
    }
  };
  await refresh();
  scope.every(AGAIN, refresh);
}

function devices({ devices: found, problem }) {
  if (problem) return h("p.problem", {}, problem);
  if (found.length === 0) return h("p.soft", {}, "This machine has no accelerator that tuner can read; engines run on the host.");
  return table(["Device", "Name", "Busy", "Memory", "Power", "Temperature", "Lent to", "State"], found.map((d) => [
    d.index, d.name, d.utilization === null ? "–" : `${number(d.utilization, 3)} %`, d.memory_total ? `${bytes(d.memory_used)} of ${bytes(d.memory_total)}` : bytes(d.memory_used),
    d.power === null ? "–" : `${number(d.power, 3)} W`, d.temperature === null ? "–" : `${number(d.temperature, 3)} °C`,
    lent(d.study), d.quarantine ? `in quarantine: ${d.quarantine}` : d.error ?? "good",
  ]), [2, 3, 4, 5]);
}

function lent(study) {
  return study ? h("a", { href: `#/study/${encodeURIComponent(study)}` }, study) : "–";
}

function facts(...pairs) {
  return h("dl.facts", {}, pairs.filter(Boolean).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
}

function host({ host: found, study, quarantine }) {
  const used = found.memory_limit - found.memory_available;
  return facts(
    ["Processors", found.cpu === null ? "–" : `${number(found.cpu, 3)} % busy`],
    ["Memory", `${bytes(used)} of ${bytes(found.memory_limit)} in use`],
    ["Lent to", lent(study)], ["State", quarantine ? `in quarantine: ${quarantine}` : "good"]);
}

function daemon(health) {
  return facts(
    ["Version", health.version], ["Process", health.pid], ["Since", moment(health.started)],
    ["State folder", h("span.mono", {}, health.state)], ["Its size", `${bytes(health.size)} of ${bytes(health.size_limit)}`],
    ["Works on", health.running.join(", ") || "nothing"], ["Waiting", health.queued.join(", ") || "nothing"]);
}
