// SPDX-License-Identifier: MIT
// What is known of one series.

import { bar, heat, make, plot } from "./charts.js";
import { clock, duration, exact, isTime, number, rate, short, withUnit } from "./numbers.js";

const KINDS = {
  counter: "counter",
  gauge: "gauge",
  histogram: "histogram",
  extrema: "least and greatest value",
  info: "labels alone",
};
const FIGURES = ["count", "mean", "p50", "p90", "p99", "max"];

function facts(pairs) {
  const list = make("dl", { class: "facts" });
  for (const [name, value, title] of pairs) {
    if (value !== null) list.append(make("dt", { text: name }), make("dd", { text: value, title }));
  }
  return list;
}

function table(head, rows, name) {
  const cells = (tag, texts) => texts.map((t) => (t instanceof Element ? t : make(tag, { text: t })));
  const columns = head.map((h) => (h instanceof Element ? h : h === "" ? make("td") : make("th", { scope: "col", text: h })));
  const body = rows.map((row) => make("tr", {}, ...cells("td", row)));
  return make("table", { "aria-label": name }, make("thead", {}, make("tr", {}, ...columns)), make("tbody", {}, ...body));
}

export class Detail {
  constructor(closed) {
    this.aside = document.getElementById("detail");
    this.closed = closed;
    this.series = null;
    this.data = null;
    this.busy = false;
    this.title = make("h2", { id: "detail-title" });
    this.labels = make("p", { class: "labels" });
    this.close = make("button", { type: "button", class: "close", "aria-label": "Close the details", text: "✕" });
    this.body = make("div", { class: "body" });
    this.close.addEventListener("click", () => this.hide());
    this.aside.append(make("div", { class: "top" }, this.title, this.close), this.labels, this.body);
    this.aside.addEventListener("keydown", (e) => {
      if (e.key === "Escape") this.hide();
    });
    new ResizeObserver(() => this.draw()).observe(this.body);
  }

  get isOpen() {
    return !this.aside.hidden;
  }

  show(series) {
    const same = this.series?.id === series.id;
    this.series = series;
    this.aside.hidden = false;
    document.body.classList.add("detailed");
    this.title.textContent = series.name;
    this.labels.textContent = series.labels;
    this.labels.hidden = !series.labels;
    if (!same) {
      this.data = null;
      this.body.replaceChildren();
      this.aside.scrollTop = 0;
    }
  }

  hide() {
    if (!this.isOpen) return;
    this.aside.hidden = true;
    document.body.classList.remove("detailed");
    this.series = null;
    this.data = null;
    this.closed();
  }

  /** Ask the server. */
  async update() {
    const { series } = this;
    if (!series || this.busy) return;
    this.busy = true;
    try {
      const answer = await fetch(`detail?id=${series.id}`, { cache: "no-store", signal: AbortSignal.timeout(5000) });
      const data = answer.ok ? await answer.json() : null;
      if (this.series?.id !== series.id) return;
      this.data = data ?? this.data;
      this.gone = !data;
      this.draw();
    } catch {
      // The state of the connection says it.
    } finally {
      this.busy = false;
    }
    if (this.series && this.series.id !== series.id) this.update();
  }

  draw() {
    const d = this.data;
    if (!d) return;
    const says = (x) => this.says(d, x);
    const parts = [];
    if (this.gone) parts.push(make("p", { class: "alarm", text: "⚠ This series is no longer there: these were its last values." }));
    if (d.help) parts.push(make("p", { class: "help", text: d.help }));
    parts.push(this.value(d), ...this.warnings(d));
    const width = Math.max(220, this.body.clientWidth);
    if (d.kind !== "info" && !isTime(d)) {
      const what = d.rate !== null || d.kind === "counter" || d.kind === "histogram" ? "Rate per second" : "Value";
      parts.push(make("h3", { text: what }), plot(d.ago, d.history, says, what, width));
    }
    parts.push(...this.histogram(d), ...this.owners(d), ...this.cpus(d), ...this.exemplars(d));
    parts.push(make("h3", { text: "About" }), this.about(d));
    this.replace(parts);
  }

  /** A value in a graph: a rate, or a value. */
  says(d, x) {
    if (d.kind === "counter") return rate(x, d.unit);
    return d.kind === "histogram" ? short(x) : withUnit(x, d.unit);
  }

  replace(parts) {
    const { scrollTop } = this.aside;
    this.body.replaceChildren(...parts);
    this.aside.scrollTop = scrollTop;
    const canvas = this.body.querySelector("canvas");
    if (canvas) heat(canvas, this.data.heat);
  }

  value(d) {
    const x = number(d.value);
    const what = d.kind === "histogram" ? "observations" : d.unit;
    const text = d.kind === "info" ? "no value but its labels" : exact(d.value);
    const line = make("p", { class: "now" }, make("strong", { id: "detail-value", text }), ` ${d.kind === "info" ? "" : what}`);
    if (d.value?.missing) line.append(` – ${d.value.missing}`);
    else if (isTime(d)) line.append(` – ${duration(d.taken - x)} ago`);
    else if (["bytes", "seconds"].includes(d.unit) && d.kind !== "histogram" && Math.abs(x) >= 1000) line.append(` – ${withUnit(x, d.unit)}`);
    return line;
  }

  warnings(d) {
    const out = [];
    const warn = (text) => out.push(make("p", { class: "warn", text: `⚠ ${text}` }));
    const { family: f } = d;
    if (f && f.overflows !== 0) warn(`The family has room for ${exact(f.cap)} series. ${exact(f.overflows)} calls found none, and were counted without labels.`);
    if (f && f.invalid !== 0) warn(`${exact(f.invalid)} calls had a text that cannot be the value of a label.`);
    return out;
  }

