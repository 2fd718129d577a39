// The pictures of one run: its event in words, block map, queues, free queue, host pool and prefix tree.
import { Picture } from "./canvas.js";
import { blockAt } from "./layout.js";
import { drawLanes, lanesHeight, runningRows } from "./draw_lanes.js";
import { drawMap, mapHeight } from "./draw_map.js";
import { FREE_HEIGHT, drawFree, drawHost, hostGrid } from "./draw_strips.js";
import { drawTree, treeWords } from "./draw_tree.js";
import { MARKS } from "./replay.js";
import {
  blockWords,
  count,
  freeWords,
  hostWords,
  mapWords,
  number,
  queueWords,
  sentence,
  tableWords,
} from "./words.js";

const SLOW = 250; // milliseconds between the updates of what is costly, while the film plays
const treeHeight = (numBlocks) => Math.min(150, 20 + 12 * numBlocks);

export function make(tag, fields = {}, ...children) {
  const { className, ...rest } = fields;
  const element = document.createElement(tag);
  if (className) element.className = className;
  for (const [name, value] of Object.entries(rest)) {
    if (name in element && !name.startsWith("aria")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

const LEGEND = [
  ["shared", "shared: a stripe for each holder; darker when small"],
  ["part", "empty part"],
  ["cached", "free, still cached"],
  ["free", "free"],
];

export class Board {
  constructor(run, label, onChoose) {
    this.run = run;
    this.label = label;
    this.memo = {};
    this.said = make("p", { className: "mp-sentence" });
    this.when = make("p", { className: "mp-when" });
    this.inspector = make("p", { className: "mp-inspector" });
    this.element = make("section", { className: "mp-board", "aria-label": label || "the run" });
    const left = make("div", { className: "mp-column" });
    const right = make("div", { className: "mp-column" });
    const heading = label ? [make("h3", { textContent: label })] : [];
    this.say = make("div", { className: "mp-say" }, ...heading, this.when, this.said);
    this.element.append(this.say, make("div", { className: "mp-columns" }, left, right));
    this.panels = {};
    const panel = (column, name, title, words) => {
      const picture = new Picture(title);
      const fact = make("span");
      const holder = make(
        "div",
        { className: `mp-panel mp-${name}` },
        make("h3", { textContent: `${title} ` }, fact),
        picture.canvas,
      );
      picture.canvas.addEventListener("click", (click) => this.choose(picture, click, onChoose));
      column.append(holder);
      this.panels[name] = { picture, fact, holder, words };
      return holder;
    };
    const map = panel(left, "map", "Block map", mapWords);
    const legend = LEGEND.map(([kind, text]) =>
      make("li", {}, make("i", { className: `mp-key-${kind}`, "aria-hidden": "true" }), text),
    );
    map.append(make("ul", { className: "mp-legend" }, ...legend), this.inspector);
    panel(right, "lanes", "Requests", queueWords);
    panel(right, "free", "Free queue", freeWords);
    if (run.totals.hostSize) panel(right, "host", "Host memory", hostWords);
    if (run.hasTree) panel(run.totals.blocks <= 24 ? left : right, "tree", "Prefix tree", treeWords);
  }

  choose(picture, click, onChoose) {
    const box = picture.canvas.getBoundingClientRect();
    const x = click.clientX - box.left;
    const y = click.clientY - box.top;
    const hit = picture.at(x, y);
    if (!hit) return;
    if (hit.grid) {
      const block = blockAt(hit.grid, x, y - hit.top);
      if (block < this.run.totals.blocks) onChoose({ block });
    } else onChoose(hit);
  }

  // Ask the page once for the room that each picture has.
  measure() {
    for (const one of Object.values(this.panels)) one.width = one.picture.canvas.parentElement.clientWidth - 24;
    this.compact = this.element.clientWidth < 560;
  }

  // `seen`: {selected, followed, theme, tiles, scale, playing, now}.
  draw(time, seen) {
    const { run } = this;
    const state = run.state(time);
    const event = run.events[time];
    const ended = run.stepEnds.findIndex((end) => end >= time);
    const view = {
      ...seen,
      state,
      run,
      event,
      memo: this.memo,
      stepStart: ended > 0 ? run.stepEnds[ended - 1] + 1 : 0,
      markOf: (one) => Object.keys(MARKS).find((kind) => MARKS[kind](one)),
    };
    this.view = view;
    const rare = !seen.playing || !(seen.now - this.lastRare < SLOW);
    if (rare) this.lastRare = seen.now;
    this.setText(
      this.when,
      `event ${number(time)} of ${number(run.length - 1)} · step ${event.step < 0 ? "–" : number(event.step)}` +
        seen.note,
    );
    this.setText(this.said, (this.text = sentence(event, state.fault)));
    this.said.classList.toggle("mp-fault", Boolean(state.fault));
    this.say.classList.toggle("mp-differs", seen.differs);
    this.drawPanels(view, rare);
    if (!rare) return;
    for (const { picture, words } of Object.values(this.panels)) picture.describe(words(state, run));
    const { map } = this.panels;
    map.picture.describe(`${mapWords(state, run)} ${tableWords(state, run, seen.selected)}`);
    this.setText(
      this.inspector,
      seen.followed === null || seen.followed >= state.n ? "" : blockWords(state, run, seen.followed),
    );
  }

  drawPanels(view, rare) {
    const { state, run, scale } = view;
    const { map, lanes, free, host, tree } = this.panels;
    const { grid, top, height } = mapHeight(state.n, map.width, this.label ? 210 : this.compact ? 300 : 340);
    if (map.picture.begin(map.width, height, scale)) drawMap(map.picture, view, grid, top);
    this.setText(map.fact, `${number(state.n - state.freeCount)} of ${count(state.n, "block")} in use`);
    const rows = runningRows(run);
    if (lanes.picture.begin(lanes.width, lanesHeight(run, rows), scale)) drawLanes(lanes.picture, view, rows);
    if (free.picture.begin(free.width, FREE_HEIGHT, scale)) drawFree(free.picture, view);
    this.setText(free.fact, `${number(state.freeCount)} free`);
    if (host) {
      const places = hostGrid(state.hostSize, host.width);
      if (host.picture.begin(host.width, places.height + 4, scale)) drawHost(host.picture, view, places);
      this.setText(host.fact, `${number(state.host.size)} of ${number(state.hostSize)} in use`);
    }
    if (tree && (rare || state.n <= 128) && tree.picture.begin(tree.width, treeHeight(state.n), scale))
      drawTree(tree.picture, view);
  }

  setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }
}
