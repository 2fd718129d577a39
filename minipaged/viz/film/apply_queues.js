// What each event does to requests and queues; the twin of minipaged/viz/replay_queues.py.
import { NOBODY, NUMBERS, STATUS } from "./state.js";

const [UNQUEUED, WAITING, RUNNING, PAUSED, SWAPPED, FINISHED] = STATUS.keys();

// A request that no scheduler was told of, but that holds blocks.
export function know(state, r) {
  if (state.requests.status[r] === UNQUEUED && !state.known.includes(r)) state.known.push(r);
}

function newcomer(state, r, fields) {
  remove(state.known, r);
  remove(state.finished, r); // the id is used again
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
  if (state.policy !== "priority") {
    if (front) state.waiting.unshift(r);
    else state.waiting.push(r);
    return;
  }
  const { priority, rank } = state.requests;
  const later = (one) => priority[one] > priority[r] || (priority[one] === priority[r] && rank[one] > rank[r]);
  let low = 0;
  let high = state.waiting.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (later(state.waiting[middle])) high = middle;
    else low = middle + 1;
  }
  state.waiting.splice(low, 0, r);
}

function leave(state, r, name) {
  state.expect(remove(state.running, r) || remove(state.waiting, r), `${name} leaves the queues, but it is in none`);
}

// A host block keeps nothing for this request any more.
export function leaveHost(state, block, r) {
  const holders = [...(state.host.get(block) ?? NOBODY)];
  if (remove(holders, r)) state.host.set(block, holders);
}

function restart(state, r) {
  know(state, r);
  state.requests.status[r] = WAITING;
  state.requests.computed[r] = 0;
  for (const block of state.host.keys()) leaveHost(state, block, r);
}

function endPlan(state) {
  state.plan = [];
  state.preempted = [];
}

export const APPLY_TO_QUEUES = {
  scheduler(state, event) {
    state.policy = event.policy;
    state.seats = event.max_num_seqs;
  },
  add(state, { r, num_tokens, max_num_tokens, priority }) {
    newcomer(state, r, {
      status: WAITING,
      tokens: num_tokens,
      maxTokens: max_num_tokens,
      priority,
      rank: state.added++,
      parent: -1,
    });
    join(state, r, false);
  },
  fork(state, { r, p, num_tokens }) {
    know(state, p);
    const { status, computed, maxTokens, priority, rank } = state.requests;
    const holds = status[p] === RUNNING || status[p] === PAUSED;
    newcomer(state, r, {
      status: holds ? PAUSED : WAITING,
      tokens: num_tokens,
      maxTokens: maxTokens[p],
      computed: holds ? computed[p] : 0,
      priority: priority[p],
      rank: rank[p],
      parent: p,
    });
    join(state, r, true);
  },
  admit(state, event) {
    const { r } = event;
    const { status, computed, cached } = state.requests;
    know(state, r);
    state.expect(remove(state.waiting, r), `${event.request} gets a seat, but it is not in the queue`);
    if (status[r] === WAITING) computed[r] = cached[r] = event.cached_tokens;
    status[r] = RUNNING;
    state.running.push(r);
  },
  rotate(state, event) {
    know(state, event.r);
    leave(state, event.r, event.request);
    state.requests.status[event.r] = PAUSED;
    state.waiting.push(event.r);
  },
  preempt(state, event) {
    const { r } = event;
    const swap = event.mode === "swap";
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
    for (const block of state.host.keys()) leaveHost(state, block, r);
  },
  step(state, event) {
    state.plan = event.plan;
    state.expect(
      event.free_blocks === state.freeCount,
      `the engine counts ${event.free_blocks} free blocks, the log ${state.freeCount}`,
    );
  },
  commit(state, event) {
    const { status, computed, tokens } = state.requests;
    for (const [r, start, count] of state.plan) {
      know(state, r);
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
