"""An executor without a model that knows what memory must contain.

What K and V hold at a position depends on the cache salt and on every token up to that position. So in place
of K and V, each slot here holds a rolling hash of just that. `run` does a plan as the design says (swap out,
swap in, copies, writes, reads) and complains about the first slot that a request would attend to and that
holds anything else: stale, never written, half copied or another request's. The next token is a function of
the hash at the last position and of the request's seed, so a request gets the same tokens however it was
batched, chunked, preempted, swapped, forked or served from the cache: those of `undisturbed`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from random import Random

from minipaged.core import FinishReason, Request, StaticBatchingScheduler, StepPlan

EMPTY = None  # never written, or written by somebody who could not know what
GARBAGE = "garbage"  # nobody may read it


class ShadowError(AssertionError):
    """A plan breaks a rule, or a slot does not hold what its reader needs."""


class StepFailed(RuntimeError):
    """The failure that `ShadowExecutor.fail` plays."""


def extend_hashes(hashes: list[int], salt: object, token_ids: Sequence[int]) -> list[int]:
    """Let `hashes[p]` stand for the K and V of position p, for all positions of `token_ids`."""
    state = hashes[-1] if hashes else int.from_bytes(sha256(repr(salt).encode()).digest()[:7], "big")
    for token in token_ids[len(hashes):]:
        state = hash((state, token))
        hashes.append(state)
    return hashes


def draw(state: int, seed: int | None, vocab_size: int) -> int:
    """The "sampled" token after a context with this hash."""
    return (hash((state, seed)) >> 7) % vocab_size


def undisturbed(request: Request, *, vocab_size: int, capacity: int, max_model_len: int | None = None,
                eos_token_ids: Sequence[int] = ()) -> tuple[list[int], FinishReason]:
    """All tokens and the end of a request that is alone in a pool of `capacity` tokens."""
    params, tokens = request.params, list(request.token_ids)
    hashes: list[int] = []
    limit, at_limit = request.num_prompt_tokens + params.max_tokens, FinishReason.LENGTH
    if max_model_len is not None and max_model_len < limit:
        limit = max_model_len
    if capacity + 1 < limit:  # the newest token takes no slot
        limit, at_limit = capacity + 1, FinishReason.CAPACITY
    stops = set(params.stop_token_ids) | (set() if params.ignore_eos else set(eos_token_ids))
    while True:
        tokens.append(draw(extend_hashes(hashes, request.cache_salt, tokens)[-1], params.seed, vocab_size))
        if tokens[-1] in stops and len(tokens) - request.num_prompt_tokens >= params.min_tokens:
            return tokens, FinishReason.STOP
        if len(tokens) >= limit:
            return tokens, at_limit


class ShadowExecutor:
    """Runs the plans of one scheduler: `scheduler.step(ShadowExecutor(scheduler).run)`."""

    def __init__(self, scheduler, vocab_size: int = 4) -> None:
        self.scheduler = scheduler
        self.block_size = scheduler.kv.block_size
        self.vocab_size = vocab_size
        self.device = [[EMPTY] * self.block_size for _ in range(scheduler.kv.num_blocks)]
        self.host: dict[int, list] = {}
        self._hashes: dict[Request, list[int]] = {}
        self._origin: dict[int, str] = {}  # hash -> who wrote it first, for messages

    # ---- the whole step ----

    def run(self, plan: StepPlan) -> Mapping[str, int]:
        """Do a plan, check it, and return the sampled tokens. Raises ShadowError."""
        self.check_plan(plan)
        self._swap_out(plan)
        self._swap_in(plan)
        self._copy(plan)
        for item in plan.scheduled:
            self._write(item)
        sampled = {}
        for item in plan.scheduled:
            self._read(item, item.context_len, "reads")
            if item.sample:
                request = self._request(item)
                last = self.hashes(request)[item.context_len - 1]
                sampled[item.request_id] = draw(last, request.params.seed, self.vocab_size)
        return sampled

    def fail(self, plan: StepPlan, random: Random) -> None:
        """Do a random part of a plan, leave garbage in a random part of what it writes, raise StepFailed."""
        self.check_plan(plan)
        stages = [lambda: self._swap_out(plan), lambda: self._swap_in(plan), lambda: self._copy(plan)]
        stages += [lambda item=item: self._write(item) for item in plan.scheduled]
        for stage in stages[:random.randrange(len(stages) + 1)]:
            stage()
        share = random.choice((0, 0.5, 1))
        for _, host_block in plan.swap_outs:
            if random.random() < share:
                self.host[host_block] = [GARBAGE] * self.block_size
        for _, block in plan.swap_ins + plan.copies:
            if random.random() < share:
                self.device[block] = [GARBAGE] * self.block_size
        for slot in plan.slot_mapping:
            if random.random() < share:
                self.device[slot // self.block_size][slot % self.block_size] = GARBAGE
        raise StepFailed("this step was to fail")

    def forget(self) -> None:
        """New weights: nothing in memory means anything any more."""
        self.device = [[GARBAGE] * self.block_size for _ in self.device]
        self.host = {}

    def hashes(self, request: Request) -> list[int]:
        """What memory must hold for each position of a request."""
        return extend_hashes(self._hashes.setdefault(request, []), request.cache_salt, request.token_ids)

    # ---- rules of a plan ----

    def check_plan(self, plan: StepPlan) -> None:
        """The rules that need no memory contents."""
        scheduler, tables = self.scheduler, self.scheduler.kv.tables()
        names = [item.request_id for item in plan.scheduled]
        _need(len(set(names)) == len(names), "a request is scheduled twice: {}", names)
        alone = isinstance(scheduler, StaticBatchingScheduler) and len(names) == 1
        _need(alone or plan.total_tokens <= scheduler.max_num_batched_tokens, "{} tokens in a step of {}",
              plan.total_tokens, scheduler.max_num_batched_tokens)
        _need(names == [request.request_id for request in scheduler.running][:len(names)],
              "scheduled are {}, which is not the order of the seats", names)
        for item in plan.scheduled:
            name, request, table = item.request_id, self._request(item), tables[item.request_id].blocks
            _need(item.token_ids and item.token_ids == tuple(request.token_ids[item.start:item.context_len]),
                  "request {} computes {} at {}; these are not its tokens", name, item.token_ids, item.start)
            _need(item.start == request.num_computed_tokens, "request {} goes on at {}, it has {} computed",
                  name, item.start, request.num_computed_tokens)
            _need(item.sample == (item.context_len == request.num_tokens),
                  "request {}: sample is {} at {}", name, item.sample, item.context_len)
            _need(item.block_table == table, "request {} runs with table {}, it holds {}",
                  name, item.block_table, table)
            _need(len(table) * self.block_size >= item.context_len, "request {} has no block for position {}",
                  name, item.context_len - 1)
        slots = plan.slot_mapping
        _need(len(set(slots)) == len(slots), "a slot is written twice in one step: {}", sorted(slots))
        admitted = {admission.request_id for admission in plan.admitted}
        for item in plan.scheduled:
            for block in {slot // self.block_size for slot in item.slots(self.block_size)}:
                # Only somebody who found the full block in this very step may hold it too.
                others = [name for name, table in tables.items()
                          if block in table.blocks and name != item.request_id and name not in admitted]
                _need(not others, "request {} writes into block {}, which {} hold too",
                      item.request_id, block, others)
        for pairs in (plan.swap_outs, plan.swap_ins, plan.copies):
            filled = [destination for _, destination in pairs]
            _need(len(set(filled)) == len(filled), "a block is filled twice: {}", pairs)

    # ---- memory ----

    def _swap_out(self, plan: StepPlan) -> None:
        self._move("swap_outs", plan.swap_outs, self.device, self.host)

    def _swap_in(self, plan: StepPlan) -> None:
        self._move("swap_ins", plan.swap_ins, self.host, self.device)
        self._check_moved(plan, plan.swap_ins, "restored")

    def _copy(self, plan: StepPlan) -> None:
        self._move("copies", plan.copies, self.device, self.device)
        self._check_moved(plan, plan.copies, "copied")

    def _move(self, what: str, pairs: list[tuple[int, int]], source, destination) -> None:
        """Copy blocks; one after the other and all at once must give the same."""
        at_once = [list(source[first]) for first, _ in pairs]
        for first, second in pairs:
            destination[second] = list(source[first])
        for (first, second), contents in zip(pairs, at_once):
            _need(destination[second] == contents, "{}: what {} gets from {} depends on the order of {}",
                  what, second, first, pairs)

    def _check_moved(self, plan: StepPlan, pairs: list[tuple[int, int]], how: str) -> None:
        """What was moved is right for whoever holds it, as far as it was computed before this step."""
        size = self.block_size
        moved = {second for _, second in pairs}
        written = {slot // size for slot in plan.slot_mapping} if moved else moved
        for item in plan.scheduled if moved else ():
            for index, block in enumerate(item.block_table):
                computed = max(0, min(size, item.start - index * size))
                if block in moved and not (computed == size and block in written):  # found, full in a moment
                    self._check(item, index, computed, f"needs what was {how},")

    def _write(self, item) -> None:
        size, hashes = self.block_size, self.hashes(self._request(item))
        for position in range(item.start, item.context_len):
            self.device[item.block_table[position // size]][position % size] = hashes[position]
            self._origin.setdefault(hashes[position], f"position {position} of request {item.request_id}")
        # Keys that cover more are withdrawn now: what lies behind the last token is nobody's.
        used = (item.context_len - 1) % size + 1
        block = self.device[item.block_table[(item.context_len - 1) // size]]
        block[used:] = [GARBAGE] * (size - used)

    def _read(self, item, end: int, what: str) -> None:
        for index in range(-(-end // self.block_size)):
            self._check(item, index, min(self.block_size, end - index * self.block_size), what)

    def _check(self, item, index: int, count: int, what: str) -> None:
        """Logical block `index` of a request holds the right contents in its first `count` slots."""
        block, start = item.block_table[index], index * self.block_size
        right = self.hashes(self._request(item))[start:start + count]
        found = self.device[block][:count]
        if found != right:
            offset = next(offset for offset in range(count) if found[offset] != right[offset])
            held = found[offset]
            held = "nothing" if held is EMPTY else self._origin.get(held, held)
            raise ShadowError(f"request {item.request_id} {what} position {start + offset} in block {block}, "
                              f"offset {offset}: it holds {held}")

    def _request(self, item) -> Request:
        return self.scheduler.requests[item.request_id]


def _need(ok: object, message: str, *values: object) -> None:
    if not ok:
        raise ShadowError(message.format(*values))
