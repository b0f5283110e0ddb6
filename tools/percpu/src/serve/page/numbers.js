// SPDX-License-Identifier: MIT
// Numbers as people read them. A value of the server is a number; digits in a string, where a
// number would be rounded, or "NaN", "+Inf" or "-Inf"; [least, greatest]; null; or {missing: why}.

const NONE = "–";

/** Give a value as a number, which may be rounded. */
export function number(value) {
  if (Array.isArray(value)) return number(value[1]);
  if (typeof value === "number") return value;
  if (typeof value !== "string") return NaN;
  if (value === "+Inf" || value === "-Inf") return value === "+Inf" ? Infinity : -Infinity;
  return Number(value);
}

function grouped(digits) {
  const [whole, part] = digits.split(".");
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part === undefined ? text : `${text}.${part}`;
}

/** All digits, in groups of three. */
export function exact(value) {
  if (value === null || value === undefined) return NONE;
  if (Array.isArray(value)) return `${exact(value[0])} to ${exact(value[1])}`;
  if (typeof value === "object") return "no value";
  const text = String(value);
  return /^-?\d+(\.\d+)?$/.test(text) ? grouped(text) : text;
}

/** All digits of whole numbers, and six of others. */
export function digits(value) {
  if (Array.isArray(value)) return `${digits(value[0])} to ${digits(value[1])}`;
  if (typeof value !== "number" || Number.isInteger(value)) return exact(value);
  const size = Math.abs(value);
  if (size >= 1e6 && size < 1e15) return grouped(value.toFixed(2));
  return exact(Number(value.toPrecision(6)));
}

function scaled(x, names, step) {
  let i = 0;
  while (i + 1 < names.length && Math.abs(x) >= (step < 1 ? 0 : step - 0.5)) {
    if (step < 1 && Math.abs(x) >= 0.9995) break;
    x /= step;
    i += 1;
  }
  if (Math.abs(x) >= 1e6 || (x !== 0 && Math.abs(x) < 0.005)) return [x.toExponential(0), names[i]];
  const size = Math.abs(x);
  return [x.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2), names[i]];
}

/** With three digits: 7, 1.50k, 12.3M. */
export function short(x) {
  if (x === null || Number.isNaN(x)) return NONE;
  if (!Number.isFinite(x)) return x > 0 ? "+Inf" : "-Inf";
  const size = Math.abs(x);
  if (size < 1000 && Number.isInteger(x)) return String(x);
  if (size < 0.001) return x.toPrecision(3).replace(/\.?0+e/, "e");
  if (size < 1) return x.toPrecision(3);
  return scaled(x, ["", "k", "M", "G", "T", "P", "E"], 1000).join("");
}

/** With the unit: 1.50 ms, 3.00 MiB. */
export function withUnit(x, unit) {
  if (x === null || !Number.isFinite(x)) return short(x);
  if (unit === "bytes") {
    const text = scaled(x, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], 1024).join(" ");
    return text.replace(/\.00 B$/, " B");
  }
  if (unit === "seconds") {
    if (Math.abs(x) >= 100) return duration(x);
    if (x === 0) return "0 s";
    return scaled(x, ["s", "ms", "µs", "ns", "ps"], 0.001).join(" ");
  }
  if (unit === "ratio") return `${short(x * 100)} %`;
  return unit ? `${short(x)} ${unit}` : short(x);
}

/** A rate per second of what has that unit. */
export function rate(x, unit) {
  if (unit === "bytes") return withUnit(x, unit);
  // With three digits, also if it is whole by chance.
  return x >= 1 && x < 1000 ? scaled(x, [""], 1000)[0] : short(x);
}

/** A time in two units at most: 45s, 3m 12s, 2d 4h. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return NONE;
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${Math.floor(s / 60) % 60}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

/** Whether a gauge in seconds is a time of the clock. */
export function isTime({ kind, unit, value }) {
  const x = number(value);
  return kind === "gauge" && unit === "seconds" && x > 1e9 && x < 1e10;
}

/** The time of the clock. */
export function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}
