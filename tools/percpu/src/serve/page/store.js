// SPDX-License-Identifier: MIT
// What the server has said: segments, and series with their last values.

import { number } from "./numbers.js";

/** How many values a trend has. */
export const KEPT = 120;
/** After so many seconds without a picture a trend has a gap. */
const GAP = 2.5;

function described(segment, [id, name, labels, kind, unit]) {
  const text = labels.map(([n, v]) => `${n}="${v}"`).join(", ");
  const full = text ? `${name}{${text}}` : name;
  return {
    id,
    segment,
    name,
    labels: text,
    full,
    kind,
    unit,
    key: `${segment}\n${full}`,
    lower: full.toLowerCase(),
    grows: kind === "counter" || kind === "histogram",
    value: null,
    rate: null,
    ring: null,
  };
}

export class Store {
  constructor() {
    this.segments = [];
    this.series = new Map();
    this.run = null;
    this.taken = 0;
    this.number = 0;
    /** Where the newest value of all trends is. */
    this.head = 0;
    /** It changes when series come, go, or are described anew. */
    this.version = 0;
  }

  /** Take over a message. */
  apply(message) {
    const old = this.series;
    const again = message.whole && this.run !== null && this.run !== message.run;
    if (message.whole) this.series = new Map();
    if (message.segments) this.segments = message.segments;
    const keys = again ? new Map([...old.values()].map((s) => [s.key, s])) : null;
    for (const { segment, series } of message.about ?? []) {
      for (const one of series) {
        const s = described(segment, one);
        const before = keys ? keys.get(s.key) : old.get(s.id);
        s.ring = before?.ring ?? new Float32Array(KEPT).fill(NaN);
        if (before) [s.value, s.rate] = [before.value, before.rate];
        this.series.set(s.id, s);
      }
    }
    for (const id of message.gone ?? []) this.series.delete(id);
    message.ids.forEach((id, i) => {
      const s = this.series.get(id);
      if (s) [s.value, s.rate] = [message.values[i], message.rates[i]];
    });
    if (message.whole || message.about || message.gone) this.version += 1;
    this.advance(message);
  }

  advance(message) {
    const { run, taken } = message;
    const gap = this.taken > 0 && taken - this.taken > GAP;
    if (this.run === run && this.number === message.number) return;
    for (let steps = gap ? 2 : 1; steps > 0; steps -= 1) {
      this.head = (this.head + 1) % KEPT;
      for (const s of this.series.values()) {
        const value = s.grows ? (s.rate ?? NaN) : number(s.value);
        s.ring[this.head] = steps > 1 ? NaN : value;
      }
    }
    [this.run, this.taken, this.number] = [run, taken, message.number];
  }

  /** The values of a trend, the oldest first. */
  trend(series) {
    const { ring } = series;
    return Array.from(ring, (_, i) => ring[(this.head + 1 + i) % KEPT]);
  }

  find(key) {
    for (const s of this.series.values()) if (s.key === key) return s;
    return null;
  }
}

/** Whether a whole text matches a pattern of *, ? and [...]. */
export function globs(pattern, text) {
  const parts = pattern.match(/\[!?\]?[^\]]*\]|[^]/gu) ?? [];
  const letters = [...text];
  let [p, t, star, from] = [0, 0, -1, 0];
  while (t < letters.length) {
    if (p < parts.length && parts[p] === "*") {
      [star, from] = [p, t];
      p += 1;
    } else if (p < parts.length && fits(parts[p], letters[t])) {
      p += 1;
      t += 1;
    } else if (star >= 0) {
      from += 1;
      [p, t] = [star + 1, from];
    } else {
      return false;
    }
  }
  while (parts[p] === "*") p += 1;
  return p === parts.length;
}

function fits(part, letter) {
  if (part === "?" || part === letter) return true;
  if (part.length < 3 || part[0] !== "[") return false;
  const not = part[1] === "!";
  const set = [...part.slice(not ? 2 : 1, -1)];
  let found = false;
  for (let i = 0; i < set.length; i += 1) {
    if (set[i + 1] === "-" && i + 2 < set.length) {
      found ||= set[i] <= letter && letter <= set[i + 2];
      i += 2;
    } else {
      found ||= set[i] === letter;
    }
  }
  return found !== not;
}

/** A function that says which series are searched for. */
export function search(text) {
  const wanted = text.trim().toLowerCase();
  if (!/[*?[]/.test(wanted)) return (s) => s.lower.includes(wanted);
  if (wanted.includes("{")) return (s) => globs(wanted, s.lower);
  return (s) => globs(wanted, s.name.toLowerCase());
}
