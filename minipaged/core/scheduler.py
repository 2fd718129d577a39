"""Continuous batching: who runs in the next step, and with which memory (chapters 07 to 10).

There is no prefill phase and no decode phase. Each step lets every running request catch up with its
length, as far as one token budget goes: a long prompt in chunks, a running one by one token. Running
requests come first; what is left admits waiting ones. When a running request finds no block, a victim gives
up its blocks, to be recomputed or swapped in later. Sources: Yu et al., "Orca", OSDI 2022; Agrawal et al.,
"Sarathi-Serve", OSDI 2024; the paged memory of Kwon et al., SOSP 2023; the schedule is that of vLLM 0.32.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from minipaged.core.events import EventLog
from minipaged.core.kv_manager import KVCacheManager
from minipaged.core.plan import Admission, ScheduledRequest, StepPlan
from minipaged.core.policy import choose_victim_rule, make_policy
from minipaged.core.prefix_cache import HitRate, encode
from minipaged.core.request import FinishReason, Request, RequestStatus, SamplingParams
from minipaged.errors import RequestError

RUNNING, WAITING, PAUSED, SWAPPED = (RequestStatus.RUNNING, RequestStatus.WAITING, RequestStatus.PAUSED,
                                     RequestStatus.SWAPPED)


class ContinuousBatchingScheduler:
    """Makes one StepPlan a step and applies its result; all choices are deterministic.

    max_num_seqs: seats. max_num_batched_tokens: tokens a step. max_model_len: prompt and output together.
    enable_chunked_prefill: off, a prompt is computed whole or waits. long_prefill_token_threshold: the most
    tokens of one request a step (0: no limit). watermark: share of the pool that admission leaves free.
    preemption_mode: "recompute" or "swap". `running` is in order of admission; `waiting` holds all others,
    with and without memory, next one first.
    """

    def __init__(self, kv: KVCacheManager, *, max_num_seqs: int = 64, max_num_batched_tokens: int = 2048,
                 max_model_len: int | None = None, enable_chunked_prefill: bool = True,
                 long_prefill_token_threshold: int = 0, scheduling_policy: str = "fcfs", quantum: int = 16,
                 victim: str = "newest", preemption_mode: str = "recompute", watermark: float = 0.0,
                 eos_token_ids: Iterable[int] = (), events: EventLog | None = None) -> None:
        if max_num_seqs < 1 or max_num_batched_tokens < 1:
            raise ValueError(f"max_num_seqs is {max_num_seqs} and max_num_batched_tokens {max_num_batched_tokens}; "
                             "both must be at least 1")
        if preemption_mode not in ("recompute", "swap"):
            raise ValueError(f"preemption_mode is {preemption_mode!r}; it must be 'recompute' or 'swap'")
        if not 0 <= watermark < 1:
            raise ValueError(f"watermark is {watermark}; it must be at least 0 and below 1")
        self.kv = kv
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.max_model_len = max_model_len
        self.enable_chunked_prefill = enable_chunked_prefill
        self.preemption_mode = preemption_mode
        self.eos_token_ids = frozenset(eos_token_ids)
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.requests: dict[str, Request] = {}  # all that are not finished
        self.step_index = -1
        self.hit_rate = HitRate()
        self._chunk_limit = long_prefill_token_threshold or max_num_batched_tokens
        self._reserve = int(watermark * kv.num_blocks)
        self._policy = make_policy(scheduling_policy, quantum)
        self._choose_victim = choose_victim_rule(victim, scheduling_policy)
        self._counts_steps = scheduling_policy == "round_robin"
        self._events = events
        self._plan: StepPlan | None = None  # scheduled, not yet committed
        self._budget = 0  # tokens left in the plan under way
        self._num_added = 0

    @property
    def has_unfinished(self) -> bool:
        return bool(self.requests)

    # ---- requests come and go ----

    def add_request(self, request: Request) -> None:
        """Put a new request in the queue. Raises RequestError for one that can never run; nothing changes."""
        name, prompt = request.request_id, request.num_tokens
        if name in self.requests:
            raise RequestError(f"request id {name!r} is in use; give each request its own id")
        if request.status is not WAITING or request.num_computed_tokens:
            raise RequestError(f"request {name} is {request.status.value}; a request can be added only once")
        if self.max_model_len is not None and prompt >= self.max_model_len:
            raise RequestError(f"request {name} has {prompt} prompt tokens; the model takes {self.max_model_len} "
                               "tokens, prompt and at least 1 new one together. Shorten the prompt")
        size, blocks = self.kv.block_size, self.kv.num_blocks
        if prompt > blocks * size:
            raise RequestError(f"request {name} needs {prompt} tokens = {-(-prompt // size)} blocks of {size}; the "
                               f"pool holds {blocks} blocks ({blocks * size} tokens). Raise num_blocks or shorten "
                               "the prompt")
        if not self.enable_chunked_prefill and prompt > self.max_num_batched_tokens:
            raise RequestError(f"request {name} has {prompt} prompt tokens; a step takes {self.max_num_batched_tokens}"
                               " and chunked prefill is off. Raise max_num_batched_tokens or turn it on")
        try:
            encode(request.cache_salt)
        except TypeError as error:
            raise RequestError(f"request {name}: {error}") from None
        self._register(request)
        self._policy.enqueue(self.waiting, request)
        if self._events is not None:
            self._events.emit("add", request=name, num_tokens=prompt, max_num_tokens=request.max_num_tokens,
                              priority=request.priority)

    def _register(self, request: Request) -> None:
        if self.max_model_len is not None:
            request.max_num_tokens = min(request.max_num_tokens, self.max_model_len)
        if not request.params.ignore_eos:
            request.stop_tokens |= self.eos_token_ids
        if request.arrival is None:
            request.arrival = self._num_added
        self._num_added += 1
        self.requests[request.request_id] = request

    def fork(self, parent_id: str, child_id: str, params: SamplingParams | None = None) -> Request:
        """A second request that goes on from the same tokens and shares all of their blocks.

        It takes a free seat, or waits first in line with its blocks. Raises RequestError.
        """
        self._between_steps("fork")
        if parent_id not in self.requests:
            raise RequestError(f"request {parent_id!r} can't be forked: there is no such unfinished request")
        if child_id in self.requests:
            raise RequestError(f"request id {child_id!r} is in use; give each request its own id")
        parent = self.requests[parent_id]
        child = parent.fork(child_id, params)
        self._register(child)
        if self._events is not None:
            self._events.emit("fork", request=child_id, parent=parent_id, num_tokens=child.num_tokens)
        if parent.status in (RUNNING, PAUSED):
            self.kv.fork(parent, child)
            child.status = PAUSED
            if len(self.running) < self.max_num_seqs:
                self._seat(child, 0, "fork")
            else:
                self.waiting.appendleft(child)
        else:
            child.num_computed_tokens = 0
            self._policy.requeue(self.waiting, child)
        return child

    def abort(self, request_id: str) -> bool:
        """Give up a request in any state; its blocks come back. False when it is unknown or has ended."""
        return self.finish(request_id, FinishReason.ABORT)

    def finish(self, request_id: str, reason: FinishReason) -> bool:
        """End a request now (abort, or a stop string that the engine found)."""
        request = self.requests.get(request_id)
        if request is None:
            return False
        if request.status is RUNNING:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        self._end(request, reason)
        return True

    def _end(self, request: Request, reason: FinishReason) -> None:
        if request.status is not WAITING:
            self.kv.free(request)
        del self.requests[request.request_id]
        request.status = RequestStatus.FINISHED
        request.finish_reason = reason
        if self._events is not None:
            self._events.emit("finish", request=request.request_id, reason=reason.value,
                              num_tokens=request.num_tokens)

    # ---- one step ----

    def step(self, run: Callable[[StepPlan], Mapping[str, int]]) -> list[Request]:
        """Plan, run, commit; returns the requests that finished. When `run` raises, the plan is cancelled."""
        plan = self.schedule()
        try:
            sampled = run(plan)
        except BaseException:
            self.cancel(plan)
            raise
        return self.commit(plan, sampled)

    def schedule(self) -> StepPlan:
        """Plan the next step. It must be committed or cancelled before the next one is planned."""
        self._between_steps("schedule")
        self.step_index += 1
        if self._events is not None:
            self._events.step = self.step_index
        plan = self._plan = StepPlan(self.step_index, self.kv.block_size)
        self._budget = self.max_num_batched_tokens
        self._rotate()
        self._schedule_running(plan)
        if not plan.preempted:
            self._admit_waiting(plan)
        self.kv.hand_over(plan)
        if self._counts_steps:
            for request in self.running:
                request.steps_in_seat += 1
        if self._events is not None:
            self._events.emit("step", scheduled={item.request_id: [item.start, len(item.token_ids)]
                                                 for item in plan.scheduled},
                              free_blocks=self.kv.free_count, waiting=len(self.waiting), running=len(self.running))
        return plan

    def _rotate(self) -> None:
        free_seats = self.max_num_seqs - len(self.running)
        for request in self._policy.rotate(self.running, len(self.waiting), free_seats):
            self.running.remove(request)
            request.status = PAUSED
            self.waiting.append(request)
            if self._events is not None:
                self._events.emit("rotate", request=request.request_id)

    def _schedule_running(self, plan: StepPlan) -> None:
        running, scheduled, grow, limit = self.running, plan.scheduled, self.kv.grow, self._chunk_limit
        # Whoever stands before position len(scheduled) is scheduled: victims leave both lists.
        while len(scheduled) < len(running) and self._budget > 0:
            request = running[len(scheduled)]
            start = request.num_computed_tokens
            count = min(len(request.token_ids) - start, limit, self._budget)
            while not grow(request, start, start + count):
                victim = self._preempt_for_memory(plan)
                if victim is request:
                    break
            else:
                self._schedule(plan, request, start, count)

    def _schedule(self, plan: StepPlan, request: Request, start: int, count: int) -> None:
        tokens = request.token_ids
        plan.scheduled.append(ScheduledRequest(
            request.request_id, start, tuple(tokens[start:start + count]),
            self.kv.blocks_of(request.request_id), start + count == len(tokens)))
        self._budget -= count

    def _admit_waiting(self, plan: StepPlan) -> None:
        while self.waiting and self._budget > 0 and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            if request.status is WAITING:
                match = self.kv.match(request)
                start = match.num_tokens
            else:
                match, start = None, request.num_computed_tokens
            missing = request.num_tokens - start
            count = min(missing, self._chunk_limit, self._budget)
            if count < missing and not self.enable_chunked_prefill and missing <= self.max_num_batched_tokens:
                break  # it fits a step of its own; a longer one (a resumed request) must go in chunks
            if not self._take_memory(request, match, count):
                if self._reclaim_paused(request, plan):
                    continue
                break
            self.waiting.popleft()
            if match is not None:
                self._count_hits(request, start)
                request.num_computed_tokens = start
            resumed = request.num_preemptions > 0 or match is None
            plan.admitted.append(Admission(request.request_id, start if match is not None else 0, resumed))
            self._seat(request, start if match is not None else 0, request.status.value)
            self._schedule(plan, request, start, count)

    def _take_memory(self, request: Request, match, count: int) -> bool:
        reserve = self._reserve if self.running else 0  # a lone request may use the whole pool
        if request.status is WAITING:
            return self.kv.admit(request, match, count, reserve)
        if request.status is SWAPPED:
            return self.kv.swap_in(request, count, reserve)
        start = request.num_computed_tokens
        return self.kv.grow(request, start, start + count)

    def _seat(self, request: Request, cached_tokens: int, was: str) -> None:
        request.status = RUNNING
        request.steps_in_seat = 0
        self.running.append(request)
        if self._events is not None:
            self._events.emit("admit", request=request.request_id, cached_tokens=cached_tokens,
                              resumed=request.num_preemptions > 0, was=was)

    def _count_hits(self, request: Request, cached_tokens: int) -> None:
        if request.num_preemptions == 0:
            request.num_cached_tokens = cached_tokens
            if self.kv.enable_prefix_caching:
                self.hit_rate.record(1, request.num_tokens, cached_tokens)

    # ---- when memory runs out ----

    def _preempt_for_memory(self, plan: StepPlan) -> Request:
        """Take the blocks of one request: the last paused one in the line, else a running victim."""
        for request in reversed(self.waiting):
            if request.status is PAUSED:
                self._preempt(request, plan)
                return request
        victim = self._choose_victim(self.running)
        self.running.remove(victim)
        self._preempt(victim, plan)
        self._policy.requeue(self.waiting, victim)
        return victim

    def _reclaim_paused(self, asker: Request, plan: StepPlan) -> bool:
        for request in reversed(self.waiting):
            if request.status is PAUSED and request is not asker:
                self._preempt(request, plan)
                return True
        return False

    def _preempt(self, request: Request, plan: StepPlan) -> None:
        intact, unscheduled = True, 0
        for position, item in enumerate(plan.scheduled):
            if item.request_id == request.request_id:
                unscheduled = len(item.token_ids)
                del plan.scheduled[position]
                self._budget += unscheduled
                intact = self.kv.unschedule(request)
                break
        swapped = self.preemption_mode == "swap" and intact and self.kv.swap_out(request)
        computed = request.num_computed_tokens
        if not swapped:
            self._drop_memory(request)
        request.status = SWAPPED if swapped else WAITING
        request.num_preemptions += 1
        plan.preempted.append(request.request_id)
        if self._events is not None:
            self._events.emit("preempt", request=request.request_id, mode="swap" if swapped else "recompute",
                              num_computed_tokens=computed, unscheduled=unscheduled)

    def _drop_memory(self, request: Request) -> None:
        self.kv.free(request)
        request.num_computed_tokens = 0
        request.status = WAITING

    # ---- after the step ----

    def commit(self, plan: StepPlan, sampled: Mapping[str, int]) -> list[Request]:
        """Apply what a plan computed. `sampled` has a token for every scheduled request with `sample`.

        Returns the requests that finished; their blocks are free. Requests aborted meanwhile are skipped.
        """
        self._expect(plan)
        missing = [item.request_id for item in plan.scheduled if item.sample and item.request_id not in sampled]
        if missing:
            raise ValueError(f"no sampled token for request {missing[0]}; the plan asked for one")
        self._plan = None
        finished = []
        for item in plan.scheduled:
            request = self.requests.get(item.request_id)
            if request is None or request.status is not RUNNING:
                continue
            request.num_computed_tokens += len(item.token_ids)
            self.kv.publish_tail(request)
            if item.sample:
                request.token_ids.append(sampled[item.request_id])
                reason = self._finish_reason(request)
                if reason is not None:
                    finished.append((request, reason))
        self.kv.commit()
        if self._events is not None:
            self._events.emit("commit", tokens={item.request_id: sampled[item.request_id]
                                                for item in plan.scheduled if item.sample})
        for request, reason in finished:
            self.running.remove(request)
            self._end(request, reason)
        return [request for request, _ in finished]

    def _finish_reason(self, request: Request) -> FinishReason | None:
        tokens = request.token_ids
        if tokens[-1] in request.stop_tokens and request.num_output_tokens >= request.params.min_tokens:
            return FinishReason.STOP
        if len(tokens) >= request.max_num_tokens:
            return FinishReason.LENGTH
        if len(tokens) > self.kv.num_blocks * self.kv.block_size:
            return FinishReason.CAPACITY
        return None

    def cancel(self, plan: StepPlan) -> None:
        """The plan did not run. What it published is withdrawn; whoever it admitted, swapped or gave a copy
        goes back to the queue to be recomputed; all other requests go on as if it had not been made."""
        self._expect(plan)
        self._plan = None
        self.kv.cancel(plan)
        touched = {admission.request_id for admission in plan.admitted} | set(plan.preempted)
        filled = {block for _, block in plan.copies}
        returned = []
        for request in [*self.waiting]:
            if request.request_id in touched and request.status is SWAPPED:
                self._drop_memory(request)
        for request in reversed(self.running[:]):
            self.kv.rewind(request)
            if request.request_id in touched or not filled.isdisjoint(self.kv.blocks_of(request.request_id)):
                self.running.remove(request)
                self._drop_memory(request)
                self._policy.requeue(self.waiting, request)
                returned.append(request.request_id)
        if self._events is not None:
            self._events.emit("cancel", returned=returned)

    def _expect(self, plan: StepPlan) -> None:
        if plan is not self._plan:
            raise ValueError(f"the plan of step {plan.step} is not the one under way; each plan is committed or "
                             "cancelled once, before the next is made")

    def _between_steps(self, what: str) -> None:
        if self._plan is not None:
            raise ValueError(f"can't {what} while the plan of step {self._plan.step} is under way; commit or "
                             "cancel it first")
