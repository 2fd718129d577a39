// Any moment of a run, quickly: a keyframe, and the events since then. Going back is as quick as going on.
import { apply } from "./apply_memory.js";
import { State } from "./state.js";
import { decodeEvents, linkEvents } from "./data.js";

const KEYFRAME_CELLS = 600_000; // blocks x keyframes that are kept, about 50 bytes each

const losesAKey = (event) => event.kind === "withdraw" && event.reason === "evict";

export const MARKS = {
  copy: (event) => event.kind === "copy",
  // A block may be known as a full one and as a tail: its second key goes right after the first, and counts no more.
  evict: (event, before) => losesAKey(event) && !(before && losesAKey(before) && before.block === event.block),
  preempt: (event) => event.kind === "preempt",
};

// One run: its events, and state(time). `used`: blocks in use after each event. `marks`: kind -> times.
// `stepEnds`: the last time of each step. `lanes`: the rarer statuses that occur.
export class Run {
  constructor(film, every = null) {
    Object.assign(this, linkEvents(decodeEvents(film)));
    this.label = film.label ?? "";
    this.fields = Object.fromEntries(
      Object.entries(film.columns).map(([kind, columns]) => [kind, Object.keys(columns)]),
    );
    const { events } = this;
    const numBlocks = events[0].num_blocks;
    this.every = every ?? Math.max(256, Math.ceil((events.length * numBlocks) / KEYFRAME_CELLS));
    this.keyframes = [];
    this.used = new Int32Array(events.length);
    this.marks = Object.fromEntries(Object.keys(MARKS).map((kind) => [kind, []]));
    this.stepEnds = [];
    this.faults = [];
    this.most = 0; // requests that ran at one time
    this.lanes = new Set();
    this.current = new State(this.names.length);
    events.forEach((event, time) => {
      apply(this.current, event);
      if (time % this.every === 0) this.keyframes.push(this.current.copy());
      this.used[time] = this.current.n - this.current.freeCount;
      for (const [kind, isIt] of Object.entries(MARKS)) if (isIt(event, events[time - 1])) this.marks[kind].push(time);
      if (events[time + 1]?.step !== event.step) this.stepEnds.push(time);
      if (this.current.fault) this.faults.push(time);
      this.most = Math.max(this.most, this.current.running.length);
      if (event.kind === "rotate" || event.kind === "fork") this.lanes.add("paused");
      if (event.mode === "swap") this.lanes.add("swapped");
    });
    const last = this.current;
    this.peak = this.used.reduce((most, now) => Math.max(most, now), 0);
    this.hasTree = events.some((event) => event.kind === "publish");
    this.totals = {
      requests: this.names.length,
      blocks: last.n,
      blockSize: last.blockSize,
      hostSize: last.hostSize,
      steps: last.step + 1,
    };
  }

  get length() {
    return this.events.length;
  }

  // The state after the event with this time. It is the player's own: it changes with the next call.
  state(time) {
    const ahead = time - this.current.time;
    if (ahead < 0 || ahead > this.every) this.current = this.keyframes[Math.floor(time / this.every)].copy();
    while (this.current.time < time) apply(this.current, this.events[this.current.time + 1]);
    return this.current;
  }

  // Times of the events about a request or a block.
  about(time, direction, isAbout) {
    for (let at = time + direction; at >= 0 && at < this.length; at += direction) {
      if (isAbout(this.events[at])) return at;
    }
    return null;
  }
}
