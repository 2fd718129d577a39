"""Small tools for the tests of core: a scheduler in one line, requests by a name, a run to the end, and
`Rebuilt`, which knows memory and queues from the event log alone (the reference for every picture of them).
"""
from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

from minipaged.core import (
    ContinuousBatchingScheduler,
    Event,
    KVCacheManager,
    Request,
    SamplingParams,
    StaticBatchingScheduler,
    StepPlan,
    check_invariants,
)

from .shadow import ShadowExecutor, undisturbed

KV_OPTIONS = ("enable_prefix_caching", "share_partial_blocks", "free_order", "num_cpu_blocks", "hash_fn")


def make(num_blocks: int, block_size: int = 4, **options) -> ContinuousBatchingScheduler:
    """A scheduler with its own pool; `events=EventLog()` attaches a log to both, `static=True` is the static one."""
    events = options.pop("events", None)
    memory = {name: options.pop(name) for name in KV_OPTIONS if name in options}
    kv = KVCacheManager(num_blocks, block_size, events=events, **memory)
    kind = StaticBatchingScheduler if options.pop("static", False) else ContinuousBatchingScheduler
    return kind(kv, events=events, **options)


def request(name: str, tokens: int | Iterable[int], max_tokens: int = 4, *, params: dict | None = None,
            **options) -> Request:
    """A request with these tokens; a number stands for that many tokens that no other request has."""
    if isinstance(tokens, int):
        start = 1000 * (1 + sum(map(ord, name)) % 997)
        tokens = range(start, start + tokens)
    return Request(name, list(tokens), SamplingParams(max_tokens=max_tokens, **(params or {})), **options)


def add(scheduler, name: str, tokens: int | Iterable[int], max_tokens: int = 4, **options) -> Request:
    """Make a request and add it."""
    made = request(name, tokens, max_tokens, **options)
    scheduler.add_request(made)
    return made


def answer(plan: StepPlan, token: int = 7) -> dict[str, int]:
    """The same token for everybody."""
    return {item.request_id: token for item in plan.scheduled if item.sample}


def play(scheduler, steps: int = 1, run: Callable[[StepPlan], dict[str, int]] = answer) -> list[StepPlan]:
    """Some steps, each followed by a check of the invariants; the plans."""
    plans = []

    def keep(plan: StepPlan) -> dict[str, int]:
        plans.append(plan)
        return run(plan)

    for _ in range(steps):
        scheduler.step(keep)
        check_invariants(scheduler)
    return plans


def finish_all(scheduler, *requests: Request, limit: int = 300,
               executor: ShadowExecutor | None = None) -> list[StepPlan]:
    """Run until nobody is left: memory contents are checked at each step, tokens against those of each request
    alone, and nothing may be held in the end. Returns the plans."""
    executor = executor or ShadowExecutor(scheduler)
    capacity = scheduler.kv.num_blocks * scheduler.kv.block_size
    alone = {one.request_id: undisturbed(Request(one.request_id, one.prompt_token_ids, one.params,
                                                 cache_salt=one.cache_salt), vocab_size=executor.vocab_size,
                                         capacity=capacity, max_model_len=scheduler.max_model_len,
                                         eos_token_ids=scheduler.eos_token_ids) for one in requests}
    plans: list[StepPlan] = []
    while scheduler.has_unfinished:
        assert len(plans) < limit, f"not finished after {limit} steps"
        plans += play(scheduler, run=executor.run)
        assert plans[-1].scheduled, f"step {plans[-1].step} makes no progress"
    for one in requests:
        assert (one.token_ids, one.finish_reason) == alone[one.request_id], f"request {one.request_id}"
    idle(scheduler)
    return plans


