// Elements from data. Text only ever becomes a text node: nothing here, or anywhere in the page, reads markup.

/**
 * Make an element.
 *
 * @param {string} tag Its name, with classes after dots: "td.number".
 * @param {object} given Attributes; "on" holds listeners, "style" properties, and properties such as "value"
 *   are set as such. What is null, undefined or false is left out.
 * @param {...any} children Elements, texts, numbers, or lists of them; what is null or false is left out.
 */
export function h(tag, given = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  return fill(dress(element, given), ...children);
}

const DRAWN = "http://www.w3.org/2000/svg";

/** Make an element of a picture; attributes are numbers and names of classes. */
export function draw(tag, given = {}, ...children) {
  const element = document.createElementNS(DRAWN, tag);
  for (const [name, value] of Object.entries(given)) element.setAttribute(name, String(value));
  return fill(element, ...children);
}

const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "hidden", "open"]);
const ATTRIBUTES = new Set([
  "id", "href", "for", "type", "name", "title", "role", "tabindex", "scope", "colspan", "rows", "cols", "min",
  "max", "step", "placeholder", "spellcheck", "autocomplete", "rel", "target", "download", "maxlength", "lang",
  "required", "wrap", "width", "height",
]);

function dress(element, given) {
  for (const [name, value] of Object.entries(given)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "style") {
      for (const [property, text] of Object.entries(value)) element.style.setProperty(property, text);
    } else if (name === "class") {
      element.classList.add(...String(value).split(" ").filter(Boolean));
    } else if (PROPERTIES.has(name)) {
      element[name] = value;
    } else if (value !== null && value !== undefined && value !== false) {
      if (!ATTRIBUTES.has(name) && !name.startsWith("aria-") && !name.startsWith("data-")) {
        throw new Error(`no attribute of this page: ${name}`);
      }
      element.setAttribute(name, name === "href" ? ours(String(value)) : value === true ? "" : String(value));
    }
  }
  return element;
}

// Links lead to this page, to this daemon, or to a file that the page made itself.
function ours(address) {
  if (/^(#|\/v1\/|blob:)/.test(address)) return address;
  throw new Error(`no address of this page: ${address}`);
}

/** Put children into an element, after those that it has. */
export function fill(element, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(clean(String(child))));
  }
  return element;
}

/** Give an element other children. */
export function put(element, ...children) {
  element.replaceChildren();
  return fill(element, ...children);
}

const shown = new WeakMap();

/**
 * Give an element other children, if what they are made from has changed; what had the focus keeps it.
 *
 * @param {Element} element The element.
 * @param {any} from What they are made from, as JSON-ready data.
 * @param {Function} make Makes them.
 */
export function renew(element, from, make) {
  const key = JSON.stringify(from);
  if (shown.get(element) === key) return;
  shown.set(element, key);
  const words = element.contains(document.activeElement) ? document.activeElement.textContent : null;
  put(element, make());
  if (words === null) return;
  for (const one of element.querySelectorAll("a, button")) if (one.textContent === words) one.focus({ preventScroll: true });
}

/** Set an element's text, if it is another one. */
export function say(element, text) {
  const shown = clean(String(text));
  if (element.textContent !== shown) element.textContent = shown;
}

// Characters that are not seen, and those that turn the direction of what stands beside them.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text without what cannot be seen and could mislead. */
export function clean(text) {
  return text.replace(HIDDEN, "\ufffd");
}

/** A button that puts a text into the clipboard and says so. */
export function copier(text, label = "Copy") {
  const button = h("button.small", { type: "button" }, label);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      say(button, "Copied");
    } catch {
      say(button, "The browser refused");
    }
    setTimeout(() => say(button, label), 1500);
  });
  return button;
}

/** A button that saves a text as a file. */
export function saver(name, text, label = name) {
  return h("button.small", { type: "button", on: { click: () => save(name, text) } }, label);
}

/** Save a text as a file of that name. */
export function save(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain;charset=utf-8" }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A table from its head and rows; columns in "numeric" hold numbers. */
export function table(head, rows, numeric = [], caption = null) {
  const kind = (column) => (numeric.includes(column) ? ".number" : "");
  return h("div.wide", {},
    h("table", {},
      caption && h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((name, n) => h(`th${kind(n)}`, { scope: "col" }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, n) => h(`td${kind(n)}`, {}, cell)))))));
}

/** A part of the page with a heading. */
export function card(title, ...children) {
  return h("section.card", {}, h("h2", {}, title), children);
}

/** Ask before something is done; resolves to whether it is wanted. */
export function confirm(question, action) {
  return new Promise((resolve) => {
    const close = (answer) => () => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const dialog = h("dialog", { "aria-label": question, on: { cancel: close(false) } },
      h("p", {}, question),
      h("p.row", {},
        h("button.danger", { type: "button", on: { click: close(true) } }, action),
        h("button", { type: "button", on: { click: close(false) } }, "Cancel")));
    document.body.append(dialog);
    dialog.showModal();
  });
}
