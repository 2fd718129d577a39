"""What every scheduler does: take requests, plan and commit steps, end requests (chapters 07 and 08)."""
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from minipaged.core.block_hash import encode
from minipaged.core.events import NO_LOG, EventLog
from minipaged.core.kv_manager import KVCacheManager
from minipaged.core.plan import StepPlan
from minipaged.core.policy import FCFS
from minipaged.core.request import FINISHED, RUNNING, WAITING, FinishReason, Request
from minipaged.errors import RequestError, whole_number


class BaseScheduler:
    """Requests in two queues and one plan at a time.

    A subclass fills the plan (`_plan_step`) and, when it did not run, sends back whom it touched
    (`_return_to_queue`).

    `running` is in order of admission; `waiting` holds all others, with and without memory, next one first.
    """

    scheduling_policy: str  # the name of its rule, for the log

    def __init__(self, kv: KVCacheManager, *, max_num_seqs: int = 64, max_num_batched_tokens: int = 2048,
                 max_model_len: int | None = None, eos_token_ids: Iterable[int] = (),
                 events: EventLog | None = None) -> None:
        self.kv = kv
        self.max_num_seqs = whole_number("max_num_seqs", max_num_seqs, 1)
        self.max_num_batched_tokens = whole_number("max_num_batched_tokens", max_num_batched_tokens, 1)
        self.max_model_len = None if max_model_len is None else whole_number("max_model_len", max_model_len, 2)
        self.eos_token_ids = frozenset(eos_token_ids)
        self.running: list[Request] = []
        self.waiting: deque[Request] = deque()
        self.requests: dict[str, Request] = {}  # all that are not finished
        self.idle_rows: list[Request] = []  # finished, memory not free yet (static batching only)
        self.step_index = -1
        self._events = NO_LOG if events is None else events
        self._policy = FCFS()
        self._plan: StepPlan | None = None  # scheduled, not yet committed
        self._num_added = 0
        self._events.emit("scheduler", policy=self.scheduling_policy, max_num_seqs=self.max_num_seqs,
                          max_num_batched_tokens=self.max_num_batched_tokens)

    @property
    def has_unfinished(self) -> bool:
        return bool(self.requests)

    # ---- requests come and go ----

    def add_request(self, request: Request) -> None:
        """Put a new request in the queue. Raises RequestError for one that can never run; nothing changes."""
        name, prompt = request.request_id, request.num_tokens
        self._check_id(name)
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
        try:
            encode(request.cache_salt)
        except TypeError as error:
            raise RequestError(f"request {name}: {error}") from None
        self._check_prompt(request)
        self._register(request)
        self._policy.enqueue(self.waiting, request)
        self._events.emit("add", request=name, num_tokens=prompt, max_num_tokens=request.max_num_tokens,
                          priority=request.priority)

    def _check_prompt(self, request: Request) -> None:
        """More reasons to refuse a request."""

    def _check_id(self, name: str) -> None:
        if name in self.requests:
            raise RequestError(f"request id {name!r} is in use; give each request its own id")

    def _register(self, request: Request) -> None:
        if self.max_model_len is not None:
            request.max_num_tokens = min(request.max_num_tokens, self.max_model_len)
        # The newest token needs no slot, so a full pool still yields one more token.
        capacity = self.kv.num_blocks * self.kv.block_size + 1
        request.outgrows_pool = request.max_num_tokens > capacity
        request.max_num_tokens = min(request.max_num_tokens, capacity)
        if not request.params.ignore_eos:
            request.stop_tokens |= self.eos_token_ids
        if request.arrival is None:
            request.arrival = self._num_added
        self._num_added += 1
        self.requests[request.request_id] = request

    def abort(self, request_id: str) -> bool:
        """Give up a request in any state; its blocks come back. False when it is unknown or has ended."""
        return self.finish(request_id, FinishReason.ABORT)

    def finish(self, request_id: str, reason: FinishReason) -> bool:
        """End a request now (abort, or a stop string that the engine found)."""
        request = self.requests.get(request_id)
        if request is not None:
            self._end(request, reason)
        return request is not None

    def _end(self, request: Request, reason: FinishReason) -> None:
        (self.running if request.status is RUNNING else self.waiting).remove(request)
        if request.status is not WAITING:
            self._free(request)
        del self.requests[request.request_id]
        request.status = FINISHED
        request.finish_reason = reason
        self._events.emit("finish", request=request.request_id, reason=reason.value, num_tokens=request.num_tokens)

    def _free(self, request: Request) -> None:
        self.kv.free(request)

    def _drop_memory(self, request: Request) -> None:
        """Take a request's memory; it will be recomputed from its first token."""
        self.kv.free(request)
        request.num_computed_tokens = 0
        request.status = WAITING

    def _send_back(self, requests: list[Request]) -> list[str]:
        """Running requests lose seat and memory and wait again, in the same order; returns their ids."""
        for request in reversed(requests):
            self.running.remove(request)
            self._drop_memory(request)
            self._policy.requeue(self.waiting, request)
        return [request.request_id for request in requests]

    # ---- one step ----

    def step(self, run: Callable[[StepPlan], Mapping[str, int]]) -> list[Request]:
        """Plan, run, commit; returns the requests that finished. When `run` raises or returns too few tokens,
        the plan is cancelled."""
        plan = self.schedule()
        try:
            return self.commit(plan, run(plan))
        except BaseException:
            if self._plan is plan:
                self.cancel(plan)
            raise

    def schedule(self) -> StepPlan:
        """Plan the next step. It must be committed or cancelled before the next one is planned."""
        self._between_steps("schedule")
        self.step_index += 1
        self._events.step = self.step_index
        plan = self._plan = self.kv.begin_plan(self.step_index)
        try:
            self._plan_step(plan)
        except BaseException:
            self.cancel(plan)
            raise
        if self._events.recording:
            self._events.emit("step", scheduled={item.request_id: [item.start, len(item.token_ids)]
                                                 for item in plan.scheduled},
                              free_blocks=self.kv.free_count, waiting=len(self.waiting), running=len(self.running))
        return plan

    def commit(self, plan: StepPlan, sampled: Mapping[str, int]) -> list[Request]:
        """Apply what a plan computed. `sampled` has a token for every scheduled request with `sample`.

        Returns the requests that finished; their blocks are free. Requests aborted meanwhile are skipped.
        """
        self._expect(plan)
        missing = [name for name, _, _, _, sample in plan.scheduled if sample and name not in sampled]
        if missing:
            raise ValueError(f"no sampled token for request {missing[0]}; the plan asked for one")
        self._plan = None
        computed, finished = [], []
        for name, start, tokens, _, sample in plan.scheduled:
            request = self.requests.get(name)
            if request is None or request.status is not RUNNING:
                continue
            computed.append(request)
            request.num_computed_tokens = start + len(tokens)
            if sample:
                token = sampled[name]
                request.token_ids.append(token)
                if len(request.token_ids) >= request.max_num_tokens or token in request.stop_tokens:
                    reason = self._finish_reason(request)
                    if reason is not None:
                        finished.append((request, reason))
        self.kv.commit(computed)
        if self._events.recording:
            self._events.emit("commit", tokens={item.request_id: sampled[item.request_id]
                                                for item in plan.scheduled if item.sample})
        for request, reason in finished:
            self._end(request, reason)
        return [request for request, _ in finished]

    def _seat(self, request: Request, cached_tokens: int, was: str) -> None:
        request.status = RUNNING
        request.steps_in_seat = 0
        self.running.append(request)
        self._events.emit("admit", request=request.request_id, cached_tokens=cached_tokens,
                          resumed=request.num_preemptions > 0, was=was)

    def _finish_reason(self, request: Request) -> FinishReason | None:
        tokens = request.token_ids
        if tokens[-1] in request.stop_tokens and request.num_output_tokens >= request.params.min_tokens:
            return FinishReason.STOP
        if len(tokens) < request.max_num_tokens:
            return None
        return FinishReason.CAPACITY if request.outgrows_pool else FinishReason.LENGTH

    def cancel(self, plan: StepPlan) -> None:
        """The plan did not run. What it published is withdrawn; whoever it admitted, preempted or gave a copy
        is recomputed; all other requests go on as if it had not been made."""
        self._expect(plan)
        self._plan = None
        self.kv.cancel(plan)
        self._events.emit("cancel", returned=self._return_to_queue(plan))
    def _expect(self, plan: StepPlan) -> None:
        if plan is not self._plan:
            raise ValueError(f"the plan of step {plan.step} is not the one under way; each plan is committed or "
                             "cancelled once, before the next is made")

    def _between_steps(self, what: str) -> None:
        if self._plan is not None:
            raise ValueError(f"can't {what} while the plan of step {self._plan.step} is under way; commit or "
                             "cancel it first")