def idle(scheduler) -> None:
    """Nobody is there and every block is free, on the device and on the host."""
    assert not scheduler.running and not scheduler.waiting and not scheduler.requests and not scheduler.idle_rows
    assert scheduler.kv.tables() == {}
    assert scheduler.kv.free_count == scheduler.kv.num_blocks
    assert sorted(scheduler.kv.allocator.free_blocks()) == list(range(scheduler.kv.num_blocks))
    assert scheduler.kv.allocator.ref_count == [0] * scheduler.kv.num_blocks
    host = scheduler.kv.host.allocator
    assert host is None or (host.free_count == host.num_blocks and not any(host.ref_count))
    check_invariants(scheduler)


def names(requests: Iterable[Request]) -> list[str]:
    return [one.request_id for one in requests]


def queues(scheduler) -> tuple[list[str], list[str]]:
    """(running, waiting)"""
    return names(scheduler.running), names(scheduler.waiting)


def tables(scheduler) -> dict[str, list[int]]:
    """request -> its physical blocks, for all that hold blocks."""
    kv = scheduler if isinstance(scheduler, KVCacheManager) else scheduler.kv
    return {name: list(table.blocks) for name, table in kv.tables().items() if table.blocks}


def admit(kv: KVCacheManager, one: Request) -> tuple[int, list[int]] | None:
    """Give a request memory for all its tokens, as one prefill step does: (cached tokens, table), or None."""
    match = kv.match(one)
    blocks = kv.admit(one, match, one.num_tokens - match.num_tokens)
    if blocks is None:
        return None
    done(kv, one)
    return match.num_tokens, list(blocks)


def done(kv: KVCacheManager, *requests: Request) -> None:
    """A step in which all tokens of these requests were computed is over."""
    kv.begin_plan(0)
    for one in requests:
        one.num_computed_tokens = one.num_tokens
    kv.commit(requests)
    check_invariants(kv)


def append(kv: KVCacheManager, one: Request, tokens: Sequence[int]) -> StepPlan:
    """Compute new tokens of a request that holds memory; the plan with the moves."""
    start = one.num_tokens
    one.token_ids += tokens
    assert kv.grow(one, start, one.num_tokens) is not None
    plan = moves(kv)
    one.num_computed_tokens = one.num_tokens
    kv.commit([one])
    check_invariants(kv)
    return plan


def moves(kv: KVCacheManager) -> StepPlan:
    """The moves since the last call, in a plan."""
    plan = kv.plan
    kv.begin_plan(0)
    return plan


