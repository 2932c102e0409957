// Draws every <div data-timeline="address"> once it comes into view: lanes of a traced request that can be zoomed, moved
// and searched by pointer, touch and keyboard.
import { AXIS, LABEL, ROW, firstAfter, share, tick, time, unpack } from "./timeline-rows.js";

const HUES = [195, 30, 265, 140, 340, 55, 220, 95];
const KEYS = "Drag, or ← and →, to move; pinch, Ctrl and wheel, or + and −, to zoom. ↑ and ↓ choose a row, comma and full stop an event in it; Enter zooms to it, Escape shows everything.";
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const drawn = [];

// Timelines of a page have one axis, of the longest of them, and show the same part of it.
class Timeline {
  constructor(area, file) {
    Object.assign(this, unpack(file), { from: 0, to: 1, found: null, chosen: null, pointers: new Map() });
    this.duration = this.whole;
    this.whole = Math.max(this.whole, Number(area.dataset.longest) * 1e6);
    this.to = this.whole;
    if (drawn.length) [this.from, this.to] = [drawn[0].from, drawn[0].to];
    drawn.push(this);
    this.build(area);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    dark.addEventListener("change", () => this.draw());
  }

  build(area) {
    const button = (text, label, act) => make("button", { type: "button", className: "button button-small", textContent: text, ariaLabel: label, onclick: act });
    const id = `find-${drawn.length}`;
    this.search = make("input", { type: "search", id, autocomplete: "off", placeholder: "gemm, softmax, q_proj" });
    this.count = make("span", { className: "muted small", role: "status" });
    this.canvas = make("canvas", { tabIndex: 0, role: "application", ariaLabel: `${area.dataset.title}. ${KEYS}` });
    this.canvas.style.height = `${this.height}px`;
    this.detail = make("p", { className: "timeline-detail small" });
    this.said = make("p", { className: "visually-hidden", role: "status" });
    area.replaceChildren(
      make("div", { className: "timeline-tools" }, make("label", { htmlFor: id, textContent: "Find" }), this.search,
        button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)),
        button("All", "Show the whole timeline", () => this.show(0, this.whole)), this.count),
      this.canvas, this.detail, this.said, make("p", { className: "muted small", textContent: KEYS }));
    this.tell(null);
  }

  listen() {
    const on = (kind, act, options) => this.canvas.addEventListener(kind, act, options);
    on("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, { x: event.offsetX, began: event.offsetX });
    });
    on("pointermove", (event) => this.moved(event));
    for (const kind of ["pointerup", "pointercancel"]) on(kind, (event) => this.lifted(event));
    on("pointerleave", () => this.tell(this.chosen));
    on("wheel", (event) => this.wheeled(event), { passive: false });
    on("keydown", (event) => this.pressed(event));
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    });
  }

  get span() { return this.to - this.from; }
  get width() { return this.canvas.clientWidth || 1; }
  x(ns) { return ((ns - this.from) / this.span) * this.width; }
  ns(x) { return this.from + (x / this.width) * this.span; }

  show(from, to) {
    const span = clamp(to - from, Math.min(200, this.whole), this.whole);
    const first = clamp(from, 0, this.whole - span);
    for (const each of drawn) {
      [each.from, each.to] = [first, first + span];
      each.draw();
    }
  }

  zoom(factor, x = this.width / 2) {
    const at = this.ns(x), span = clamp(this.span * factor, Math.min(200, this.whole), this.whole);
    const from = at - (x / this.width) * span;
    this.show(from, from + span);
  }

  pan(ns) { this.show(this.from + ns, this.to + ns); }

  moved(event) {
    const held = this.pointers.get(event.pointerId);
    if (!held) return this.tell(this.hit(event.offsetX, event.offsetY));
    const others = [...this.pointers.values()].filter((each) => each !== held);
    if (others.length) {
      const before = Math.abs(held.x - others[0].x), after = Math.abs(event.offsetX - others[0].x);
      if (before > 4 && after > 4) this.zoom(before / after, (event.offsetX + others[0].x) / 2);
      held.began = NaN;
    } else if (Math.abs(event.offsetX - held.began) > 3 || Number.isNaN(held.began)) {
      held.began = NaN;
      this.pan(((held.x - event.offsetX) / this.width) * this.span);
    }
    held.x = event.offsetX;
  }

  lifted(event) {
    const held = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (held && !Number.isNaN(held.began) && event.type === "pointerup") this.choose(this.hit(event.offsetX, event.offsetY));
  }

  wheeled(event) {
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(event.deltaY / 300), event.offsetX);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(((event.deltaX || event.deltaY) / this.width) * this.span);
    else return;
    event.preventDefault();
  }

  pressed(event) {
    const act = {
      ArrowLeft: () => this.pan(-this.span / 8), ArrowRight: () => this.pan(this.span / 8),
      ArrowUp: () => this.step(-1, 0), ArrowDown: () => this.step(1, 0), ",": () => this.step(0, -1), ".": () => this.step(0, 1),
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
      Home: () => this.show(0, this.span), End: () => this.show(this.whole - this.span, this.whole),
      Enter: () => this.focusOn(this.chosen),
      Escape: () => { this.choose(null); this.show(0, this.whole); },
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  // To the next event of the row, or to the event of a neighbouring row at the same time.
  step(rows, events) {
    if (!this.chosen) return this.choose({ row: this.rows[0], index: Math.min(firstAfter(this.rows[0], this.from), this.rows[0].ends.length - 1) });
    const row = this.rows[clamp(this.rows.indexOf(this.chosen.row) + rows, 0, this.rows.length - 1)];
    const here = rows ? firstAfter(row, this.chosen.row.starts[this.chosen.index]) : this.chosen.index + events;
    this.choose({ row, index: clamp(here, 0, row.ends.length - 1) });
  }

  choose(event) {
    this.chosen = event;
    if (event) {
      const start = event.row.starts[event.index], end = event.row.ends[event.index];
      if (end < this.from || start > this.to) this.show(start - this.span / 2, start + this.span / 2);
    }
    this.said.textContent = this.tell(event);
    this.draw();
  }

  focusOn(event) {
    if (!event) return;
    const start = event.row.starts[event.index], end = event.row.ends[event.index], room = (end - start) * 2;
    this.show(start - room, end + room);
  }

  hit(x, y) {
    const row = this.rows.find((each) => y >= each.top && y < each.top + ROW);
    if (!row) return null;
    const reach = (2 / this.width) * this.span, index = firstAfter(row, this.ns(x) - reach);
    return index < row.starts.length && row.starts[index] <= this.ns(x) + reach ? { row, index } : null;
  }

  tell(event) {
    if (!event) {
      this.detail.textContent = `${time(this.duration)} in all. Point at an event, or choose one by keyboard, to read it.`;
      return "";
    }
    const { row, index } = event, name = row.events[index], total = this.totals[name], took = row.ends[index] - row.starts[index];
    const every = total.events > 1 ? ` ${total.events.toLocaleString("en")} of this name take ${time(total.ns)}, ${share(total.ns, this.duration)}.` : "";
    const said = `${row.lane}, at ${time(row.starts[index])}: ${time(took)}, ${share(took, this.duration)} of the timeline.${every}`;
    this.detail.replaceChildren(make("strong", { textContent: this.names[name] }), make("br"), said);
    return `${this.names[name]}. ${said}`;
  }

  find() {
    const words = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    this.found = words.length ? this.names.map((name) => words.every((word) => name.toLowerCase().includes(word))) : null;
    let events = 0, ns = 0;
    this.totals.forEach((total, name) => { if (this.found?.[name]) { events += total.events; ns += total.ns; } });
    this.count.textContent = this.found ? `${events.toLocaleString("en")} events, ${time(ns)} in all; Enter goes to the next` : "";
    this.draw();
  }

  // The next event that was found, in the order of the rows.
  next(way) {
    if (!this.found?.includes(true)) return;
    let row = this.chosen ? this.rows.indexOf(this.chosen.row) : 0, index = this.chosen ? this.chosen.index : -1;
    for (let looked = 0; looked <= this.rows.length;) {
      index += way;
      if (index < 0 || index >= this.rows[row].events.length) {
        row = (row + way + this.rows.length) % this.rows.length;
        index = way > 0 ? -1 : this.rows[row].events.length;
        looked += 1;
      } else if (this.found[this.rows[row].events[index]]) return this.choose({ row: this.rows[row], index });
    }
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const scale = window.devicePixelRatio || 1, pen = this.canvas.getContext("2d");
    this.canvas.width = Math.round(this.width * scale);
    this.canvas.height = Math.round(this.height * scale);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    pen.textBaseline = "middle";
    this.colours = { ink: colour("--ink"), muted: colour("--muted"), grid: colour("--grid"), accent: colour("--focus") };
    this.paintAxis(pen);
    for (const row of this.rows) this.paintRow(pen, row);
    pen.fillStyle = this.colours.muted;
    for (const { name, top } of this.labels) pen.fillText(name, 2, top + LABEL / 2 + 1);
  }

  paintAxis(pen) {
    const about = (this.span * 90) / this.width, size = 10 ** Math.floor(Math.log10(about));
    const step = size * ([1, 2, 5].find((each) => each * size >= about) || 10);
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      pen.fillStyle = this.colours.grid;
      pen.fillRect(x, AXIS - 6, 1, this.height);
      pen.fillStyle = this.colours.muted;
      if (x < this.width - 45) pen.fillText(tick(Math.round(at), step), x + 3, AXIS / 2);
    }
  }

  paintRow(pen, row) {
    const { starts, ends, events } = row;
    let painted = -1;
    for (let index = firstAfter(row, this.from); index < starts.length && starts[index] < this.to; index += 1) {
      const left = Math.max(this.x(starts[index]), 0), right = Math.max(Math.min(this.x(ends[index]), this.width), left + 1);
      const hidden = this.found && !this.found[events[index]], chosen = this.chosen?.row === row && this.chosen.index === index;
      if (right <= painted && !chosen && (hidden || !this.found)) continue;
      painted = right;
      const hue = HUES[events[index] % HUES.length];
      pen.globalAlpha = hidden ? 0.25 : 1;
      pen.fillStyle = dark.matches ? `hsl(${hue} 34% 32%)` : `hsl(${hue} 55% 80%)`;
      pen.fillRect(left, row.top, right - left > 3 ? right - left - 0.5 : right - left, ROW - 2);
      if (right - left > 26) {
        pen.fillStyle = this.colours.ink;
        pen.fillText(this.fitting(pen, this.names[events[index]], right - left - 6), left + 3, row.top + ROW / 2 - 0.5);
      }
      pen.globalAlpha = 1;
      if (chosen) {
        pen.strokeStyle = this.colours.accent;
        pen.lineWidth = 2;
        pen.strokeRect(left, row.top, Math.max(right - left, 2), ROW - 2);
      }
    }
  }

  fitting(pen, name, room) {
    const letters = Math.floor(room / 5);
    if (name.length > letters) name = `${name.slice(0, Math.max(letters - 1, 1))}…`;
    return pen.measureText(name).width <= room ? name : `${name.slice(0, Math.floor((name.length * room) / pen.measureText(name).width) - 1)}…`;
  }
}

async function load(area) {
  area.textContent = "Loading the timeline …";
  try {
    const answer = await fetch(area.dataset.timeline);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    new Timeline(area, await answer.json());
  } catch (error) {
    area.style.minHeight = "0";
    area.textContent = `The timeline cannot be loaded (${error.message}). The trace below may still be there.`;
  }
}

const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting) {
      seen.unobserve(target);
      load(target);
    }
  }
}, { rootMargin: "400px" });
document.querySelectorAll("[data-timeline]").forEach((area) => seen.observe(area));
