// Memory and queues after each event, from the events alone; the twin of minipaged/viz/replay.py.
// A test replays random runs in both and compares them, and both with the engine, event by event.

export const STATUS = ["unqueued", "waiting", "running", "paused", "swapped", "finished"];
const [UNQUEUED, WAITING, RUNNING, PAUSED, SWAPPED, FINISHED] = STATUS.keys();
const NOBODY = Object.freeze([]);
const NUMBERS = ["status", "tokens", "maxTokens", "computed", "cached", "preemptions", "rank", "parent"];

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
    this.known = []; this.added = 0;
    this.running = []; this.waiting = []; this.finished = [];
    this.plan = []; this.preempted = []; this.copies = [];
    this.tables = new Map(); this.host = new Map();
    this.faults = 0; this.fault = null;
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

  apply(event) {
    if (event.step !== this.step) this.copies = [];
    this.time = event.time; this.step = event.step; this.fault = null;
    APPLY[event.kind](this, event);
    if ("block" in event) this.touched[event.block] = event.time;
  }

  expect(holds, sentence) {
    if (!holds) { this.faults++; this.fault ??= sentence; }
  }

  // ---- what a picture asks ----

  isFree(block) { return this.next[block] >= 0; }
  isCached(block) { return this.fullKey[block] >= 0 || this.tailTokens[block] > 0; }
  covered(block) { return Math.max(this.fullTokens[block], this.tailTokens[block]); }

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

function unlink(state, block) {
  const { next, prev } = state;
  if (next[block] < 0) return false;
  next[prev[block]] = next[block];
  prev[next[block]] = prev[block];
  next[block] = prev[block] = -1;
  state.freeCount--;
  return true;
}

function link(state, block, front) {
  const { next, prev, n } = state;
  const before = front ? n : prev[n], after = front ? next[n] : n;
  next[before] = prev[after] = block;
  prev[block] = before; next[block] = after;
  state.freeCount++;
}

function hold(state, { block, r, index }) {
  know(state, r);
  if (!state.holders[block].includes(r)) state.holders[block] = [...state.holders[block], r];
  if (!state.tables.has(r)) state.tables.set(r, []);
  const table = state.tables.get(r);
  const place = index ?? table.length;
  while (table.length <= place) table.push(-1);
  table[place] = block;
}

function drop(state, { block, r, request }) {
  know(state, r);
  state.ref[block]--;
  const holders = state.holders[block];
  state.expect(holders.includes(r), `${request} gives P${block} back, but does not hold it`);
  state.holders[block] = holders.length > 1 ? holders.filter((one) => one !== r) : NOBODY;
  const table = state.tables.get(r);
  const place = table ? table.indexOf(block) : -1; // -1: a copy took its place
  if (place >= 0) {
    table[place] = -1;
    if (table.every((one) => one < 0)) state.tables.delete(r);
  }
}

function know(state, r) {
  if (state.requests.status[r] === UNQUEUED && !state.known.includes(r)) state.known.push(r);
}

function newcomer(state, r, fields) {
  remove(state.known, r);
  if (state.requests.status[r] === FINISHED) remove(state.finished, r); // the id is used again
  state.known.push(r);
  for (const field of NUMBERS) state.requests[field][r] = fields[field] ?? 0;
  state.requests.priority[r] = fields.priority;
}

function remove(list, item) {
  const at = list.indexOf(item);
  if (at >= 0) list.splice(at, 1);
  return at >= 0;
}

function join(state, r, front) {
  if (state.policy !== "priority") { if (front) state.waiting.unshift(r); else state.waiting.push(r); return; }
  const { priority, rank } = state.requests;
  const later = (one) => priority[one] > priority[r] || (priority[one] === priority[r] && rank[one] > rank[r]);
  const at = state.waiting.findIndex(later);
  state.waiting.splice(at < 0 ? state.waiting.length : at, 0, r);
}

function leave(state, r, name) {
  state.expect(remove(state.running, r) || remove(state.waiting, r), `${name} leaves the queues, but it is in none`);
}

