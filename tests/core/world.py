"""A scheduler that random operations are done to, with everything checked after each one.

`World` does the operations (test_random_walk.py chooses them by a seed, test_state_machine.py by hypothesis)
and compares with what must be: memory by the shadow executor, state by check_invariants, every finished
request with the same request alone, and at the end nothing held and nothing left over.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from random import Random

from minipaged.core import (
    ContinuousBatchingScheduler,
    EventLog,
    FinishReason,
    KVCacheManager,
    Request,
    RequestStatus,
    SamplingParams,
    StaticBatchingScheduler,
    check_invariants,
)
from minipaged.core.block_hash import sha256_key
from minipaged.errors import RequestError

from .shadow import ShadowExecutor, StepFailed, undisturbed

EOS = 0


@dataclass(frozen=True)
class Config:
    """All options of a pool and a scheduler. Defaults are plain; printing shows only what differs."""

    num_blocks: int = 12
    block_size: int = 4
    num_cpu_blocks: int = 0
    free_order: str = "unhashed_first"
    enable_prefix_caching: bool = True
    share_partial_blocks: bool = True
    weak_hash: int = 0  # above 0: the hash is sum(tokens) modulo this
    vocab_size: int = 4
    max_num_seqs: int = 4
    max_num_batched_tokens: int = 16
    max_model_len: int | None = None
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    scheduling_policy: str = "fcfs"
    quantum: int = 3
    victim: str = "newest"
    preemption_mode: str = "recompute"
    log_events: bool = False

    def __str__(self) -> str:
        changed = [f"{field.name}={getattr(self, field.name)!r}" for field in fields(self)
                   if getattr(self, field.name) != field.default]
        return f"Config({', '.join(changed)})"


class World:
    """One scheduler, its executor and what is expected of it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        events = EventLog() if config.log_events else None
        weak = config.weak_hash
        self.kv = KVCacheManager(
            config.num_blocks, config.block_size, enable_prefix_caching=config.enable_prefix_caching,
            share_partial_blocks=config.share_partial_blocks, free_order=config.free_order, events=events,
            num_cpu_blocks=config.num_cpu_blocks,
            hash_fn=(lambda parent, tokens: sum(tokens) % weak) if weak else sha256_key)
        limits = {"max_num_seqs": config.max_num_seqs, "max_model_len": config.max_model_len,
                  "max_num_batched_tokens": config.max_num_batched_tokens, "eos_token_ids": [EOS],
                  "events": events}
        self.is_static = config.scheduling_policy == "static"
        if self.is_static:
            self.scheduler = StaticBatchingScheduler(self.kv, **limits)
        else:
            self.scheduler = ContinuousBatchingScheduler(
                self.kv, **limits, enable_chunked_prefill=config.enable_chunked_prefill, victim=config.victim,
                long_prefill_token_threshold=config.long_prefill_token_threshold, watermark=config.watermark,
                scheduling_policy=config.scheduling_policy, quantum=config.quantum,
                preemption_mode=config.preemption_mode)
        self.executor = ShadowExecutor(self.scheduler, config.vocab_size)
        self.expected: dict[str, tuple[list[int], FinishReason]] = {}
        self.log: deque[str] = deque(maxlen=25)  # the last operations, for the message of a failure
        self.num_steps = 0
        self.seen = {"preempted": 0, "swapped": 0, "copied": 0, "cached": 0, "failed": 0, "finished": 0,
                     "capacity": 0, "forked": 0, "restored": 0}

    @property
    def capacity(self) -> int:
        """Tokens that the pool holds."""
        return self.kv.num_blocks * self.kv.block_size

    @property
    def live(self) -> list[str]:
        return list(self.scheduler.requests)

    # ---- requests ----

    def add(self, name: str, prompt: list[int], params: SamplingParams, **fields: object) -> None:
        """Add a request; one that can't run must be refused and leave no trace."""
        self.log.append(f"add {name} {prompt} max_tokens={params.max_tokens} {fields}")
        request = Request(name, prompt, params, **fields)
        config, waiting = self.config, list(self.scheduler.waiting)
        refused = (name in self.expected or len(prompt) > self.capacity
                   or (config.max_model_len is not None and len(prompt) >= config.max_model_len)
                   or (not self.is_static and not config.enable_chunked_prefill
                       and len(prompt) > config.max_num_batched_tokens))
        try:
            self.scheduler.add_request(request)
        except RequestError as error:
            assert refused and name in str(error), f"{name} was refused: {error}"
            assert list(self.scheduler.waiting) == waiting, "a refused request is in the queue"
        else:
            assert not refused, f"{name} should have been refused"
            self._expect(request)

    def fork(self, parent: str, child: str, seed: int, max_tokens: int) -> None:
        """Fork a live request (or see an unknown one or a child without room for output refused)."""
        self.log.append(f"fork {parent} -> {child} seed={seed} max_tokens={max_tokens}")
        source = self.scheduler.requests.get(parent)
        params = SamplingParams(max_tokens=max_tokens, seed=seed)
        refused = source is None or child in self.expected or source.num_output_tokens >= max_tokens
        before = self.live
        try:
            request = self.scheduler.fork(parent, child, params)
        except RequestError as error:
            assert refused, f"fork was refused: {error}"
            assert self.live == before, "a refused fork left a request"
        else:
            assert not refused, "this fork should have been refused"
            assert request.token_ids == source.token_ids and request.token_ids is not source.token_ids
            self.seen["forked"] += 1
            self._expect(request)
        self.check()

    def end(self, name: str, reason: FinishReason = FinishReason.ABORT) -> None:
        """Abort or finish a request in whatever state it is, also one that is unknown or over."""
        self.log.append(f"end {name} {reason.value}")
        request = self.scheduler.requests.get(name)
        known = (self.scheduler.abort(name) if reason is FinishReason.ABORT
                 else self.scheduler.finish(name, reason))
        assert known == (request is not None)
        if request is not None:
            assert request.is_finished and request.finish_reason is reason
            tokens, _ = self.expected.pop(name)
            assert request.token_ids == tokens[:request.num_tokens], f"{name} went another way than alone"
            assert not self.scheduler.abort(name), "a second abort found the request again"

    def _expect(self, request: Request) -> None:
        self.expected[request.request_id] = undisturbed(
            request, vocab_size=self.config.vocab_size, capacity=self.capacity, eos_token_ids=[EOS],
            max_model_len=self.config.max_model_len)

    # ---- steps ----

    def step(self, meanwhile=None) -> None:
        """One step; `meanwhile()` is called when the plan has run and is not yet committed."""
        plan = self._schedule()
        sampled = self.executor.run(plan)
        if meanwhile is not None:
            meanwhile()
        for request in self.scheduler.commit(plan, sampled):
            assert request.is_finished
            self.seen["finished"] += 1
            self.seen["capacity"] += request.finish_reason is FinishReason.CAPACITY
            alone = self.expected.pop(request.request_id)
            assert (request.token_ids, request.finish_reason) == alone, (
                f"{request.request_id} ended {request.finish_reason} {request.token_ids}; alone {alone}")
        self.check()

    def failing_step(self, random: Random, meanwhile=None) -> None:
        """A step whose run raises part of the way; the others must go on as if it had not been planned."""
        self.log.append("the next step fails")
        before = {request: request.num_computed_tokens for request in self.scheduler.requests.values()}
        plan = None

        def run(given):
            nonlocal plan
            plan = given
            self._note(plan)
            try:
                self.executor.fail(plan, random)
            finally:
                if meanwhile is not None:
                    meanwhile()

        try:
            self.scheduler.step(run)
        except StepFailed:
            self.seen["failed"] += 1
        self.num_steps += 1
        touched = {admission.request_id for admission in plan.admitted} | set(plan.preempted)
        copied = {block for _, block in plan.copies}
        for item in plan.scheduled:
            request = self.scheduler.requests.get(item.request_id)
            if request in before and item.request_id not in touched and copied.isdisjoint(item.block_table):
                assert request.num_computed_tokens == before[request], f"{request} lost its place"
        self.check()

    def incomplete_step(self) -> None:
        """The executor returns a token too few: a ValueError, and the plan counts as not run."""
        sampled: dict[str, int] = {}

        def run(plan):
            self._note(plan)
            sampled.update(self.executor.run(plan))
            return dict(list(sampled.items())[:-1])

        try:
            self.scheduler.step(run)
        except ValueError as error:
            assert sampled and list(sampled)[-1] in str(error)
        else:
            assert not sampled, "a step without all of its tokens was taken for complete"
        self.num_steps += 1
        self.check()

    def reset(self) -> None:
        """Reset the prefix cache: refused exactly when somebody holds blocks."""
        holds = bool(self.kv.tables())
        done = self.kv.reset_prefix_cache()
        self.log.append(f"reset {done}")
        assert done != holds
        if done:
            assert len(self.kv.prefix_cache) == 0 and not any(self.kv.prefix_cache.covered)
            self.executor.forget()
        self.check()

    def drain(self) -> None:
        """Serve everybody to the end, in a bounded number of steps; then nothing may be left."""
        scheduler = self.scheduler
        # Even one at a time and recomputed several times for each of its tokens, all end within this.
        left = 10 + 5 * sum(len(tokens) ** 2 for tokens, _ in self.expected.values())
        while scheduler.has_unfinished:
            assert left > 0, "the scheduler makes no progress"
            left -= 1
            self.step()
        assert not self.expected and not scheduler.running and not scheduler.waiting
        assert self.kv.free_count == self.kv.num_blocks, "blocks are missing at idle"
        assert sorted(self.kv.allocator.free_blocks()) == list(range(self.kv.num_blocks))
        assert self.kv.host.free_count == self.config.num_cpu_blocks, "host blocks are missing at idle"
        self.reset()

    def check(self) -> None:
        check_invariants(self.scheduler)

    def _schedule(self):
        had_work = self.scheduler.has_unfinished
        plan = self.scheduler.schedule()
        self._note(plan)
        self.num_steps += 1
        assert not had_work or plan.total_tokens > 0, "a step computes nothing, though requests wait"
        return plan

    def _note(self, plan) -> None:
        """Log a plan and check the limits that the configuration sets for it."""
        self.log.append(f"step {plan.step}: " + ", ".join(
            [f"{item.request_id}[{item.start}:{item.context_len}] in {list(item.block_table)}"
             for item in plan.scheduled]
            + [f"{name} {getattr(plan, name)}" for name in ("swap_outs", "swap_ins", "copies", "preempted")
               if getattr(plan, name)]
            + [f"admitted {item.request_id} with {item.cached_tokens}" for item in plan.admitted]))
        self.seen["preempted"] += len(plan.preempted)
        self.seen["swapped"] += len(plan.swap_outs)
        self.seen["restored"] += len(plan.swap_ins)
        self.seen["copied"] += len(plan.copies)
        self.seen["cached"] += sum(admission.cached_tokens for admission in plan.admitted)
        config, requests = self.config, self.scheduler.requests
        assert len(plan.scheduled) <= config.max_num_seqs
        admitted = {item.request_id for item in plan.admitted}
        for name in plan.preempted:  # a paused request may lose its memory and come back in one step
            assert name in admitted or requests[name].status in (RequestStatus.WAITING, RequestStatus.SWAPPED)
        if self.is_static:
            assert not (plan.copies or plan.swap_ins or plan.swap_outs or plan.preempted)
            return
        full = plan.total_tokens == config.max_num_batched_tokens
        assert full or len(plan.scheduled) == len(self.scheduler.running), "budget is left, a seat has none"
        for item in plan.scheduled:
            if config.enable_chunked_prefill:
                assert item.num_tokens <= (config.long_prefill_token_threshold or item.num_tokens)
            else:
                whole = item.sample or requests[item.request_id].num_tokens > config.max_num_batched_tokens
                assert whole, f"{item.request_id} is computed in chunks"