  histogram(d) {
    if (d.kind !== "histogram") return [];
    const columns = [d.latest, d.minute].filter(Boolean);
    if (columns.length === 0) return [make("p", { class: "quiet", text: "Distribution: with the next pictures." })];
    const figure = (o, name) => (name === "count" ? exact(o.count) : withUnit(o[name] === null ? null : number(o[name]), d.unit));
    const rows = FIGURES.map((name) => [make("th", { scope: "row", text: name }), ...columns.map((o) => figure(o, name))]);
    const heads = columns.map((o) => `last ${duration(Math.round(o.seconds))}`);
    return [make("h3", { text: "Distribution" }), table(["", ...heads], rows, "Distribution"), ...this.heatMap(d)];
  }

  heatMap(d) {
    if (!d.heat) return [];
    const { ends, columns } = d.heat;
    const end = (x) => (number(x) === Infinity ? "more" : `≤ ${withUnit(number(x), d.unit)}`);
    const canvas = make("canvas", { role: "img" });
    const span = duration(columns.at(-1)[0]);
    const most = Math.max(...columns.flatMap(([, counts]) => counts));
    canvas.setAttribute("aria-label", `Observations over ${span} by value, from ${end(ends[0])} to ${end(ends.at(-1))}; the table above has the quantiles`);
    const note = make("p", { class: "quiet", text: `Kept while a page shows these details. The stronger the color, the more observations: at most ${exact(most)} in a cell. Point at a cell to read it.` });
    canvas.addEventListener("pointermove", (e) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor(((box.right - e.clientX) / box.width) * Math.max(columns.length, 30));
      const row = Math.floor(((box.bottom - e.clientY) / box.height) * ends.length);
      const counts = columns[column]?.[1];
      if (counts && ends[row] !== undefined) note.textContent = `${end(ends[row])}: ${exact(counts[row])} in the second ${duration(columns[column][0])} ago`;
    });
    const scale = [ends.at(-1), ends[Math.floor(ends.length / 2)], ends[0]].map((x) => make("span", { text: end(x) }));
    const times = [make("span", { text: `−${duration(Math.max(columns.length, 30))}` }), make("span", { text: "now" })];
    return [
      make("h3", { text: "By time and value" }),
      make("div", { class: "heat" }, make("div", { class: "scale", "aria-hidden": "true" }, ...scale), canvas, make("div", { class: "times", "aria-hidden": "true" }, ...times)),
      note,
    ];
  }

  owners(d) {
    if (d.owners.length === 0) return [];
    const all = d.owners.filter((o) => o.alive).reduce((sum, o) => sum + number(o.value), 0);
    const named = d.owners.some((o) => o.name);
    const sorted = d.owners.toSorted((a, b) => b.alive - a.alive || number(b.value) - number(a.value));
    const rows = sorted.map((o) => {
      const state = o.alive ? "alive" : o.gone ? "✕ dead, gone" : "✕ dead";
      const share = make("td", { text: exact(o.value), class: "number" });
      const part = o.alive ? number(o.value) / all : 0;
      return [String(o.pid), ...(named ? [o.name] : []), make("td", { text: state, class: o.alive ? "" : "dead" }), bar(share, part)];
    });
    const title = `By process${d.rule ? `: ${d.rule}` : ""}`;
    return [make("h3", { text: title }), table(["pid", ...(named ? ["name"] : []), "state", make("th", { scope: "col", class: "number", text: "share" })], rows, title)];
  }

  cpus(d) {
    if (!d.cpus) return [];
    const { cells, seconds } = d.cpus;
    const all = cells.reduce((a, b) => a + b, 0);
    const items = cells.map((n, i) => {
      const part = all > 0 ? n / all : 0;
      const item = make("li", { title: `${exact(n)} on CPU ${i}` }, make("span", { text: `CPU ${i}` }), make("span", { text: `${(part * 100).toFixed(part < 0.0995 ? 1 : 0)} %` }));
      return bar(item, part);
    });
    const when = seconds === null ? "in all" : `last ${duration(Math.round(seconds))}`;
    return [make("h3", { text: `By CPU, ${when}` }), make("ul", { class: "cpus" }, ...items)];
  }

  exemplars(d) {
    if (d.exemplars.length === 0) return [];
    const labels = (e) => e.labels.map(([n, v]) => `${n}="${v}"`).join(", ");
    const rows = d.exemplars.map((e) => [withUnit(number(e.value), d.unit), labels(e), `${duration(d.taken - e.time)} ago`]);
    return [make("h3", { text: "Exemplars" }), table(["value", "labels", "when"], rows, "Exemplars")];
  }

  about(d) {
    const [ten, hundred, thousand] = d.averages.map((x) => (x === null ? "–" : this.says(d, x)));
    const rates = d.kind !== "info" && !isTime(d);
    return facts([
      ["segment", d.segment],
      ["kind", `${KINDS[d.kind]}${d.unit ? `, unit ${d.unit}` : ""}`],
      ["since", `${clock(d.since)}, ${duration(d.taken - d.since)} ago`],
      ["set", d.set === null ? null : `${duration(d.taken - d.set)} ago`],
      ["per second", d.rate === null ? null : this.says(d, d.rate)],
      ["mean of 10 s", rates ? ten : null],
      ["of 100 s", rates ? hundred : null],
      ["of 1000 s", rates ? thousand : null],
      ["family", d.family ? `at most ${exact(d.family.cap)} series` : null],
    ]);
  }
}
