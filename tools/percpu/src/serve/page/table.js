// SPDX-License-Identifier: MIT
// The table. Only the rows that can be seen are in the document, so that there may be thousands.

import { make, Trend } from "./charts.js";
import { digits, duration, exact, isTime, number, rate } from "./numbers.js";
import { search } from "./store.js";

const ORDERS = {
  name: (a, b) => 0,
  value: (a, b) => compare(number(a.value), number(b.value)),
  rate: (a, b) => compare(a.rate ?? NaN, b.rate ?? NaN),
};

/** Numbers, those that are none before all others. */
function compare(a, b) {
  return (Number.isNaN(a) ? -Infinity : a) - (Number.isNaN(b) ? -Infinity : b) || 0;
}

function byName(a, b) {
  if (a.segment !== b.segment) return a.segment < b.segment ? -1 : 1;
  if (a.full !== b.full) return a.full < b.full ? -1 : 1;
  return a.id - b.id;
}

/** A row that is in the document. */
class Row {
  constructor(number) {
    this.trend = new Trend();
    const cell = (name) => make("div", { role: "gridcell", class: name });
    this.cells = Object.fromEntries(["segment", "name", "value", "rate", "trend"].map((n) => [n, cell(n)]));
    this.bare = make("span", { class: "bare" });
    this.labels = make("span", { class: "labels" });
    this.cells.name.append(this.bare, this.labels);
    this.cells.trend.append(this.trend.svg);
    this.element = make("div", { class: "row", role: "row", id: `row-${number}` }, ...Object.values(this.cells));
    this.series = null;
  }

  /** Put a series there. */
  show(series, index, top, store) {
    const { segment, name, value, rate: perSecond } = this.cells;
    if (this.series !== series) {
      this.series = series;
      segment.textContent = series.segment;
      this.bare.textContent = series.name;
      this.labels.textContent = series.labels ? `{${series.labels}}` : "";
      name.title = series.full;
    }
    value.textContent = isTime(series) ? `${duration(store.taken - number(series.value))} ago` : digits(series.value);
    value.title = series.value?.missing ?? `${exact(series.value)} ${series.unit}`;
    perSecond.textContent = series.grows ? rate(series.rate, series.unit) : "";
    this.element.setAttribute("aria-rowindex", index + 2);
    this.element.style.transform = `translateY(${top}px)`;
    this.trend.draw(store.trend(series));
  }
}

export class Table {
  /** `open` is called with a series that is to be shown large. */
  constructor(store, open) {
    this.store = store;
    this.open = open;
    this.grid = document.getElementById("grid");
    this.body = document.getElementById("rows");
    this.shown = [];
    this.pool = [];
    this.order = "name";
    this.down = false;
    this.segment = null;
    this.text = "";
    this.cursor = null;
    this.sorted = { version: -1, all: [] };
    this.grid.addEventListener("scroll", () => this.draw(), { passive: true });
    this.grid.addEventListener("keydown", (e) => this.key(e));
    this.body.addEventListener("click", (e) => this.click(e));
    document.getElementById("head").addEventListener("click", (e) => this.sort(e));
    new ResizeObserver(() => this.draw()).observe(this.grid);
  }

  /** Choose which series are shown, and in which order. */
  arrange() {
    if (this.sorted.version !== this.store.version) {
      const all = [...this.store.series.values()].sort(byName);
      this.sorted = { version: this.store.version, all };
    }
    const matches = search(this.text);
    const wanted = (s) => (!this.segment || s.segment === this.segment) && matches(s);
    this.shown = this.sorted.all.filter(wanted);
    if (this.order !== "name") this.shown.sort(ORDERS[this.order]);
    if (this.down) this.shown.reverse();
    this.draw();
  }

  get height() {
    return parseFloat(getComputedStyle(this.grid).getPropertyValue("--row")) || 28;
  }

  draw() {
    const { height, grid } = this;
    const head = this.body.offsetTop;
    this.body.style.height = `${this.shown.length * height}px`;
    grid.setAttribute("aria-rowcount", this.shown.length + 1);
    const first = Math.max(0, Math.floor(grid.scrollTop / height) - 4);
    const last = Math.min(this.shown.length, Math.ceil((grid.scrollTop + grid.clientHeight - head) / height) + 4);
    const used = new Set();
    const free = [];
    const at = new Map();
    // A row that shows a series keeps it.
    const wanted = new Map(this.shown.slice(first, last).map((s, i) => [s.id, first + i]));
    for (const row of this.pool) {
      if (row.series && wanted.has(row.series.id) && !used.has(row.series.id)) {
        used.add(row.series.id);
        at.set(row, wanted.get(row.series.id));
      } else free.push(row);
    }
    for (const [id, index] of wanted) if (!used.has(id)) at.set(free.pop() ?? this.add(), index);
    for (const row of free) row.element.hidden = true;
    let active = "";
    for (const [row, index] of at) {
      const series = this.shown[index];
      row.element.hidden = false;
      row.show(series, index, index * height, this.store);
      const selected = series.key === this.cursor;
      row.element.setAttribute("aria-selected", selected);
      if (selected) active = row.element.id;
    }
    if (active) grid.setAttribute("aria-activedescendant", active);
    else grid.removeAttribute("aria-activedescendant");
    this.inOrder(at);
  }

  /** Screen readers read rows in the order of the document. */
  inOrder(at) {
    const rows = [...at].sort((a, b) => a[1] - b[1]).map(([row]) => row.element);
    rows.forEach((element, i) => {
      if (this.body.children[i] !== element) this.body.insertBefore(element, this.body.children[i] ?? null);
    });
  }

  add() {
    const row = new Row(this.pool.length);
    this.pool.push(row);
    return row;
  }

  index() {
    return this.shown.findIndex((s) => s.key === this.cursor);
  }

  /** Put the cursor on a row, and show it. */
  move(index) {
    const to = Math.min(Math.max(index, 0), this.shown.length - 1);
    const series = this.shown[to];
    if (!series) return;
    this.cursor = series.key;
    const { grid, height } = this;
    const room = grid.clientHeight - this.body.offsetTop - height;
    grid.scrollTop = Math.min(Math.max(grid.scrollTop, to * height - room), to * height);
    this.draw();
    this.open(series, false);
  }

  key(e) {
    if (e.target !== this.grid || e.ctrlKey || e.altKey || e.metaKey) return;
    const page = Math.max(1, Math.floor((this.grid.clientHeight - 60) / this.height));
    const now = this.index();
    const to = {
      ArrowDown: now + 1,
      ArrowUp: now < 0 ? 0 : now - 1,
      PageDown: now + page,
      PageUp: now - page,
      Home: 0,
      End: this.shown.length - 1,
    }[e.key];
    if (to !== undefined) this.move(to);
    else if (e.key === "Enter" && this.shown[now]) this.open(this.shown[now], true);
    else return;
    e.preventDefault();
  }

  click(e) {
    const element = e.target.closest("[role=row]");
    const row = this.pool.find((r) => r.element === element);
    if (!row?.series || String(getSelection())) return;
    this.cursor = row.series.key;
    this.draw();
    this.open(row.series, true);
  }

  sort(e) {
    const order = e.target.closest("[data-sort]")?.dataset.sort;
    if (!order) return;
    this.down = order === this.order ? !this.down : order !== "name";
    this.order = order;
    for (const button of document.querySelectorAll("[data-sort]")) {
      const mine = button.dataset.sort === order;
      if (mine) button.parentElement.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else button.parentElement.removeAttribute("aria-sort");
    }
    this.grid.scrollTop = 0;
    this.arrange();
  }
}
