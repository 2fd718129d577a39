// Buttons, keys, search and the list of keys. Everything that a button does, a key does too.
import { make } from "./board.js";

// [keys, what the list of keys says, the action's name]
export const KEYS = [
  [[" ", "k"], "play or pause", "toggle"],
  [["ArrowRight"], "next event", "nextEvent"],
  [["ArrowLeft"], "previous event", "previousEvent"],
  [["ArrowDown", "PageDown"], "next step", "nextStep"],
  [["ArrowUp", "PageUp"], "previous step", "previousStep"],
  [["Home"], "first event", "first"],
  [["End"], "last event", "last"],
  [["+", "="], "faster", "faster"],
  [["-"], "slower", "slower"],
  [["c"], "next copy (C: previous)", "nextCopy"],
  [["e"], "next eviction (E: previous)", "nextEvict"],
  [["p"], "next preemption (P: previous)", "nextPreempt"],
  [["d"], "first difference of two runs", "difference"],
  [["r"], "select the next request (R: previous)", "nextRequest"],
  [["b"], "follow the next block (B: previous)", "nextBlock"],
  [["."], "next event about what is selected or followed (,: previous)", "nextAbout"],
  [["/"], "search a request or a block", "search"],
  [["Escape"], "select and follow nothing", "clear"],
  [["t"], "light or dark", "theme"],
  [["?"], "this list", "help"],
];
const BACKWARDS = {
  C: "previousCopy",
  E: "previousEvict",
  P: "previousPreempt",
  R: "previousRequest",
  B: "previousBlock",
  ",": "previousAbout",
};
const NAMES = { " ": "Space", ArrowRight: "→", ArrowLeft: "←", ArrowDown: "↓", ArrowUp: "↑" };
const ICONS = {
  first: "M4 4h2v12H4zM16 4v12L7 10z",
  previousStep: "M10 4v12L2 10zM18 4v12l-8-6z",
  previousEvent: "M14 4v12L6 10z",
  play: "M5 3v14l12-7z",
  pause: "M5 3h4v14H5zM11 3h4v14h-4z",
  nextEvent: "M6 4v12l8-6z",
  nextStep: "M2 4v12l8-6zM10 4v12l8-6z",
  last: "M14 4h2v12h-2zM4 4v12l9-6z",
};
export const SPEEDS = [1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10000];

export function actionOf(key) {
  return KEYS.find(([keys]) => keys.includes(key))?.[2] ?? BACKWARDS[key] ?? null;
}

function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

// `act(name)` does an action. The parts that change later are fields.
export class Controls {
  constructor(act, { compares, marks }) {
    const button = (name, label, face) =>
      make(
        "button",
        { type: "button", title: label, "aria-label": label, onclick: () => act(name) },
        face ?? icon(name),
      );
    this.play = button("toggle", "Play", icon("play"));
    this.play.classList.add("mp-play");
    this.speed = make(
      "select",
      { "aria-label": "Speed", onchange: () => act("speed") },
      ...SPEEDS.map((speed) =>
        make("option", { value: speed, textContent: `${speed.toLocaleString("en-US")} events/s` }),
      ),
    );
    const jump = (name, mark, label, text = mark) => {
      const one = button(name, label, make("span", { textContent: text, className: `mp-jump mp-jump-${mark}` }));
      one.disabled = !marks[mark].length;
      return one;
    };
    this.element = make(
      "div",
      { className: "mp-controls", role: "group", "aria-label": "Player" },
      make(
        "div",
        { className: "mp-transport" },
        button("first", "First event"),
        button("previousStep", "Previous step"),
        button("previousEvent", "Previous event"),
        this.play,
        button("nextEvent", "Next event"),
        button("nextStep", "Next step"),
        button("last", "Last event"),
      ),
      this.speed,
      make(
        "div",
        { className: "mp-jumps", role: "group", "aria-label": "Jump to the next" },
        jump("nextCopy", "copy", "Next copy"),
        jump("nextEvict", "evict", "Next eviction: evict"),
        jump("nextPreempt", "preempt", "Next preemption: preempt"),
        ...(compares ? [jump("difference", "difference", "First difference: differ", "differ")] : []),
      ),
    );
    this.search = make("input", {
      type: "search",
      placeholder: "Search r2 or P5",
      "aria-label": "Search a request or a block",
      onkeydown: (event) => {
        if (event.key === "Enter") act("find");
        if (event.key === "Escape") act("leaveSearch");
      },
    });
    this.tools = make(
      "div",
      { className: "mp-tools" },
      this.search,
      button("theme", "Light or dark", make("span", { textContent: "◐", "aria-hidden": "true" })),
      button("help", "List of keys", make("span", { textContent: "?", "aria-hidden": "true" })),
    );
    this.help = helpDialog();
  }

  setPlaying(playing) {
    this.play.replaceChildren(icon(playing ? "pause" : "play"));
    this.play.setAttribute("aria-label", playing ? "Pause" : "Play");
    this.play.title = playing ? "Pause" : "Play";
  }
}

function helpDialog() {
  const rows = KEYS.map(([keys, text]) =>
    make(
      "tr",
      {},
      make(
        "th",
        { scope: "row" },
        ...keys.flatMap((key, at) => [...(at ? [" or "] : []), make("kbd", { textContent: NAMES[key] ?? key })]),
      ),
      make("td", { textContent: text }),
    ),
  );
  const close = make("button", { type: "button", textContent: "Close" });
  const dialog = make(
    "dialog",
    { className: "mp-help", "aria-label": "Keys" },
    make("h3", { textContent: "Keys" }),
    make("table", {}, make("tbody", {}, ...rows)),
    make("p", {
      textContent: "Click or tap a request to select it, a square to follow the block. Drag on the timeline.",
    }),
    close,
  );
  close.onclick = () => dialog.close();
  return dialog;
}
