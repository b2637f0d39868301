// A new study, from the text of a search space.

import { Problem, get, post } from "../api.js";
import { card, confirm, fill, h, put } from "../dom.js";

const FIRST = "local_cpu"; // runs on any machine

export const title = () => "New study";

export async function show(root, scope) {
  const spaces = await get("/v1/spaces");
  if (!scope.alive) return;
  const text = h("textarea", { id: "space", rows: 26, spellcheck: "false", autocomplete: "off", required: true, maxlength: 262_144, "aria-describedby": "space-about" });
  const choice = h("select", { id: "begin" }, h("option", { value: "" }, "choose …"), spaces.map((one) => h("option", { value: one.name }, one.name)));
  const file = h("input", { id: "file", type: "file" });
  const trials = h("input", { id: "trials", type: "number", min: 1, step: 1 });
  const devices = h("input", { id: "devices", placeholder: "all that the space names", autocomplete: "off" });
  const secrets = h("div");
  const answer = h("div", { role: "alert" });
  const send = h("button.primary", { type: "submit" }, "Start the study");

  const take = () => {
    const found = spaces.find((one) => one.name === choice.value);
    if (found) text.value = found.text;
  };
  choice.value = spaces.some((one) => one.name === FIRST) ? FIRST : "";
  take();
  choice.addEventListener("change", take);
  file.addEventListener("change", async () => {
    if (file.files[0]) text.value = await file.files[0].text();
  });

  const submit = async (migrate) => {
    const body = { space: text.value, migrate, budget: {}, secrets: given(secrets) };
    if (trials.value) body.budget.trials = Number(trials.value);
    const named = devices.value.split(/[\s,]+/).filter(Boolean);
    if (named.length) body.devices = named;
    return post("/v1/studies", body);
  };
  const start = async (event) => {
    event.preventDefault();
    send.disabled = true;
    put(answer);
    try {
      const study = await attempt(submit);
      if (study) location.hash = `#/study/${encodeURIComponent(study.study)}`;
    } catch (error) {
      if (!(error instanceof Problem) || error.status === 401) scope.complain(error);
      else put(answer, refusal(error));
      answer.scrollIntoView({ block: "nearest" });
    }
    send.disabled = false;
  };

  fill(root, h("div.head", {}, h("h1", {}, "New study")),
    h("form", { on: { submit: start } },
      card("Search space",
        h("p.row", {}, h("label", { for: "begin" }, "Begin with"), choice, h("label", { for: "file" }, "or a file of yours"), file),
        h("p.small.soft", { id: "space-about" }, "The text names the engine, the model, what may change, the load, and the gates. Relative paths in it are read from the study's own folder, so name files by their whole path."),
        h("label", { for: "space" }, "Text"), text),
      card("How it runs",
        h("p.row", {}, h("label", { for: "trials" }, "Most trials"), trials, h("label", { for: "devices" }, "Only on these devices"), devices),
        h("details", {}, h("summary", {}, "Secrets that it takes from the environment"),
          h("p.small.soft", {}, "Values are kept in the daemon's memory alone, and taken out of every log."),
          secrets, h("button.small", { type: "button", on: { click: () => secrets.append(secret()) } }, "One more"))),
      answer, h("p", {}, send)));
}

/** Submit; where a study of that name asks something else, ask whether it is to go on with the new text. */
async function attempt(submit) {
  try {
    return await submit(false);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 409) throw error;
    const lines = [error.message, ...error.errors].join("\n");
    if (!(await confirm(`${lines}\n\nGo on with the new search space? Trials that still fit it count on.`, "Go on with it"))) return null;
    return submit(true);
  }
}

function refusal(error) {
  return h("div.problem", {}, h("p", {}, error.message), error.errors.length ? h("ul", {}, error.errors.map((line) => h("li", {}, line))) : null);
}

function secret() {
  const row = h("p.row", { "data-secret": true },
    h("input", { placeholder: "NAME", "aria-label": "Name of the variable", autocomplete: "off" }),
    h("input", { type: "password", placeholder: "value", "aria-label": "Its value", autocomplete: "off" }),
    h("button.small", { type: "button", on: { click: () => row.remove() } }, "Remove"));
  return row;
}

function given(secrets) {
  const found = {};
  for (const row of secrets.querySelectorAll("[data-secret]")) {
    const [name, value] = row.querySelectorAll("input");
    if (name.value && value.value) found[name.value] = value.value;
  }
  return found;
}
