// Every event as one plain sentence, and the sentences that stand for the pictures.
import { STATUS } from "./state.js";

const POLICIES = {
  fcfs: "first come, first served",
  round_robin: "round-robin, everybody a turn",
  priority: "the lowest priority number first",
  static: "static batching, whole batches",
};

export const number = (value) => value.toLocaleString("en-US");
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;
export const who = (name) => (/^\d/.test(name) ? `request ${name}` : name || "somebody");

function list(names, most = 4) {
  const shown = names.slice(0, most).map(who);
  if (names.length > most) return `${shown.join(", ")} and ${names.length - most} more`;
  return shown.length > 1 ? `${shown.slice(0, -1).join(", ")} and ${shown.at(-1)}` : shown.join("");
}

const SENTENCES = {
  pool: (e) =>
    `A pool of ${count(e.num_blocks, "block")} of ${count(e.block_size, "token")} is made` +
    (e.num_cpu_blocks ? `, with ${count(e.num_cpu_blocks, "host block")} for swapping` : ""),
  scheduler: (e) =>
    `The scheduler starts: ${POLICIES[e.policy] ?? e.policy}; at most ${count(e.max_num_seqs, "request")} and ` +
    `${count(e.max_num_batched_tokens, "token")} a step`,
  add: (e) => `${who(e.request)} arrives with ${count(e.num_tokens, "token")} and waits`,
  fork: (e) => `${who(e.request)} is forked from ${who(e.parent)}: same ${count(e.num_tokens, "token")}, same blocks`,
  admit: (e) =>
    `${who(e.request)} gets a seat` +
    (e.was === "paused"
      ? " again; its blocks are still there"
      : e.was === "swapped"
        ? " again; its blocks are back from the host"
        : e.was === "fork"
          ? " beside its parent"
          : (e.resumed ? " again and starts over" : "") +
            (e.cached_tokens ? `; ${count(e.cached_tokens, "token")} found in the cache` : "")),
  allocate: (e) =>
    `${who(e.request ?? "")} takes free block P${e.block}` +
    (e.index === null ? "" : ` for its logical block ${e.index}`),
  share: (e) =>
    e.ref_count > 1
      ? `${who(e.request)} shares P${e.block} as logical block ${e.index}: ${number(e.ref_count)} requests hold it now`
      : `${who(e.request)} finds P${e.block} in the cache and takes it out of the free queue`,
  copy: (e) => `${who(e.request)} writes into shared P${e.src}: copies it to P${e.dst}`,
  release: (e) =>
    `${who(e.request ?? "")} lets go of P${e.block}; ` +
    (e.ref_count === 1 ? "1 still holds it" : `${number(e.ref_count)} still hold it`),
  free: (e) =>
    `${who(e.request ?? "")} gives P${e.block} back to the ${e.end} of the free queue` +
    (e.cached ? "; its contents can still be found" : ""),
  publish: (e) =>
    e.tail
      ? `The first ${count(e.num_tokens, "token")} of P${e.block} can be found from now on`
      : `P${e.block} is full: its ${count(e.num_tokens, "token")} can be found from now on`,
  withdraw: (e) =>
    ({
      evict: `P${e.block} is evicted from the cache: its ${count(e.num_tokens, "token")} can no longer be found`,
      overwrite: `P${e.block} is written: its old contents, ${count(e.num_tokens, "token")}, can no longer be found`,
      cancel: `P${e.block} was not filled after all: its key is withdrawn`,
    })[e.reason] ?? `P${e.block} can no longer be found (${e.reason})`,
  swap_out: (e) =>
    `P${e.block} of ${who(e.request)} ` +
    (e.copied ? "is saved in" : "was saved before in") +
    ` host block H${e.host_block}`,
  swap_in: (e) =>
    e.copied
      ? `P${e.block} of ${who(e.request)} is filled again from host block H${e.host_block}`
      : `${who(e.request)} takes P${e.block} back: it was not touched since it was saved in H${e.host_block}`,
  host_free: (e) => `Host block H${e.host_block} is free again`,
  rotate: (e) => `The turn of ${who(e.request)} is over: it waits and keeps its blocks`,
  preempt: (e) =>
    `Memory is short: ${who(e.request)} loses its seat` +
    (e.mode === "swap"
      ? "; its blocks go to the host"
      : ` and its blocks; ${count(e.num_computed_tokens, "token")} must be computed again`),
  step: (e) => {
    const tokens = e.scheduled.reduce((sum, [, , n]) => sum + n, 0);
    if (!tokens) return `Step ${e.step} computes nothing`;
    return `Step ${e.step} will compute ${count(tokens, "token")} for ${list(e.scheduled.map(([name]) => name))}`;
  },
  cancel: (e) => "The plan did not run" + (e.returned.length ? `: ${list(e.returned)} start over` : ""),
  commit: (e) =>
    e.tokens.length
      ? `Step ${e.step} is done: a new token for ${list(e.tokens.map(([name]) => name))}`
      : `Step ${e.step} is done: no new token yet`,
  finish: (e) =>
    `${who(e.request)} ends with ${count(e.num_tokens, "token")}` +
    ({
      stop: ": a stop token",
      length: ": its length is reached",
      capacity: ": the whole pool is too small for more",
      abort: ": given up",
    }[e.reason] ?? ""),
  reset: (e) => `The prefix cache is emptied: ${count(e.num_keys, "key")} forgotten`,
};

