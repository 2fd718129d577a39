// What the buttons and keys do, by name.
import { Clock } from "./compare.js";
import { SPEEDS } from "./controls.js";
import { count, who } from "./words.js";

const WORDS = { copy: "copy", evict: "eviction", preempt: "preemption" };

// name -> what to do, for this film.
export function actionsOf(film) {
  const {
    clock,
    controls,
    runs: [run],
  } = film;
  const to = (position) => {
    film.pause();
    film.seek(position);
  };
  const jump = (list, direction, what) => {
    film.pause();
    goToNext(film, list, direction, what);
  };
  const mark = (kind, direction) => () => jump(clock.marks[kind], direction, WORDS[kind]);
  const speed = (by) => () => {
    const at = controls.speed.selectedIndex + by;
    if (SPEEDS[at]) controls.speed.selectedIndex = at;
  };
  const cycle = (now, length, by) => (now === null ? (by > 0 ? 0 : length - 1) : (now + by + length) % length);
  const request = (by) => () => film.select(cycle(film.selected, run.names.length, by));
  const block = (by) => () => film.follow(cycle(film.followed, run.totals.blocks, by));
  return {
    toggle: () => (film.playing ? film.pause() : film.start()),
    nextEvent: () => to(film.position + 1),
    previousEvent: () => to(film.position - 1),
    nextStep: () => jump(clock.stepEnds, 1, "step"),
    previousStep: () => jump(clock.stepEnds, -1, "step"),
    first: () => to(0),
    last: () => to(film.length - 1),
    faster: speed(1),
    slower: speed(-1),
    speed: () => {},
    nextCopy: mark("copy", 1),
    previousCopy: mark("copy", -1),
    nextEvict: mark("evict", 1),
    previousEvict: mark("evict", -1),
    nextPreempt: mark("preempt", 1),
    previousPreempt: mark("preempt", -1),
    difference: () => (clock.difference === null ? film.say("There is no difference.") : to(clock.difference)),
    nextRequest: request(1),
    previousRequest: request(-1),
    nextBlock: block(1),
    previousBlock: block(-1),
    nextAbout: () => goToNextAbout(film, 1),
    previousAbout: () => goToNextAbout(film, -1),
    search: () => {
      controls.search.focus();
      controls.search.select();
    },
    find: () => find(film),
    leaveSearch: () => film.root.focus(),
    clear: () => film.choose({}),
    theme: () => film.setTheme(film.themeName === "dark" ? "light" : "dark"),
    help: () => controls.help.showModal(),
  };
}

// To the nearest of these positions; says so when there is none.
function goToNext(film, list, direction, what) {
  const found = Clock.next(list, film.position, direction);
  if (found === null) film.say(`There is no ${what} ${direction > 0 ? "after" : "before"} this event.`);
  else film.seek(found);
}

// To the next event about the block that is followed, or the request that is selected.
function goToNextAbout(film, direction) {
  film.pause();
  const {
    selected,
    followed,
    clock,
    runs: [run],
  } = film;
  if (!film.pinned && followed === null) {
    film.say("Select a request or follow a block first.");
    return;
  }
  const isAbout = (event) =>
    followed === null
      ? event.r === selected
      : event.block === followed || event.src === followed || event.dst === followed;
  const time = run.about(clock.at(film.position)[0], direction, isAbout);
  if (time === null)
    film.say(`There is no event about ${followed === null ? who(run.names[selected]) : `P${followed}`} there.`);
  else film.seek(clock.positionOf(0, time));
}

// What the search field asks for: a request by its id, a block as P5 or block 5.
function find(film) {
  const {
    controls,
    clock,
    runs: [run],
  } = film;
  const text = controls.search.value.trim();
  const small = text.toLowerCase();
  const name =
    [text, text.replace(/^request\s+/i, "")].find((one) => run.numberOf.has(one)) ??
    run.names.find((one) => one.toLowerCase() === small) ??
    run.names.find((one) => text && one.startsWith(text));
  const block = Number(/^(?:p|block\s*)(\d+)$/i.exec(text)?.[1] ?? Infinity);
  const isBlock = block < run.totals.blocks;
  controls.search.setAttribute("aria-invalid", String(name === undefined && !isBlock));
  if (name !== undefined) {
    const r = run.numberOf.get(name);
    const first = run.events.findIndex((event) => event.r === r);
    film.select(r);
    if (clock.at(film.position)[0] < first) film.seek(clock.positionOf(0, first));
  } else if (isBlock) film.follow(block);
  else {
    film.say(
      `There is no ${text || "empty name"} here: ${count(run.names.length, "request")} ` +
        `(${run.names.slice(0, 3).join(", ")} ...) and blocks P0 to P${run.totals.blocks - 1}.`,
    );
    return;
  }
  film.root.focus();
}
