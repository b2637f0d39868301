// The page's colours, for what is drawn on a canvas.

const dark = matchMedia("(prefers-color-scheme: dark)");

/** The colour of a name, as the style sheet has it now. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Colours by name. */
export function colours(...names) {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Do something whenever light turns to dark or back, until the scope ends. */
export function onTurn(scope, action) {
  dark.addEventListener("change", action);
  scope.end(() => dark.removeEventListener("change", action));
}