export function sentence(event, fault = null) {
  const text = SENTENCES[event.kind](event);
  const isName = event.request && text.startsWith(event.request); // an id is written as it is
  return (isName ? text : text[0].toUpperCase() + text.slice(1)) + "." + (fault ? ` This can't follow: ${fault}.` : "");
}

// ---- text for those who do not see the pictures ----

export function mapWords(state, run) {
  const inUse = state.n - state.freeCount;
  let shared = 0;
  let cached = 0;
  for (let block = 0; block < state.n; block++) {
    if (state.ref[block] > 1) shared++;
    if (state.isFree(block) && state.isCached(block)) cached++;
  }
  const each = [...state.tables]
    .slice(0, 12)
    .map(([r, table]) => `${who(run.names[r])} holds ${table.filter((b) => b >= 0).length}`);
  const more = state.tables.size > 12 ? `, ${state.tables.size - 12} more requests hold others` : "";
  return (
    `Block map: ${number(inUse)} of ${count(state.n, "block")} in use, ${number(shared)} shared; ` +
    `${number(state.freeCount)} free, ${number(cached)} of them still cached. ${each.join(", ")}${more}.`
  );
}

export function tableWords(state, run, r) {
  if (r === null) return "No request is selected.";
  const { status, computed, tokens } = state.requests;
  const table = state.tables.get(r) ?? [];
  const done = `${number(computed[r])} of ${count(tokens[r], "token")}`;
  const text = `${who(run.names[r])}, ${STATUS[status[r]]}, has ${done} computed`;
  if (!table.length) return `${text} and holds no block.`;
  const places = table
    .slice(0, 24)
    .map((block, index) => (block < 0 ? "" : `${index} in P${block}`))
    .filter(Boolean);
  return `${text}. Block table: ${places.join(", ")}${table.length > 24 ? " and so on" : ""}.`;
}

export function blockWords(state, run, block) {
  const holders = state.holders[block].map((r) => {
    const index = state.tables.get(r)?.indexOf(block) ?? -1;
    return who(run.names[r]) + (index < 0 ? "" : ` (logical ${index})`);
  });
  const parts = [holders.length ? `held by ${holders.join(", ")}; count ${state.ref[block]}` : "free"];
  if (state.fullKey[block] >= 0) parts.push(`found by key ${run.keys[state.fullKey[block]]}`);
  if (state.tailTokens[block] > 0) parts.push(`its first ${count(state.tailTokens[block], "token")} can be found`);
  if (state.isFree(block)) parts.push(state.isCached(block) ? "still cached" : "nothing cached");
  return `Block P${block}: ${parts.join("; ")}.`;
}

export function queueWords(state, run) {
  const lanes = {};
  for (const r of [...state.running, ...state.waiting])
    (lanes[STATUS[state.requests.status[r]]] ??= []).push(run.names[r]);
  const parts = Object.entries(lanes).map(
    ([status, names]) =>
      `${status}: ${names.slice(0, 16).join(", ")}` + (names.length > 16 ? ` and ${names.length - 16} more` : ""),
  );
  return `Queues. ${parts.join(". ") || "Nobody runs or waits"}. Finished: ${state.finished.length}.`;
}

export function freeWords(state) {
  const front = state.freeBlocks(8);
  if (!front.length) return "The free queue is empty.";
  return (
    `Free queue, front first: ${front.map((b) => `P${b}`).join(", ")}` +
    (state.freeCount > front.length ? ` and ${state.freeCount - front.length} more.` : ".")
  );
}

export function hostWords(state, run) {
  const held = [...state.host]
    .slice(0, 12)
    .map(([block, rs]) => `H${block} ${rs.map((r) => run.names[r]).join(", ") || "returning"}`);
  return `Host memory: ${state.host.size} of ${count(state.hostSize, "block")} in use. ${held.join("; ")}`;
}