class Rebuilt:
    """Memory and queues, rebuilt from events alone.

    ref_count: count of each block. free: the free queue, front first. tables: request -> blocks, of those that
    hold any. keys: block -> token counts that its keys cover. running, waiting: request ids in order.
    host_free: free host blocks. `see` raises AssertionError for an event that can't follow.
    """

    def __init__(self) -> None:
        self.policy = "fcfs"
        self.ref_count: list[int] = []
        self.free: list[int] = []
        self.tables: dict[str, list[int]] = {}
        self.keys: dict[int, dict[bool, int]] = {}  # block -> is it a tail -> tokens covered
        self.running: list[str] = []
        self.waiting: list[str] = []
        self.host_free = 0
        self._rank: dict[str, tuple] = {}

    def see(self, event: Event) -> None:
        getattr(self, f"_{event.kind}")(event)

    # ---- memory ----

    def _pool(self, event: Event) -> None:
        self.ref_count = [0] * event.num_blocks
        self.free = list(range(event.num_blocks))
        self.host_free = event.num_cpu_blocks

    def _scheduler(self, event: Event) -> None:
        self.policy = event.policy  # it says where a request joins the waiting queue

    def _allocate(self, event: Event) -> None:
        assert self.free and self.free.pop(0) == event.block, f"not from the front: {event}"
        self.ref_count[event.block] = event.ref_count
        self._place(event.request, event.index, event.block)

    def _share(self, event: Event) -> None:
        self._hold(event.block)
        assert self.ref_count[event.block] == event.ref_count, str(event)
        self._place(event.request, event.index, event.block)

    def _copy(self, event: Event) -> None:
        assert self.ref_count[event.src] > 1 and self.ref_count[event.dst] == 1, str(event)
        assert self.tables[event.request][event.index] == event.dst, str(event)

    def _release(self, event: Event) -> None:
        self._drop(event)
        assert self.ref_count[event.block] == event.ref_count > 0, str(event)

    def _free(self, event: Event) -> None:
        self._drop(event)
        assert self.ref_count[event.block] == 0 and event.cached == (event.block in self.keys), str(event)
        self.free.insert(0 if event.end == "front" else len(self.free), event.block)

    def _publish(self, event: Event) -> None:
        self.keys.setdefault(event.block, {})[event.tail] = event.num_tokens  # a tail replaces a shorter one

    def _withdraw(self, event: Event) -> None:
        assert self.keys[event.block].pop(event.key is None) == event.num_tokens, str(event)
        if not self.keys[event.block]:
            del self.keys[event.block]

    def _swap_out(self, event: Event) -> None:
        self.host_free -= event.copied
        assert self.tables[event.request] and self.host_free >= 0, str(event)

    def _swap_in(self, event: Event) -> None:
        if not event.copied:  # else it was allocated just now
            self._hold(event.block)
        self._place(event.request, event.index, event.block)

    def _host_free(self, event: Event) -> None:
        self.host_free += 1

    def _hold(self, block: int) -> None:
        if self.ref_count[block] == 0:
            self.free.remove(block)
        self.ref_count[block] += 1

    def _place(self, request: str, index: int, block: int) -> None:
        table = self.tables.setdefault(request, [])
        table += [-1] * (index + 1 - len(table))
        table[index] = block

    def _drop(self, event: Event) -> None:
        self.ref_count[event.block] -= 1
        table = self.tables[event.request]
        if event.block in table:  # else a copy took its place
            table[table.index(event.block)] = -1
            if set(table) == {-1}:
                del self.tables[event.request]

    # ---- queues ----

    def _add(self, event: Event) -> None:
        self._rank[event.request] = (event.priority, len(self._rank))
        self._join(event.request, front=False)

    def _fork(self, event: Event) -> None:
        self._rank[event.request] = self._rank[event.parent]
        self._join(event.request, front=True)

    def _admit(self, event: Event) -> None:
        self.waiting.remove(event.request)
        self.running.append(event.request)

    def _rotate(self, event: Event) -> None:
        self.running.remove(event.request)
        self.waiting.append(event.request)

    def _preempt(self, event: Event) -> None:
        if event.request in self.running:  # else it was paused and keeps its place
            self.running.remove(event.request)
            self._join(event.request, front=True)

    def _cancel(self, event: Event) -> None:
        for name in reversed(event.returned):
            self.running.remove(name)
            self._join(name, front=True)

    def _finish(self, event: Event) -> None:
        (self.running if event.request in self.running else self.waiting).remove(event.request)

    def _step(self, event: Event) -> None:
        assert (event.free_blocks, event.waiting, event.running) == (
            len(self.free), len(self.waiting), len(self.running)), str(event)

    def _commit(self, event: Event) -> None:
        pass

    def _reset(self, event: Event) -> None:
        assert not self.keys and not self.tables, str(event)

    def _join(self, name: str, front: bool) -> None:
        if self.policy == "priority":
            self.waiting.insert(bisect_right(self.waiting, self._rank[name], key=self._rank.get), name)
        else:
            self.waiting.insert(0 if front else len(self.waiting), name)

    def equals(self, scheduler) -> None:
        """What the log tells is what the engine holds."""
        kv = scheduler.kv
        assert self.ref_count == kv.allocator.ref_count
        assert self.free == kv.allocator.free_blocks()
        assert self.tables == tables(scheduler)
        assert (self.running, self.waiting) == queues(scheduler)
        assert self.host_free == kv.host.free_count
        assert [max(self.keys.get(block, {0: 0}).values()) for block in range(kv.num_blocks)] == kv.prefix_cache.covered