function forgetHost(state, r) {
  for (const [block, holders] of state.host) {
    if (holders.includes(r)) state.host.set(block, holders.filter((one) => one !== r));
  }
}

function restart(state, r) {
  state.requests.status[r] = WAITING;
  state.requests.computed[r] = 0;
  forgetHost(state, r);
}

function endPlan(state) { state.plan = []; state.preempted = []; }

const APPLY = {
  pool(state, event) {
    const n = event.num_blocks;
    Object.assign(state, { n, blockSize: event.block_size, hostSize: event.num_cpu_blocks, freeCount: 0 });
    const filledWith = (value, length = n) => new Int32Array(length).fill(value);
    Object.assign(state, { ref: filledWith(0), holders: new Array(n).fill(NOBODY), touched: filledWith(-1) });
    Object.assign(state, { fullKey: filledWith(-1), fullParent: filledWith(-1), fullTokens: filledWith(0) });
    Object.assign(state, { tailParent: filledWith(-1), tailTokens: filledWith(0) });
    state.next = filledWith(-1, n + 1); state.prev = filledWith(-1, n + 1);
    state.next[n] = state.prev[n] = n;
    for (let block = 0; block < n; block++) link(state, block, false);
  },
  scheduler(state, event) { state.policy = event.policy; state.seats = event.max_num_seqs; },

  allocate(state, event) {
    state.expect(unlink(state, event.block), `P${event.block} is handed out, but it is not free`);
    state.ref[event.block] = event.ref_count;
    hold(state, event);
  },
  share(state, event) {
    unlink(state, event.block);
    const count = ++state.ref[event.block];
    state.expect(count === event.ref_count, `P${event.block} has ${count} holders, but its count is ${event.ref_count}`);
    hold(state, event);
  },
  copy(state, event) {
    state.expect(state.ref[event.src] > 1, `P${event.src} is copied, but only one request holds it`);
    state.copies = [...state.copies, event];
    state.touched[event.src] = state.touched[event.dst] = event.time;
  },
  release(state, event) {
    drop(state, event);
    const left = state.ref[event.block];
    state.expect(left === event.ref_count,
      `P${event.block} has ${left} holders left, but its count is ${event.ref_count}`);
  },
  free(state, event) {
    const block = event.block;
    if (state.ref[block] === 0) { state.expect(false, `P${block} is freed a second time`); return; }
    drop(state, event);
    const left = state.ref[block];
    state.expect(left === 0, `P${block} goes to the free queue, but ${left} still hold it`);
    unlink(state, block);
    link(state, block, event.end === "front");
  },
  publish(state, { block, tail, k, pk, num_tokens }) {
    if (tail) { state.tailParent[block] = pk; state.tailTokens[block] = num_tokens; return; }
    state.fullKey[block] = k; state.fullParent[block] = pk; state.fullTokens[block] = num_tokens;
  },
  withdraw(state, { block, k }) {
    const held = k < 0 ? state.tailTokens[block] > 0 : state.fullKey[block] >= 0;
    state.expect(held, `P${block} loses a key that it does not have`);
    if (k < 0) { state.tailTokens[block] = 0; return; }
    state.fullKey[block] = -1; state.fullTokens[block] = 0;
  },
  reset(state) {
    state.fullKey.fill(-1); state.fullTokens.fill(0); state.tailTokens.fill(0);
  },
  swap_out(state, event) {
    know(state, event.r);
    state.host.set(event.host_block, [...(state.host.get(event.host_block) ?? NOBODY), event.r]);
  },
  swap_in(state, event) {
    if (!event.copied) { unlink(state, event.block); state.ref[event.block]++; } // else it was allocated just now
    hold(state, event);
    const holders = state.host.get(event.host_block) ?? NOBODY;
    if (holders.includes(event.r)) state.host.set(event.host_block, holders.filter((one) => one !== event.r));
  },
  host_free(state, event) {
    state.expect(state.host.delete(event.host_block), `host block H${event.host_block} is freed a second time`);
  },

  add(state, { r, num_tokens, max_num_tokens, priority }) {
    newcomer(state, r, { status: WAITING, tokens: num_tokens, maxTokens: max_num_tokens, priority, rank: state.added++, parent: -1 });
    join(state, r, false);
  },
  fork(state, { r, p, num_tokens }) {
    know(state, p);
    const { status, computed, maxTokens, priority, rank } = state.requests;
    const holds = status[p] === RUNNING || status[p] === PAUSED;
    newcomer(state, r, { status: holds ? PAUSED : WAITING, tokens: num_tokens, maxTokens: maxTokens[p],
      computed: holds ? computed[p] : 0, priority: priority[p], rank: rank[p], parent: p });
    join(state, r, true);
  },
  admit(state, event) {
    const { r } = event, { status, computed, cached } = state.requests;
    know(state, r);
    state.expect(remove(state.waiting, r), `${event.request} gets a seat, but it is not in the queue`);
    if (status[r] === WAITING) computed[r] = cached[r] = event.cached_tokens;
    status[r] = RUNNING;
    state.running.push(r);
  },
  rotate(state, event) {
    leave(state, event.r, event.request);
    state.requests.status[event.r] = PAUSED;
    state.waiting.push(event.r);
  },
  preempt(state, event) {
    const { r } = event, swap = event.mode === "swap";
    know(state, r);
    state.requests.preemptions[r]++;
    state.requests.status[r] = swap ? SWAPPED : WAITING;
    state.requests.computed[r] = swap ? event.num_computed_tokens : 0;
    state.preempted.push(r);
    state.plan = state.plan.filter(([one]) => one !== r);
    if (state.waiting.includes(r)) return; // it was paused and keeps its place
    leave(state, r, event.request);
    join(state, r, true);
  },
  finish(state, event) {
    const { r } = event;
    know(state, r);
    leave(state, r, event.request);
    state.requests.status[r] = FINISHED;
    state.requests.tokens[r] = event.num_tokens;
    state.finished.push(r);
    forgetHost(state, r);
  },
  step(state, event) {
    state.plan = event.plan;
    state.expect(event.free_blocks === state.freeCount,
      `the engine counts ${event.free_blocks} free blocks, the log ${state.freeCount}`);
  },
  commit(state, event) {
    const { status, computed, tokens } = state.requests;
    for (const [r, start, count] of state.plan) {
      if (status[r] !== RUNNING) continue;
      computed[r] = start + count;
      if (event.sampled.has(r)) tokens[r]++;
    }
    endPlan(state);
  },
  cancel(state, event) {
    for (let at = event.back.length - 1; at >= 0; at--) {
      const r = event.back[at];
      leave(state, r, event.returned[at]);
      restart(state, r);
      join(state, r, true);
    }
    for (const r of state.waiting) {
      if (state.requests.status[r] === SWAPPED && state.preempted.includes(r)) restart(state, r);
    }
    endPlan(state);
  },
};

// Everything as plain data, as Replay.snapshot() of replay.py gives it.
export function snapshot(state, names, keys) {
  const name = (r) => names[r], blocks = [...Array(state.n).keys()];
  const { status, tokens, computed, cached, preemptions } = state.requests;
  return {
    ref_count: [...state.ref], holders: state.holders.map((list) => list.map(name)), free: state.freeBlocks(),
    tables: [...state.tables].map(([r, table]) => [name(r), table]),
    full: blocks.filter((b) => state.fullKey[b] >= 0)
      .map((b) => [b, keys[state.fullKey[b]], keys[state.fullParent[b]], state.fullTokens[b]]),
    tail: blocks.filter((b) => state.tailTokens[b] > 0).map((b) => [b, keys[state.tailParent[b]], state.tailTokens[b]]),
    host: [...state.host].sort(([a], [b]) => a - b).map(([b, list]) => [b, list.map(name)]),
    running: state.running.map(name), waiting: state.waiting.map(name), finished: state.finished.map(name),
    requests: state.known.map((r) => [name(r), STATUS[status[r]], tokens[r], computed[r], cached[r], preemptions[r]]),
    faults: state.faults,
  };
}
