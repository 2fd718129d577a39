// The player: where we are, what is selected, and how it moves. Used by the notebook widget and by the page.
import { Board, make } from "./board.js";
import { Clock } from "./compare.js";
import { actionsOf } from "./actions.js";
import { Controls, SPEEDS, actionOf } from "./controls.js";
import { putTogether } from "./page.js";
import { Timeline } from "./timeline.js";
import { THEMES, Tiles, themeAround } from "./look.js";
import { Run } from "./replay.js";
import { snapshot } from "./state.js";
import { who } from "./words.js";

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
    Object.assign(this, {
      position: 0,
      playing: false,
      selected: null,
      pinned: false,
      followed: film.follow ?? null,
      debt: 0,
      frames: 0,
    });
    this.build(film);
    if (film.select !== null && film.select !== undefined) this.select(this.runs[0].numberOf.get(film.select) ?? null);
    const quick = SPEEDS.find((speed) => this.clock.length / speed <= SECONDS) ?? SPEEDS.at(-1);
    this.controls.speed.value = Math.max(2, quick);
    this.resize = new ResizeObserver(() => this.measure());
    this.resize.observe(root);
    this.darkness = matchMedia("(prefers-color-scheme: dark)");
    this.stillness = matchMedia("(prefers-reduced-motion: reduce)");
    this.onDarkness = () => (root.isConnected ? this.setTheme() : this.close()); // a cell may run again
    this.darkness.addEventListener("change", this.onDarkness);
    this.surroundings = new MutationObserver(this.onDarkness); // a notebook has a theme of its own
    this.surroundings.observe(document.body, { attributeFilter: ["class", "data-jp-theme-light"] });
    this.setTheme();
    this.measure();
    this.seek(film.start ?? 0);
  }

  build(film) {
    const { root, clock } = this;
    root.film = this;
    this.controls = new Controls((name) => this.act(name), { compares: this.runs.length > 1, marks: clock.marks });
    this.boards = this.runs.map((run) => new Board(run, run.label, (what) => this.choose(what)));
    const drag = (position) => {
      this.pause();
      this.seek(position);
    };
    this.timeline = new Timeline(clock, drag, () => this.rest());
    this.live = make("p", { className: "mp-live", "aria-live": "polite" });
    putTogether(root, film.title || "Memory film", this);
    this.onKey = (event) => this.key(event);
    root.addEventListener("keydown", this.onKey);
  }

  // ---- looks ----

  setTheme(chosen = this.chosen) {
    this.chosen = chosen;
    const name = chosen ?? themeAround(this.darkness);
    if (this.themeName === name) return;
    this.themeName = name;
    this.theme = THEMES[name];
    this.root.dataset.theme = name;
    this.tiles = null;
    this.draw();
  }

  measure() {
    for (const board of this.boards) board.measure();
    this.timeline.measure();
    const scale = Math.min(3, window.devicePixelRatio || 1);
    if (scale !== this.scale) this.tiles = null;
    this.scale = scale;
    this.draw();
  }

  // ---- drawing ----

  draw() {
    if (!this.scale || !this.theme) return;
    this.tiles ??= new Tiles(this.scale, this.theme);
    const { selected, followed, theme, tiles, scale, playing, clock, position } = this;
    const now = performance.now();
    const note =
      clock.difference === null || position < clock.difference
        ? ""
        : position === clock.difference
          ? " · ◆ first difference"
          : " · after the first difference";
    this.clock.at(this.position).forEach((time, which) => {
      this.boards[which].draw(time, {
        selected: which ? this.twinOf(selected) : selected,
        followed,
        theme,
        tiles,
        scale,
        playing,
        now,
        note,
        differs: position === clock.difference,
      });
    });
    this.timeline.draw(position, this.boards[0].text, theme, scale, playing);
    this.root.dataset.position = this.position;
  }

  twinOf(selected) {
    // the request of the same name in the second run
    return selected === null ? null : (this.runs[1].numberOf.get(this.runs[0].names[selected]) ?? null);
  }

  // ---- moving ----

  get length() {
    return this.clock.length;
  }

  seek(position) {
    this.position = Math.max(0, Math.min(this.length - 1, Math.round(position)));
    if (!this.pinned && (!this.playing || this.speed <= CALM)) this.goWithEvent();
    this.draw();
    if (!this.playing && !this.timeline.dragging) this.rest();
  }

  goWithEvent() {
    const [run] = this.runs;
    const time = this.clock.at(this.position)[0];
    const event = run.events[time];
    const r = event.r ?? run.state(time).holders[event.block]?.[0];
    if (r !== undefined) this.selected = r;
    else this.selected ??= run.state(time).running[0] ?? run.state(time).waiting[0] ?? null;
  }

  rest() {
    const texts = this.boards.map((board) =>
      board.run.label && this.boards.length > 1 ? `${board.run.label}: ${board.text}` : board.text,
    );
    this.say([...new Set(texts)].join(" "));
    this.onMove(this.position);
  }

  say(text) {
    this.live.textContent = text;
  }

  get speed() {
    return Number(this.controls.speed.value);
  }

  start() {
    if (this.playing) return;
    if (this.position === this.length - 1) this.position = 0;
    this.playing = true;
    this.controls.setPlaying(true);
    let last = null;
    let drawn = 0;
    this.debt = 0;
    const frame = (now) => {
      if (!this.playing || !this.root.isConnected) return;
      this.debt += last === null ? 0 : (Math.min(now - last, 200) / 1000) * this.speed;
      last = now;
      const events = Math.floor(this.debt);
      if (events && now - drawn >= (this.stillness.matches ? STILL : 0)) {
        drawn = now;
        this.debt -= events;
        this.seek(this.position + events);
        this.frames++;
      }
      if (this.position === this.length - 1) this.pause();
      else requestAnimationFrame(frame);
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

  // ---- choosing ----

  // A click: on what is chosen already, it is chosen no more. Nothing at all: nothing is chosen.
  choose({ request, block }) {
    if (request === undefined && block === undefined) {
      Object.assign(this, { selected: null, pinned: false, followed: null });
      this.draw();
      this.say("Nothing is selected.");
    }
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

  // ---- actions ----

  act(name) {
    actionsOf(this)[name]();
  }

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
    this.surroundings.disconnect();
    this.darkness.removeEventListener("change", this.onDarkness);
  }
}
