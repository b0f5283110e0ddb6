// SPDX-License-Identifier: MIT
// The page: its parts, and what keys do.

import { make } from "./charts.js";
import { Detail } from "./detail.js";
import { Feed } from "./feed.js";
import { clock, duration, exact } from "./numbers.js";
import { Store } from "./store.js";
import { Table } from "./table.js";

/** A hidden tab asks for nothing after so long. */
const HIDDEN = 5000;
const THEMES = ["auto", "light", "dark"];

const at = (id) => document.getElementById(id);
const store = new Store();
const detail = new Detail(() => at("grid").focus());
const table = new Table(store, open);
const feed = new Feed(take, tell);
let paused = false;
let state = { name: "wait", why: "", since: Date.now() };
let selected = null;

/** Say something to all, also to those who do not see it. */
function say(text) {
  at("said").textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => {
    at("said").textContent = "";
  }, 8000);
}

function open(series, asked) {
  if (!asked && !detail.isOpen) return;
  selected = series.key;
  detail.show(series);
  detail.update();
  if (asked && matchMedia("(max-width: 60rem)").matches) detail.close.focus();
}

function take(message) {
  store.apply(message);
  if (message.segments) drawSegments();
  for (const text of (message.said ?? []).slice(-1)) say(text);
  follow();
  table.arrange();
  drawCount();
  drawAges();
  detail.update();
}

/** Numbers of series may be others after a restart of the server. */
function follow() {
  if (!detail.isOpen || store.series.has(detail.series.id)) return;
  const again = store.find(selected);
  if (again) detail.show(again);
}

function tell(name, why) {
  if (state.name === name && state.why === why) return;
  const before = state.name;
  state = { name, why, since: name === "lost" && before === "lost" ? state.since : Date.now() };
  if (before !== "wait" && before !== name) say(name === "live" ? "Connected again." : `Connection lost: ${why}.`);
  drawState();
}

function drawState() {
  const seconds = (Date.now() - state.since) / 1000;
  let [name, text] = [state.name, "connecting"];
  if (paused) [name, text] = ["paused", `paused at ${clock(store.taken)}`];
  else if (name === "live") text = "live";
  else if (name === "lost") text = `${state.why}; stale since ${clock(state.since / 1000)}, ${duration(seconds)}`;
  at("state").dataset.state = name;
  if (at("state-text").textContent !== text) at("state-text").textContent = text;
  document.body.classList.toggle("stale", name === "lost");
}

function drawCount() {
  const [shown, all] = [table.shown.length, store.series.size];
  at("count").textContent = shown === all ? `${exact(all)}` : `${exact(shown)} of ${exact(all)}`;
  const none = all === 0 ? "There are no series yet. They appear here as soon as a program counts." : "Nothing matches: Escape shows all.";
  at("empty").textContent = none;
  at("empty").hidden = shown > 0 || store.run === null;
}

function segmentCard(s) {
  const button = make("button", { type: "button", "aria-pressed": String(table.segment === s.name) });
  const head = make("span", { class: "head" }, make("b", { text: s.name, title: s.name }));
  if (s.lost) head.append(make("em", { class: "alarm", text: "✕ unreadable" }));
  else if (s.dead > 0) head.append(make("em", { class: "warn", text: `⚠ ${exact(s.dead)} dead` }));
  button.append(head);
  if (s.lost) button.append(make("span", { class: "why", text: s.lost, title: s.lost }));
  if (s.since > 0) {
    const owners = s.alive + s.dead > 0 ? [`${exact(s.alive)} of ${exact(s.alive + s.dead)} alive`] : [];
    const texts = [...(s.program ? [s.program] : []), `generation ${exact(s.generation)}`, ...owners, `${exact(s.series)} series`];
    const age = make("span", { class: "age" });
    age.dataset.since = s.since;
    button.append(make("span", { class: "about" }, make("span", { text: texts.join(" · ") }), " · ", age));
  }
  button.addEventListener("click", () => {
    table.segment = table.segment === s.name ? null : s.name;
    drawSegments();
    table.arrange();
    drawCount();
  });
  return make("li", {}, button);
}

function drawSegments() {
  if (!store.segments.some((s) => s.name === table.segment)) table.segment = null;
  const focused = [...at("segments").children].findIndex((li) => li.contains(document.activeElement));
  at("segments").replaceChildren(...store.segments.map(segmentCard));
  if (focused >= 0) at("segments").children[focused]?.firstChild.focus();
  document.body.classList.toggle("several", store.segments.length > 1);
  const warnings = store.segments.flatMap((s) => warningsOf(s).map((text) => make("li", { class: "warn", text: `⚠ ${s.name}: ${text}` })));
  at("warnings").replaceChildren(...warnings.slice(0, 8));
  if (warnings.length > 8) at("warnings").append(make("li", { class: "warn", text: `and ${warnings.length - 8} more warnings` }));
  drawAges();
}

function warningsOf(s) {
  const out = s.families.filter((f) => f.overflows !== 0).map((f) => `family ${f.name} is full at ${exact(f.cap)} series; ${exact(f.overflows)} calls were counted without labels`);
  if (s.left_out > 0) out.push(`${exact(s.left_out)} series are left out: give percpu serve a --match`);
  if (s.pending > 0) out.push(`${exact(s.pending)} records without a metric`);
  return out;
}

function drawAges() {
  for (const e of document.querySelectorAll("[data-since]")) e.textContent = duration(store.taken - Number(e.dataset.since));
}

function pause() {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", String(paused));
  at("pause").textContent = paused ? "Go on" : "Pause";
  if (paused) feed.stop();
  else feed.start();
  say(paused ? "Paused." : "Going on.");
  drawState();
}

function theme(next) {
  let kept = "auto";
  try {
    kept = localStorage.getItem("percpu-theme") ?? "auto";
    if (next) {
      kept = THEMES[(THEMES.indexOf(kept) + 1) % THEMES.length];
      localStorage.setItem("percpu-theme", kept);
    }
  } catch {
    // Without storage the choice is forgotten with the page.
    if (next) kept = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % THEMES.length];
  }
  document.documentElement.dataset.theme = kept;
  at("theme").textContent = `Theme: ${kept}`;
  if (next) detail.draw();
}

function key(e) {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  const typing = e.target.matches("input");
  if (e.key === "/" && !typing) at("search").focus();
  else if (e.key === " " && !typing && !e.target.closest("button")) pause();
  else if (e.key === "Escape" && !typing && table.text) clear();
  else if (e.key === "Escape" && !typing) detail.hide();
  else return;
  e.preventDefault();
}

function clear() {
  at("search").value = "";
  find();
}

function find() {
  table.text = at("search").value;
  at("grid").scrollTop = 0;
  table.arrange();
  drawCount();
}

function searchKey(e) {
  if (e.key === "Escape") {
    clear();
    at("grid").focus();
  } else if (e.key === "Enter" || e.key === "ArrowDown") {
    at("grid").focus();
    table.move(Math.max(table.index(), 0));
  } else return;
  e.preventDefault();
}

let hiding = 0;
function visibility() {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(() => feed.stop(), HIDDEN);
  else if (!paused) feed.start();
}

theme(false);
at("theme").addEventListener("click", () => theme(true));
at("pause").addEventListener("click", pause);
at("search").addEventListener("input", find);
at("search").addEventListener("keydown", searchKey);
document.addEventListener("keydown", key);
document.addEventListener("visibilitychange", visibility);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => detail.draw());
setInterval(drawState, 1000);
visibility();
