// The daemon's API, and nothing else: requests, the session, events as they happen.

/** What the daemon answered instead of what was asked for. */
export class Problem extends Error {
  constructor(status, detail, errors = []) {
    super(detail);
    this.status = status;
    this.errors = errors;
  }
}

async function ask(method, path, body, headers = {}) {
  const options = { method, headers: { ...headers }, credentials: "same-origin", cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch {
    throw new Problem(0, "the daemon does not answer");
  }
  if (answer.ok) return answer;
  let said = {};
  try {
    said = await answer.json();
  } catch {
    // The status alone has to do.
  }
  throw new Problem(answer.status, said.detail ?? `the daemon answered ${answer.status}`, said.errors ?? []);
}

/** What a path answers, read as JSON. */
export async function get(path) {
  return (await ask("GET", path)).json();
}

/** The text that a path answers, with where it goes on. */
export async function text(path) {
  const answer = await ask("GET", path);
  return {
    text: await answer.text(),
    next: Number(answer.headers.get("X-Next-Offset") ?? 0),
    atEnd: answer.headers.get("X-At-End") !== "false",
  };
}

/** Ask for something to be done. */
export async function post(path, body) {
  return (await ask("POST", path, body)).json();
}

/** Ask for something to be changed. */
export async function patch(path, body) {
  return (await ask("PATCH", path, body)).json();
}

/** The path of a study, or of something below it. */
export function study(name, below = "") {
  return `/v1/studies/${encodeURIComponent(name)}${below}`;
}

/** Trade the token for a cookie, which scripts cannot read. */
export async function session(token) {
  await ask("POST", "/v1/session", undefined, { Authorization: `Bearer ${token}` });
}

const KINDS = [
  "study", "plan", "stage", "told", "search_over", "search_again", "simpler", "finalists", "contenders", "decision", "delivered",
  "retry", "quarantine", "note", "migrated", "comparison", "levels", "proxy_report", "gate", "readback", "quality", "reference", "build", "engine", "load", "sample", "budget",
  "end",
];
const AGAIN = 3000;

/**
 * Hear events until the returned function is called. The browser itself reconnects with the last id that it
 * saw, so nothing that the ledger keeps is missed. While nobody looks at the page nothing is held open; when
 * somebody looks again, "lost" says that things must be asked for anew.
 *
 * @param {string} path Where the events come from.
 * @param {?number} after The last id that is known; null for only what comes.
 * @param {object} to "event" is given each event, "state" whether there is a connection, "lost" nothing.
 */
export function hear(path, after, to) {
  let source = null;
  let timer = null;
  let over = false;

  const open = () => {
    source = new EventSource(after === null ? path : `${path}?after=${after}`);
    source.addEventListener("open", () => to.state(true));
    source.addEventListener("error", () => {
      to.state(false);
      if (source.readyState === EventSource.CLOSED && !over) timer = setTimeout(to.lost, AGAIN);
    });
    for (const kind of KINDS) {
      source.addEventListener(kind, (message) => {
        const event = JSON.parse(message.data);
        if (event.id) after = event.id;
        if (event.kind === "end") to.state(false);
        to.event(event);
      });
    }
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const look = () => {
    if (document.hidden) close();
    else if (source === null && !over) to.lost();
  };
  document.addEventListener("visibilitychange", look);
  if (!document.hidden) open();
  return () => {
    over = true;
    document.removeEventListener("visibilitychange", look);
    close();
  };
}
