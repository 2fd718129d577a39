"""Continuous batching: who runs in the next step, and with which memory (chapters 07 to 10).

There is no prefill phase and no decode phase. Each step lets every running request catch up with its
length, as far as one token budget goes: a long prompt in chunks, a running one by one token. Running
requests come first; what is left admits waiting ones. When a running request finds no block, a victim gives
up its blocks, to be recomputed or swapped in later. Sources: Yu et al., "Orca", OSDI 2022; Agrawal et al.,
"Sarathi-Serve", OSDI 2024; the paged memory of Kwon et al., SOSP 2023; the schedule is that of vLLM 0.32.
"""
from collections.abc import Iterable

from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.events import EventLog
from minipaged.core.kv_manager import KVCacheManager
from minipaged.core.plan import Admission, ScheduledRequest, StepPlan
from minipaged.core.policy import choose_victim_rule, make_policy
from minipaged.core.prefix_tree import NO_MATCH, Match
from minipaged.core.request import PAUSED, RUNNING, SWAPPED, WAITING, Request, SamplingParams
from minipaged.errors import RequestError, whole_number


class ContinuousBatchingScheduler(BaseScheduler):
    """Makes one StepPlan a step and applies its result; all choices are deterministic.

    max_num_seqs: seats. max_num_batched_tokens: tokens a step. max_model_len: prompt and output together.
    enable_chunked_prefill: off, a prompt is computed whole or waits. long_prefill_token_threshold: the most
    tokens of one chunk (0: no limit). watermark: share of the pool that admission leaves free.
    preemption_mode: "recompute" or "swap".
    """

    def __init__(self, kv: KVCacheManager, *, max_num_seqs: int = 64, max_num_batched_tokens: int = 2048,
                 max_model_len: int | None = None, enable_chunked_prefill: bool = True,
                 long_prefill_token_threshold: int = 0, scheduling_policy: str = "fcfs", quantum: int = 16,
                 victim: str = "newest", preemption_mode: str = "recompute", watermark: float = 0.0,
                 eos_token_ids: Iterable[int] = (), events: EventLog | None = None) -> None:
        self.scheduling_policy = scheduling_policy
        super().__init__(kv, max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens,
                         max_model_len=max_model_len, eos_token_ids=eos_token_ids, events=events)
        if preemption_mode not in ("recompute", "swap"):
            raise ValueError(f"preemption_mode is {preemption_mode!r}; it must be 'recompute' or 'swap'")
        if not 0 <= watermark < 1:
            raise ValueError(f"watermark is {watermark}; it must be at least 0 and below 1")
        whole_number("long_prefill_token_threshold", long_prefill_token_threshold, 0)
        self.enable_chunked_prefill = enable_chunked_prefill
        self.preemption_mode = preemption_mode
        self._chunk_limit = (enable_chunked_prefill and long_prefill_token_threshold) or max_num_batched_tokens
        self._reserve = int(watermark * kv.num_blocks)
        self._policy = make_policy(scheduling_policy, quantum)
        self._choose_victim = choose_victim_rule(victim, scheduling_policy)
        self._budget = 0  # tokens left in the plan under way

    def _check_prompt(self, request: Request) -> None:
        if not self.enable_chunked_prefill and request.num_tokens > self.max_num_batched_tokens:
            raise RequestError(f"request {request.request_id} has {request.num_tokens} prompt tokens; a step takes "
                               f"{self.max_num_batched_tokens} and chunked prefill is off. Raise "
                               "max_num_batched_tokens or turn it on")

    # ---- one step ----

    def _plan_step(self, plan: StepPlan) -> None:
        self._budget = self.max_num_batched_tokens
        free_seats = self.max_num_seqs - len(self.running)
        for request in self._policy.rotate(self.running, len(self.waiting), free_seats):
            self.running.remove(request)
            request.status = PAUSED
            self.waiting.append(request)
            self._events.emit("rotate", request=request.request_id)
        self._schedule_running(plan)
        if not plan.preempted:
            self._admit_waiting(plan)
        if self._policy.rotates:
            # Who lost its memory keeps the seat until it has a new token: else all could start again for ever.
            sampling = {item.request_id for item in plan.scheduled if item.sample}
            for request in self.running:
                request.steps_in_seat += request.num_preemptions == 0 or request.request_id in sampling

    def _schedule_running(self, plan: StepPlan) -> None:
        running, scheduled, grow, limit = self.running, plan.scheduled, self.kv.grow, self._chunk_limit
        # Whoever stands before position len(scheduled) is scheduled: victims leave both lists.
        while len(scheduled) < len(running) and self._budget > 0:
            request = running[len(scheduled)]
            tokens, start = request.token_ids, request.num_computed_tokens
            end = len(tokens)
            if end - start > 1:
                end = min(end, start + limit, start + self._budget)
            blocks = grow(request, start, end)
            while blocks is None and self._preempt_for_memory(plan) is not request:
                blocks = grow(request, start, end)
            if blocks is not None:
                scheduled.append(ScheduledRequest(request.request_id, start, tuple(tokens[start:end]), blocks,
                                                  end == len(tokens)))
                self._budget -= end - start

    def _admit_waiting(self, plan: StepPlan) -> None:
        while self.waiting and self._budget > 0 and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            new = request.status is WAITING
            match = self.kv.match(request) if new else NO_MATCH  # others come back with what they have
            start = request.num_computed_tokens + match.num_tokens
            missing = request.num_tokens - start
            count = min(missing, self._chunk_limit, self._budget)
            if count < missing and not self.enable_chunked_prefill and missing <= self.max_num_batched_tokens:
                break  # it fits a step of its own; a longer one (a resumed request) must go in chunks
            blocks = self._take_memory(request, match, count)
            if blocks is None:
                if self._reclaim_paused(request, plan):
                    continue
                break
            self.waiting.popleft()
            if new and request.num_preemptions == 0:
                request.num_cached_tokens = start
            request.num_computed_tokens = start
            plan.admitted.append(
                Admission(request.request_id, match.num_tokens, resumed=request.num_preemptions > 0 or not new))
            self._seat(request, match.num_tokens, request.status.value)
            plan.scheduled.append(ScheduledRequest(
                request.request_id, start, tuple(request.token_ids[start:start + count]), blocks, count == missing))
            self._budget -= count

    def _take_memory(self, request: Request, match: Match, count: int) -> tuple[int, ...] | None:
        reserve = self._reserve if self.running else 0  # a lone request may use the whole pool
        if request.status is WAITING:
            return self.kv.admit(request, match, count, reserve)
        if request.status is SWAPPED:
            return self.kv.swap_in(request, count, reserve)
        start = request.num_computed_tokens
        return self.kv.grow(request, start, start + count)

    # ---- when memory runs out ----

    def _preempt_for_memory(self, plan: StepPlan) -> Request:
        """Take the blocks of one request: the last paused one in the line, else a running victim."""
        paused = [request for request in self.waiting if request.status is PAUSED]
        victim = paused[-1] if paused else self._choose_victim(self.running)
        self._preempt(victim, plan)
        if not paused:
            self.running.remove(victim)
            self._policy.requeue(self.waiting, victim)
        return victim

    def _reclaim_paused(self, asker: Request, plan: StepPlan) -> bool:
        """Take the blocks of the last paused request that is not the asker; False: there is none."""
        for request in reversed(self.waiting):
            if request.status is PAUSED and request is not asker and not self.kv.feeds_copy(request):
                self._preempt(request, plan)
                return True
        return False

    def _preempt(self, request: Request, plan: StepPlan) -> None:
        intact, unscheduled = True, 0
        for item in [item for item in plan.scheduled if item.request_id == request.request_id]:
            unscheduled = len(item.token_ids)
            plan.scheduled.remove(item)
            self._budget += unscheduled
            intact = self.kv.unschedule(request)
        swapped = self.preemption_mode == "swap" and intact and self.kv.swap_out(request)
        computed = request.num_computed_tokens
        if not swapped:
            self._drop_memory(request)
        request.status = SWAPPED if swapped else WAITING
        request.num_preemptions += 1
        plan.preempted.append(request.request_id)
        self._events.emit("preempt", request=request.request_id, mode="swap" if swapped else "recompute",
                          num_computed_tokens=computed, unscheduled=unscheduled)

    def _return_to_queue(self, plan: StepPlan) -> list[str]:
        touched = {admission.request_id for admission in plan.admitted} | set(plan.preempted)
        filled = {block for _, block in plan.copies}
        for request in self.waiting:
            if request.status is SWAPPED and request.request_id in touched:
                self._drop_memory(request)
        return self._send_back([request for request in self.running if request.request_id in touched
                                or not filled.isdisjoint(self.kv.blocks_of(request.request_id))])

    def fork(self, parent_id: str, child_id: str, params: SamplingParams | None = None) -> Request:
        """A second request that goes on from the same tokens and shares all of their blocks.

        It takes a free seat, or waits with its blocks, first in line (by its rank under priority). Raises
        RequestError.
        """
        self._between_steps("fork")
        if parent_id not in self.requests:
            raise RequestError(f"request {parent_id!r} can't be forked: there is no such unfinished request")
        self._check_id(child_id)
        parent = self.requests[parent_id]
        child = parent.fork(child_id, params)
        if child.num_tokens >= child.max_num_tokens:
            raise RequestError(f"request {child_id} starts with {parent.num_output_tokens} output tokens of "
                               f"{parent_id}; its max_tokens {child.params.max_tokens} leaves none to generate")
        self._register(child)
        self._events.emit("fork", request=child_id, parent=parent_id, num_tokens=child.num_tokens)
        if parent.status in (RUNNING, PAUSED):
            self.kv.fork(parent, child)
            child.status = PAUSED
        else:  # nothing on the device to share
            child.num_computed_tokens = 0
        if child.status is PAUSED and len(self.running) < self.max_num_seqs:
            self._seat(child, 0, "fork")
        else:
            self._policy.requeue(self.waiting, child)
        return child
