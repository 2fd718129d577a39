// Memory and queues at one moment; apply_memory.js changes them event by event. The twin of minipaged/viz/replay.py:
// a test replays random runs in both and compares them, and both with the engine, at each event.

export const STATUS = ["unqueued", "waiting", "running", "paused", "swapped", "finished"];
export const NOBODY = Object.freeze([]);
export const NUMBERS = ["status", "tokens", "maxTokens", "computed", "cached", "preemptions", "rank", "parent"];

// Arrays of blocks are indexed by block, arrays of requests by the request's number. The free queue is a ring of
// links through `next` and `prev` with the end at index n, so every operation is O(1). Lists of holders are never
// changed in place: a copy of the state shares them.
export class State {
  constructor(numRequests) {
    this.n = this.blockSize = this.hostSize = this.seats = 0;
    this.policy = "fcfs";
    this.time = this.step = -1;
    this.requests = { priority: new Float64Array(numRequests) };
    for (const field of NUMBERS) this.requests[field] = new Int32Array(numRequests);
    this.requests.parent.fill(-1);
    this.known = [];
    this.added = 0;
    this.running = [];
    this.waiting = [];
    this.finished = [];
    this.plan = [];
    this.preempted = [];
    this.copies = [];
    this.tables = new Map();
    this.host = new Map();
    this.faults = 0;
    this.fault = null;
  }

  copy() {
    const twin = Object.create(State.prototype);
    for (const [field, value] of Object.entries(this)) {
      twin[field] = Array.isArray(value) || ArrayBuffer.isView(value) ? value.slice() : value;
    }
    twin.requests = {};
    for (const [field, values] of Object.entries(this.requests)) twin.requests[field] = values.slice();
    twin.tables = new Map();
    for (const [r, table] of this.tables) twin.tables.set(r, table.slice());
    twin.host = new Map(this.host);
    return twin;
  }

  expect(holds, sentence) {
    if (!holds) {
      this.faults++;
      this.fault ??= sentence;
    }
  }

  // ---- what a picture asks ----

  isFree(block) {
    return this.next[block] >= 0;
  }
  isCached(block) {
    return this.fullKey[block] >= 0 || this.tailTokens[block] > 0;
  }
  covered(block) {
    return Math.max(this.fullTokens[block], this.tailTokens[block]);
  }

  // The first `limit` blocks of the free queue, from the front or from the back.
  freeBlocks(limit = Infinity, links = this.next) {
    const found = [];
    for (let block = links[this.n]; block !== this.n && found.length < limit; block = links[block]) found.push(block);
    return found;
  }

  // For each block, the tokens whose K and V it holds for a request.
  filled() {
    const filled = new Int32Array(this.n);
    for (const [r, table] of this.tables) {
      let left = this.requests.computed[r];
      for (const block of table) {
        if (block >= 0 && left > filled[block]) filled[block] = Math.min(left, this.blockSize);
        left -= this.blockSize;
      }
    }
    return filled;
  }
}

// Everything as plain data, as Replay.snapshot() of replay.py gives it.
export function snapshot(state, names, keys) {
  const name = (r) => names[r];
  const blocks = [...Array(state.n).keys()];
  const { status, tokens, computed, cached, preemptions } = state.requests;
  return {
    ref_count: [...state.ref],
    holders: state.holders.map((list) => list.map(name)),
    free: state.freeBlocks(),
    tables: [...state.tables].map(([r, table]) => [name(r), table]),
    full: blocks
      .filter((b) => state.fullKey[b] >= 0)
      .map((b) => [b, keys[state.fullKey[b]], keys[state.fullParent[b]], state.fullTokens[b]]),
    tail: blocks.filter((b) => state.tailTokens[b] > 0).map((b) => [b, keys[state.tailParent[b]], state.tailTokens[b]]),
    host: [...state.host].sort(([a], [b]) => a - b).map(([b, list]) => [b, list.map(name)]),
    running: state.running.map(name),
    waiting: state.waiting.map(name),
    finished: state.finished.map(name),
    requests: state.known.map((r) => [name(r), STATUS[status[r]], tokens[r], computed[r], cached[r], preemptions[r]]),
    faults: state.faults,
  };
}
