// Numbers, times and points in words.

/** A number with as many digits as people read. */
export function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(digits)));
}

/** A part in percent: +4.2 %. */
export function percent(part, { sign = true } = {}) {
  if (part === null || part === undefined) return "–";
  const digits = Math.abs(part) >= 10 ? 0 : 1;
  const text = (100 * part).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${sign && part >= 0 ? "+" : ""}${text} %`;
}

/** A duration: 4.2 s, 3 m 05 s, 2 h 10 m. */
export function seconds(given) {
  if (given === null || given === undefined) return "–";
  if (given < 60) return `${given.toFixed(1)} s`;
  const whole = Math.round(given);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} m ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} m`;
}

/** A size in binary units. */
export function bytes(count) {
  if (count === null || count === undefined) return "–";
  let size = Math.abs(count);
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return unit === "B" ? `${size} B` : `${size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}

/** A moment, in the reader's own time. */
export function moment(at) {
  if (!at) return "–";
  const date = new Date(1000 * at);
  const pad = (n) => String(n).padStart(2, "0");
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  return `${day} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
}

/** A parameter's value. */
export function value(given) {
  if (given === true) return "on";
  if (given === false) return "off";
  if (given === undefined) return "–";
  return typeof given === "string" ? given : JSON.stringify(given);
}

/** Whether two values are the same. */
export function same(one, two) {
  return one === two || JSON.stringify(one) === JSON.stringify(two);
}

/** How a point differs from the baseline's. */
export function changes(params, base) {
  if (!base) return Object.entries(params).map(([name, v]) => `${name}=${value(v)}`).join(" ");
  const changed = Object.entries(params)
    .filter(([name, v]) => !(name in base) || !same(base[name], v))
    .map(([name, v]) => `${name}=${value(v)}`);
  const gone = Object.keys(base).filter((name) => !(name in params));
  if (gone.length) changed.push(`without ${gone.join(", ")}`);
  return changed.join(" ") || "as the baseline";
}

/** What a trial is, in a few words. */
export function what(trial, base) {
  if (trial.origin === "baseline") return "baseline";
  const text = changes(trial.params, base);
  if (trial.origin === "repeat") return `again ${trial.repeats}: ${text}`;
  if (trial.origin === "profile") return `profile of ${trial.repeats}: ${text}`;
  return trial.origin === "simpler" ? `simpler: ${text}` : text;
}

/** A command for a shell: words that need it are quoted. */
export function shell(words) {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`));
}
