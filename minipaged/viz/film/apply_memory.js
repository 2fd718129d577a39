// What each event does to memory; the twin of minipaged/viz/replay.py.
import { APPLY_TO_QUEUES, know, leaveHost } from "./apply_queues.js";
import { NOBODY } from "./state.js";

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
  const before = front ? n : prev[n];
  const after = front ? next[n] : n;
  next[before] = prev[after] = block;
  prev[block] = before;
  next[block] = after;
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
  state.holders[block] = holders.filter((one) => one !== r);
  const table = state.tables.get(r);
  const place = table ? table.indexOf(block) : -1; // -1: a copy took its place
  if (place >= 0) {
    table[place] = -1;
    if (table.every((one) => one < 0)) state.tables.delete(r);
  }
}

const APPLY = {
  ...APPLY_TO_QUEUES,
  pool(state, event) {
    const n = event.num_blocks;
    Object.assign(state, { n, blockSize: event.block_size, hostSize: event.num_cpu_blocks, freeCount: 0 });
    const filledWith = (value, length = n) => new Int32Array(length).fill(value);
    Object.assign(state, { ref: filledWith(0), holders: new Array(n).fill(NOBODY), touched: filledWith(-1) });
    Object.assign(state, { fullKey: filledWith(-1), fullParent: filledWith(-1), fullTokens: filledWith(0) });
    Object.assign(state, { tailParent: filledWith(-1), tailTokens: filledWith(0) });
    state.next = filledWith(-1, n + 1);
    state.prev = filledWith(-1, n + 1);
    state.next[n] = state.prev[n] = n;
    for (let block = 0; block < n; block++) link(state, block, false);
  },
  allocate(state, event) {
    state.expect(unlink(state, event.block), `P${event.block} is handed out, but it is not free`);
    state.ref[event.block] = event.ref_count;
    hold(state, event);
  },
  share(state, event) {
    unlink(state, event.block);
    const count = ++state.ref[event.block];
    state.expect(
      count === event.ref_count,
      `P${event.block} has ${count} holders, but its count is ${event.ref_count}`,
    );
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
    state.expect(
      left === event.ref_count,
      `P${event.block} has ${left} holders left, but its count is ${event.ref_count}`,
    );
  },
  free(state, event) {
    const block = event.block;
    if (state.ref[block] === 0) {
      state.expect(false, `P${block} is freed a second time`);
      return;
    }
    drop(state, event);
    const left = state.ref[block];
    state.expect(left === 0, `P${block} goes to the free queue, but ${left} still hold it`);
    unlink(state, block);
    link(state, block, event.end === "front");
  },
  publish(state, { block, tail, k, pk, num_tokens }) {
    if (tail) {
      state.tailParent[block] = pk;
      state.tailTokens[block] = num_tokens;
      return;
    }
    state.fullKey[block] = k;
    state.fullParent[block] = pk;
    state.fullTokens[block] = num_tokens;
  },
  withdraw(state, { block, k }) {
    const held = k < 0 ? state.tailTokens[block] > 0 : state.fullKey[block] >= 0;
    state.expect(held, `P${block} loses a key that it does not have`);
    if (k < 0) {
      state.tailTokens[block] = 0;
      return;
    }
    state.fullKey[block] = -1;
    state.fullTokens[block] = 0;
  },
  reset(state) {
    state.fullKey.fill(-1);
    state.fullTokens.fill(0);
    state.tailTokens.fill(0);
  },
  swap_out(state, event) {
    know(state, event.r);
    state.host.set(event.host_block, [...(state.host.get(event.host_block) ?? NOBODY), event.r]);
  },
  swap_in(state, event) {
    if (!event.copied) {
      unlink(state, event.block);
      state.ref[event.block]++;
    } // else it was allocated just now
    hold(state, event);
    leaveHost(state, event.host_block, event.r);
  },
  host_free(state, event) {
    state.expect(state.host.delete(event.host_block), `host block H${event.host_block} is freed a second time`);
  },
};

// Change the state by its next event. `fault` says why the event can't follow the others, if so.
export function apply(state, event) {
  if (event.step !== state.step) state.copies = [];
  state.time = event.time;
  state.step = event.step;
  state.fault = null;
  const absent = ["block", "src", "dst"].map((name) => event[name]).find((block) => block < 0 || block >= state.n);
  if (absent !== undefined) {
    state.expect(false, `there is no P${absent}; the blocks are P0 to P${state.n - 1}`);
    return;
  }
  APPLY[event.kind](state, event);
  if ("block" in event) state.touched[event.block] = event.time;
}
