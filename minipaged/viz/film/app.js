// The player: where we are, what is selected, and how it moves. Used by the notebook widget and by the page.
import { Board, make } from "./board.js";
import { Picture } from "./canvas.js";
import { Clock } from "./compare.js";
import { Controls, KEYS, SPEEDS, actionOf } from "./controls.js";
import { drawCursor, drawTimelineGround, timeAt, timelineHeight } from "./draw_timeline.js";
import { THEMES, Tiles } from "./look.js";
import { Run } from "./replay.js";
import { snapshot } from "./state.js";
import { count, number, who } from "./words.js";

const SECONDS = 60; // at the first speed, the whole film takes about this long
const STILL = 500; // milliseconds between two pictures for those who asked for little motion
const CALM = 5; // events a second, up to which the selection goes with the event

export class Film {
  // `film`: {runs: [columns ...], title, start, select, follow}. `onMove(position)`: called when it comes to rest.
  constructor(root, film, onMove = () => {}) {
    this.root = root;
    this.runs = film.runs.map((one) => new Run(one));
    this.clock = new Clock(this.runs);
    this.onMove = onMove;
    Object.assign(this, { position: 0, playing: false, selected: null, pinned: false, followed: film.follow ?? null, debt: 0, frames: 0 });
    this.build(film);
    if (film.select !== null && film.select !== undefined) this.select(this.runs[0].numberOf.get(film.select) ?? null);
    const quick = SPEEDS.find((speed) => this.clock.length / speed <= SECONDS) ?? SPEEDS.at(-1);
    this.controls.speed.value = Math.max(2, quick);
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(root);
    this.darkness = matchMedia("(prefers-color-scheme: dark)");
    this.stillness = matchMedia("(prefers-reduced-motion: reduce)");
    this.onDarkness = () => this.setTheme();
    this.darkness.addEventListener("change", this.onDarkness);
    this.setTheme();
    this.measure();
    this.seek(film.start ?? 0);
  }

  build(film) {
    const { root, clock } = this, total = this.runs[0].totals;
    root.classList.add("mp-film");
    root.film = this;
    root.tabIndex = 0;
    root.setAttribute("role", "region");
    root.setAttribute("aria-label", film.title || "Memory film");
    this.controls = new Controls((name) => this.act(name), { compares: this.runs.length > 1, marks: clock.marks });
    const facts = `${count(total.requests, "request")} · ${count(total.blocks, "block")} of ${count(total.blockSize, "token")} · `
      + `${count(total.steps, "step")} · ${count(this.runs[0].length, "event")}`;
    this.boards = this.runs.map((run) => new Board(run, run.label, (what) => this.choose(what)));
    this.live = make("p", { className: "mp-live", "aria-live": "polite" });
    this.timeline = new Picture("");
    this.buildTimeline(this.timeline.canvas);
    const body = make("div", { className: "mp-body" },
      make("header", { className: "mp-head" }, make("div", {}, make("h2", { textContent: film.title || "Memory film" }),
        make("p", { textContent: facts })), this.controls.tools),
      make("div", { className: `mp-boards mp-boards-${this.runs.length}` }, ...this.boards.map((board) => board.element)),
      make("div", { className: "mp-dock" }, make("div", { className: "mp-timeline" }, this.timeline.canvas), this.controls.element));
    root.replaceChildren(body, this.live, this.controls.help);
    this.onKey = (event) => this.key(event);
    root.addEventListener("keydown", this.onKey);
  }

