// Numbers and times for people. Everything returns text.

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value === null || value === undefined ? "–" : COUNT.format(value));
export const short = (value) => (value === null || value === undefined ? "–" : Math.abs(value) < 10000 ? COUNT.format(value) : SHORT.format(value));

/** "1 record", "7 records". */
export const some = (value, one) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${at === 0 || value >= 100 ? Math.round(value) : tidy(value, 1)} ${units[at]}`;
}

/** So many decimals at most, and no zeros at the end. */
const tidy = (value, decimals) => String(Number(value.toFixed(decimals)));

export const byteRate = (value) => `${bytes(value)}/s`;
export const rate = (value) => `${value >= 100 || value === 0 ? short(Math.round(value)) : tidy(value, 1)}/s`;
export const milliseconds = (value) => (value === null || value === undefined ? "–" : `${value >= 100 ? COUNT.format(value) : tidy(value, value >= 10 ? 1 : 2)} ms`);

export function age(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms === 0) return "0 s";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 129600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return "–";
  const date = new Date(ms - new Date(ms).getTimezoneOffset() * 60000);
  return date.toISOString().replace("T", " ").slice(0, 23);
}

export const clock = (ms) => time(ms).slice(11, 19);

/** A JSON text with line breaks; what is not JSON stays as it is. */
export function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}
