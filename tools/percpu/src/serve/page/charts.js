// SPDX-License-Identifier: MIT
// Graphs. Each has a text that says the same.

import { duration, short } from "./numbers.js";

/** Make an element with a text, which is never read as HTML. */
export function make(tag, properties = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "text") e.textContent = value;
    else if (name === "class") e.className = value;
    else if (value !== null && value !== undefined) e.setAttribute(name, value);
  }
  e.append(...children);
  return e;
}

function svg(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

/** The path of points, with gaps where there are none. */
function path(points) {
  let out = "";
  let pen = "M";
  for (const point of points) {
    if (!point) {
      pen = "M";
    } else {
      out += `${pen}${point[0].toFixed(1)} ${point[1].toFixed(1)}`;
      pen = "L";
    }
  }
  return out;
}

/** A graph without axes, in a row of the table. */
export class Trend {
  constructor() {
    this.line = svg("path", {});
    this.svg = svg("svg", { viewBox: "0 0 120 20", preserveAspectRatio: "none", role: "img" });
    this.svg.append(this.line);
  }

  draw(values) {
    const known = values.filter(Number.isFinite);
    const [least, most] = [Math.min(...known), Math.max(...known)];
    const low = Math.min(0, least);
    const high = Math.max(0, most);
    const y = (v) => (high === low ? 18.5 : 18.5 - ((v - low) / (high - low)) * 17);
    const points = values.map((v, i) => (Number.isFinite(v) ? [i + 0.5, y(v)] : null));
    // A point between two gaps is a dot.
    const dots = points.map((p, i) => (p && !points[i - 1] && !points[i + 1] ? `M${p[0] - 0.5} ${p[1]}h1` : ""));
    this.line.setAttribute("d", path(points) + dots.join(""));
    const text = known.length ? `from ${short(least)} to ${short(most)}, now ${short(known.at(-1))}` : "nothing yet";
    this.svg.setAttribute("aria-label", text);
  }
}

/** A step of 1, 2 or 5 times a power of ten that is not below x. */
function nice(x) {
  const power = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= x * 0.999) ?? x;
}

/** Values over time with axes. `says` writes a value. */
export function plot(ago, values, says, what, width) {
  const height = 150;
  const [left, right, top, bottom] = [64, 8, 8, 20];
  const known = values.filter((v) => v !== null);
  const out = svg("svg", { class: "plot", width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  if (known.length === 0) {
    out.setAttribute("aria-label", `${what}: nothing yet`);
    return out;
  }
  const [least, most] = [Math.min(...known), Math.max(...known)];
  const low = Math.min(0, least);
  const step = nice((Math.max(0, most) - low || 1) / 3);
  const first = Math.floor(low / step) * step;
  const last = Math.max(Math.ceil(Math.max(0, most) / step) * step, first + step);
  const span = Math.max(ago.at(-1) ?? 0, 10);
  const x = (a) => width - right - (a / span) * (width - left - right);
  const y = (v) => top + ((last - v) / (last - first)) * (height - top - bottom);
  for (let v = first; v <= last + step / 2; v += step) {
    out.append(svg("line", { class: "rule", x1: left, x2: width - right, y1: y(v), y2: y(v) }));
    const label = svg("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" });
    label.textContent = says(Math.abs(v) < step / 1e6 ? 0 : v);
    out.append(label);
  }
  for (const [a, anchor] of [[span, "start"], [span / 2, "middle"], [0, "end"]]) {
    const label = svg("text", { x: x(a), y: height - 4, "text-anchor": anchor });
    label.textContent = a === 0 ? "now" : `−${duration(a)}`;
    out.append(label);
  }
  const points = values.map((v, i) => (v === null ? null : [x(ago[i]), y(v)]));
  out.append(svg("path", { class: "line", d: path(points) }));
  const text = `${what} over ${duration(span)}: from ${says(least)} to ${says(most)}, now ${says(values[0])}`;
  out.setAttribute("aria-label", text);
  return out;
}

/** Time by buckets: the darker, the more. Empty cells stay empty. */
export function heat(canvas, { ends, columns }) {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  [canvas.width, canvas.height] = [Math.round(width * ratio), Math.round(height * ratio)];
  const to = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const most = Math.max(1, ...columns.map(([, counts]) => Math.max(...counts)));
  const [w, h] = [canvas.width / Math.max(columns.length, 30), canvas.height / ends.length];
  to.fillStyle = style.color;
  columns.forEach(([, counts], i) => {
    counts.forEach((n, row) => {
      if (n === 0) return;
      to.globalAlpha = 0.12 + 0.88 * (Math.log1p(n) / Math.log1p(most));
      const [x, y] = [canvas.width - (i + 1) * w, canvas.height - (row + 1) * h].map(Math.round);
      const [right, below] = [canvas.width - i * w, canvas.height - row * h].map(Math.round);
      to.fillRect(x, y, right - x - (w > 4 ? 1 : 0), below - y - (h > 4 ? 1 : 0));
    });
  });
  return most;
}

/** Draw how large a part is behind a text. */
export function bar(element, part) {
  element.classList.add("bar");
  const percent = Number.isFinite(part) ? Math.min(Math.max(part, 0), 1) * 100 : 0;
  element.style.setProperty("--part", `${percent.toFixed(1)}%`);
  return element;
}