  buildTimeline(canvas) {
    canvas.setAttribute("role", "slider");
    canvas.setAttribute("aria-label", "Timeline: event");
    canvas.setAttribute("aria-valuemin", 0);
    canvas.setAttribute("aria-valuemax", this.clock.length - 1);
    canvas.tabIndex = 0;
    const go = (event) => {
      const x = event.clientX - canvas.getBoundingClientRect().left;
      this.seek(timeAt(x, this.timeline.width, this.clock.length));
    };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); this.dragging = true; this.pause(); go(event); });
    canvas.addEventListener("pointermove", (event) => { if (this.dragging) go(event); });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, () => { if (this.dragging) { this.dragging = false; this.rest(); } });
    }
  }

  // ---- looks ----

  setTheme(chosen = this.chosen) {
    this.chosen = chosen;
    const { body } = document;
    const host = body.dataset.jpThemeLight === "false" || body.classList.contains("vscode-dark") ? "dark"
      : body.dataset.jpThemeLight === "true" || body.classList.contains("vscode-light") ? "light" : null;
    const name = chosen ?? host ?? (this.darkness.matches ? "dark" : "light");
    if (this.themeName === name) return;
    this.themeName = name;
    this.theme = THEMES[name];
    this.root.dataset.theme = name;
    this.tiles = null;
    this.ground = null;
    this.draw();
  }

  measure() {
    for (const board of this.boards) board.measure();
    this.timelineWidth = this.timeline.canvas.parentElement.clientWidth;
    const scale = Math.min(3, window.devicePixelRatio || 1);
    if (scale !== this.scale) this.tiles = null;
    this.scale = scale;
    this.draw();
  }

  // ---- drawing ----

  draw() {
    if (!this.scale || !this.theme) return;
    this.tiles ??= new Tiles(this.scale, this.theme);
    const { selected, followed, theme, tiles, scale, playing, clock, position } = this, now = performance.now();
    const note = clock.difference === null || position < clock.difference ? ""
      : position === clock.difference ? " · ◆ first difference" : " · after the first difference";
    this.clock.at(this.position).forEach((time, which) => {
      this.boards[which].draw(time, { selected: which ? this.twinOf(selected) : selected, followed, theme, tiles, scale, playing, now, note });
    });
    this.drawTimeline();
    this.root.dataset.position = this.position;
  }

  twinOf(selected) { // the request of the same name in the second run
    return selected === null ? null : this.runs[1].numberOf.get(this.runs[0].names[selected]) ?? null;
  }

  drawTimeline() {
    const { timeline, clock, theme, scale } = this, width = this.timelineWidth, height = timelineHeight(this.runs.length);
    if (!timeline.begin(width, height, scale)) return;
    if (!this.ground || this.ground.width !== Math.round(width * scale)) {
      this.ground = make("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
      const ctx = this.ground.getContext("2d");
      ctx.scale(scale, scale);
      drawTimelineGround(ctx, width, height, clock, theme);
    }
    timeline.ctx.drawImage(this.ground, 0, 0, width, height);
    drawCursor(timeline.ctx, width, height, clock, this.position, theme);
    timeline.canvas.setAttribute("aria-valuenow", this.position);
    if (!this.playing) timeline.canvas.setAttribute("aria-valuetext", `event ${number(this.position)}: ${this.boards[0].text}`);
  }

  // ---- moving ----

  get length() { return this.clock.length; }

  seek(position) {
    this.position = Math.max(0, Math.min(this.length - 1, Math.round(position)));
    if (!this.pinned && (!this.playing || this.speed <= CALM)) this.goWithEvent();
    this.draw();
    if (!this.playing && !this.dragging) this.rest();
  }

  goWithEvent() {
    const [run] = this.runs, time = this.clock.at(this.position)[0], event = run.events[time];
    const r = event.r ?? run.state(time).holders[event.block]?.[0];
    if (r !== undefined) this.selected = r;
  }

  rest() {
    const texts = this.boards.map((board) => (board.run.label && this.boards.length > 1 ? `${board.run.label}: ${board.text}` : board.text));
    this.say([...new Set(texts)].join(" "));
    this.onMove(this.position);
  }

  say(text) { this.live.textContent = text; }

  get speed() { return Number(this.controls.speed.value); }

  start() {
    if (this.playing) return;
    if (this.position === this.length - 1) this.position = 0;
    this.playing = true;
    this.controls.setPlaying(true);
    let last = null, drawn = 0;
    this.debt = 0;
    const frame = (now) => {
      if (!this.playing) return;
      this.debt += last === null ? 0 : (Math.min(now - last, 200) / 1000) * this.speed;
      last = now;
      const events = Math.floor(this.debt);
      if (events && now - drawn >= (this.stillness.matches ? STILL : 0)) {
        drawn = now;
        this.debt -= events;
        this.seek(this.position + events);
        this.frames++;
      }
      if (this.position === this.length - 1) this.pause(); else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  pause() {
    if (!this.playing) return;
    this.playing = false;
    this.controls.setPlaying(false);
    this.draw();
    this.rest();
  }

  // To the nearest of these positions; says so when there is none.
  jump(list, direction, what) {
    this.pause();
    const found = Clock.next(list, this.position, direction);
    if (found === null) this.say(`There is no ${what} ${direction > 0 ? "after" : "before"} this event.`);
    else this.seek(found);
  }

  about(direction) {
    this.pause();
    const { selected, followed } = this, run = this.runs[0];
    if (this.pinned === false && followed === null) { this.say("Select a request or follow a block first."); return; }
    const isAbout = (event) => (followed !== null ? event.block === followed || event.src === followed || event.dst === followed
      : event.r === selected);
    const time = run.about(this.clock.at(this.position)[0], direction, isAbout);
    if (time === null) this.say(`There is no event about ${followed !== null ? `P${followed}` : who(run.names[selected])} there.`);
    else this.seek(this.clock.positionOf(0, time));
  }

  // ---- choosing ----

  choose({ request, block }) {
    if (request !== undefined) this.select(request === this.selected && this.pinned ? null : request);
    if (block !== undefined) this.follow(block === this.followed ? null : block);
  }

  select(r) {
    this.selected = r;
    this.pinned = r !== null;
    this.draw();
    if (r !== null) this.say(`Selected: ${who(this.runs[0].names[r])}.`);
  }

  follow(block) {
    this.followed = block;
    this.draw();
    if (block !== null) this.say(this.boards[0].inspector.textContent);
  }

  cycle(now, count_, direction) { return now === null ? (direction > 0 ? 0 : count_ - 1) : (now + direction + count_) % count_; }

  find() {
    const text = this.controls.search.value.trim(), run = this.runs[0];
    const name = [text, text.replace(/^request\s+/i, "")].find((one) => run.numberOf.has(one))
      ?? run.names.find((one) => one.toLowerCase() === text.toLowerCase()) ?? run.names.find((one) => text && one.startsWith(text));
    const block = /^(?:p|block\s*)(\d+)$/i.exec(text);
    if (name !== undefined) {
      const r = run.numberOf.get(name), first = run.events.findIndex((event) => event.r === r);
      this.select(r);
      if (this.clock.at(this.position)[0] < first) this.seek(this.clock.positionOf(0, first));
      this.root.focus();
    } else if (block && Number(block[1]) < run.totals.blocks) {
      this.follow(Number(block[1]));
      this.root.focus();
    } else {
      const some = run.names.slice(0, 3).join(", ");
      this.say(`There is no ${text || "empty name"} here: ${count(run.names.length, "request")} (${some} ...) and blocks P0 to P${run.totals.blocks - 1}.`);
    }
    this.controls.search.setAttribute("aria-invalid", String(name === undefined && !block));
  }

  // ---- actions ----

  act(name) { this.actions()[name](); }

  actions() {
    const { clock, controls } = this, steps = clock.stepEnds;
    const speed = (by) => { controls.speed.selectedIndex = Math.max(0, Math.min(SPEEDS.length - 1, controls.speed.selectedIndex + by)); };
    const to = (position) => { this.pause(); this.seek(position); };
    return {
      toggle: () => (this.playing ? this.pause() : this.start()),
      nextEvent: () => to(this.position + 1), previousEvent: () => to(this.position - 1),
      nextStep: () => this.jump(steps, 1, "step"), previousStep: () => this.jump(steps, -1, "step"),
      first: () => to(0), last: () => to(this.length - 1), faster: () => speed(1), slower: () => speed(-1), speed: () => {},
      nextCopy: () => this.jump(clock.marks.copy, 1, "copy"), previousCopy: () => this.jump(clock.marks.copy, -1, "copy"),
      nextEvict: () => this.jump(clock.marks.evict, 1, "eviction"), previousEvict: () => this.jump(clock.marks.evict, -1, "eviction"),
      nextPreempt: () => this.jump(clock.marks.preempt, 1, "preemption"),
      previousPreempt: () => this.jump(clock.marks.preempt, -1, "preemption"),
      difference: () => (clock.difference === null ? this.say("There is no difference.") : to(clock.difference)),
      nextRequest: () => this.select(this.cycle(this.selected, this.runs[0].names.length, 1)),
      previousRequest: () => this.select(this.cycle(this.selected, this.runs[0].names.length, -1)),
      nextBlock: () => this.follow(this.cycle(this.followed, this.runs[0].totals.blocks, 1)),
      previousBlock: () => this.follow(this.cycle(this.followed, this.runs[0].totals.blocks, -1)),
      nextAbout: () => this.about(1), previousAbout: () => this.about(-1),
      search: () => { controls.search.focus(); controls.search.select(); }, find: () => this.find(),
      leaveSearch: () => this.root.focus(),
      clear: () => { this.selected = null; this.pinned = false; this.followed = null; this.draw(); this.say("Nothing is selected."); },
      theme: () => this.setTheme(this.themeName === "dark" ? "light" : "dark"),
      help: () => controls.help.showModal(),
    };
  }

  get keys() { return KEYS; }

  key(event) {
    event.stopPropagation(); // notebooks take keys for themselves
    const { tagName } = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || tagName === "INPUT" || tagName === "SELECT") return;
    if (this.controls.help.open || (tagName === "BUTTON" && (event.key === " " || event.key === "Enter"))) return;
    const name = actionOf(event.key);
    if (!name) return;
    event.preventDefault();
    this.act(name);
  }

  // What the film holds now, as plain data: for tests.
  snapshot(which = 0) {
    const run = this.runs[which];
    return snapshot(run.state(this.clock.at(this.position)[which]), run.names, run.keys);
  }

  close() {
    this.playing = false;
    this.resize.disconnect();
    this.darkness.removeEventListener("change", this.onDarkness);
  }
}

// A page of its own: keys work wherever the focus is.
export function mountPage(root, film) {
  const player = new Film(root, film);
  document.addEventListener("keydown", (event) => { if (!root.contains(event.target)) player.key(event); });
  return player;
}

function render({ model, el }) {
  const root = document.createElement("div");
  el.append(root);
  const player = new Film(root, JSON.parse(model.get("film")), (position) => {
    if (model.get("position") === position) return;
    model.set("position", position);
    model.save_changes();
  });
  const onPosition = () => { if (model.get("position") !== player.position) player.seek(model.get("position")); };
  model.on("change:position", onPosition);
  return () => { model.off("change:position", onPosition); player.close(); };
}

export default { render };
