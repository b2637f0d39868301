// What can be done with a study: pause, stop, go on, give it more; and what it leaves to take away.

import { get, patch, post, study as path } from "../api.js";
import { confirm, h, put, save } from "../dom.js";

const FORMS = [
  ["computility-run", "computility-run.yaml"], ["compose", "docker compose"], ["systemd", "systemd unit"], ["kubernetes", "Kubernetes"],
  ["shell", "shell script"],
];

/**
 * Buttons for a study.
 *
 * @param {object} found The study.
 * @param {Function} done Called when something was asked of it.
 * @param {Function} complain Called with why something could not be done.
 */
export function actions(found, done, complain) {
  let busy = false; // a button that is disabled would lose the focus
  const act = (label, action, kind = "") => h(`button${kind}`, { type: "button", on: { click: async () => {
    if (busy) return;
    busy = true;
    try {
      if (await action()) await done();
    } catch (error) {
      complain(error);
    }
    busy = false;
  } } }, label);
  const tell = (what, body) => async () => post(path(found.study, `/${what}`), body);
  const stop = async () =>
    (await confirm(`End the trial in hand and stop ${found.study}? It is run again when the study goes on.`, "Stop")) && tell("stop")();
  const open = found.status === "running" || found.status === "queued";
  return h("div.row", {},
    open && found.wanted === "run" ? act("Pause", tell("pause")) : null,
    open && found.wanted === "run" ? act("Stop", stop, ".danger") : null,
    !open && found.status !== "finished" ? act("Go on", tell("resume", {}), ".primary") : null,
    act("Give it more", () => more(found)));
}

/** A dialog that gives a study other limits and another priority; resolves to whether something was changed. */
function more(found) {
  const field = (id, value, given) => h("input", { id, type: "number", value: value ?? "", ...given });
  const trials = field("more-trials", found.limits.trials, { min: 1, step: 1 });
  const wall = field("more-wall", found.limits.wall ? found.limits.wall / 60 : "", { min: 0, step: "any" });
  const priority = field("more-priority", found.priority, { min: -100, max: 100, step: 1 });
  const on = found.status === "running" || found.status === "queued";
  return new Promise((resolve, reject) => {
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const send = async (event) => {
      event.preventDefault();
      const budget = {};
      if (trials.value && Number(trials.value) !== found.limits.trials) budget.trials = Number(trials.value);
      if (wall.value && 60 * Number(wall.value) !== found.limits.wall) budget.wall = 60 * Number(wall.value);
      try {
        if (!on) await post(path(found.study, "/resume"), { budget });
        if (on || Number(priority.value) !== found.priority) {
          await patch(path(found.study), { budget: on ? budget : {}, priority: Number(priority.value) });
        }
        close(true);
      } catch (error) {
        dialog.close();
        dialog.remove();
        reject(error);
      }
    };
    const dialog = h("dialog", { "aria-label": "Limits and priority", on: { cancel: () => close(false) } },
      h("form", { on: { submit: send } },
        h("h2", {}, `Limits of ${found.study}`),
        h("p", {}, h("label", { for: "more-trials" }, "Most trials, the baseline included"), " ", trials),
        h("p", {}, h("label", { for: "more-wall" }, "Most minutes of work"), " ", wall),
        h("p", {}, h("label", { for: "more-priority" }, "Priority: higher goes first"), " ", priority),
        on ? null : h("p.soft", {}, "The study goes on with these limits."),
        h("p.row", {}, h("button.primary", { type: "submit" }, on ? "Change" : "Go on"),
          h("button", { type: "button", on: { click: () => close(false) } }, "Cancel"))));
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A button that asks for the form and saves the export of a trial; of the one that was decided for without a number. */
export function exporter(study, trial, label, kind = "") {
  const form = h("select", { id: "export-form" }, FORMS.map(([value, words]) => h("option", { value }, words)));
  const image = h("input", { id: "export-image", autocomplete: "off", placeholder: "as it was built here" });
  const answer = h("div", { role: "alert" });
  const take = async (event) => {
    event.preventDefault();
    put(answer);
    const asked = new URLSearchParams({ format: form.value });
    if (trial !== null) asked.set("trial", trial);
    if (image.value.trim()) asked.set("image", image.value.trim());
    try {
      const { files } = await get(path(study, `/export?${asked}`));
      for (const [name, text] of Object.entries(files)) save(name, text);
      dialog.close();
    } catch (error) {
      put(answer, h("p.problem", {}, error.message));
    }
  };
  const dialog = h("dialog", { "aria-label": label },
    h("form", { on: { submit: take } },
      h("h2", {}, label),
      h("p", {}, h("label", { for: "export-form" }, "Form"), " ", form),
      h("p", {}, h("label", { for: "export-image" }, "Image, where containers are started"), " ", image),
      h("p.small.soft", {}, "Secrets stand in it by name only; the same trial gives the same bytes."),
      answer,
      h("p.row", {}, h("button.primary", { type: "submit" }, "Download"), h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"))));
  dialog.addEventListener("close", () => dialog.remove());
  const show = () => {
    put(answer);
    document.body.append(dialog);
    dialog.showModal();
  };
  return h(`button${kind}`, { type: "button", on: { click: show } }, label);
}

/** Links to what a study leaves: its export, its report, its search space. */
export function downloads(found) {
  return h("div.row", {},
    found.decision ? exporter(found.study, null, "Download the export", ".primary") : null,
    found.decision === null && found.best ? exporter(found.study, found.best.trial, `Download the export of trial ${found.best.trial}`) : null,
    found.trials > 0 ? h("a.button", { href: path(found.study, "/report/report.html"), target: "_blank", rel: "noopener" }, "Report") : null,
    h("a.button", { href: path(found.study, "/space"), download: `${found.study}.yaml` }, "Search space"));
}
