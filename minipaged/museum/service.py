"""The judge of service: does anybody wait, compute or give way without need? (chapters 06 to 10)

With some bugs every token is right, and still seats stay empty, or the wrong request loses its memory. This judge
looks at each plan before it runs and asks what a plain reading of the rules says of it. It knows the requests and the
contents of memory, and nothing of how the engine chose.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator

from minipaged.core import Request, StepPlan
from minipaged.core.request import RequestStatus
from minipaged.museum.oracle import ToyModel, dense


class Service:
    """Looks before and after each plan of a continuous scheduler: `watch`, then `judge`."""

    def __init__(self, scheduler, model: ToyModel, complain: Callable[[str, str], None], *, victim: str = "newest",
                 quantum: int = 16) -> None:
        self._scheduler, self._kv, self._model, self._complain = scheduler, scheduler.kv, model, complain
        self._victim, self._quantum = victim, quantum
        self._policy = scheduler.scheduling_policy
        self._in_seat: dict[str, int] = {}  # request -> steps since it sat down
        self.forked: set[str] = set()  # these go before others, and come from nowhere in the line

    def watch(self) -> None:
        """Note how things stand before the plan is made."""
        scheduler = self._scheduler
        self._running, self._waiting = list(scheduler.running), list(scheduler.waiting)
        self._new = {one.request_id for one in self._waiting if one.status is RequestStatus.WAITING}
        self._free_seats = scheduler.max_num_seqs - len(scheduler.running)

    def judge(self, plan: StepPlan) -> None:
        """Say the first thing that is wrong with a plan that has not run yet."""
        checks = (self._nobody_is_passed_over, self._who_fits_is_seated, self._who_is_seated_fits,
                  self._the_line_is_kept, self._seats_go_round, self._the_right_one_gives_way,
                  self._what_memory_holds_is_found)
        for check in checks:
            for text in check(plan):
                self._complain("service", text)

    # ---- seats and tokens of the step ----

    def _nobody_is_passed_over(self, plan: StepPlan) -> Iterator[str]:
        """One token for each running request comes before the chunks of later ones."""
        tokens, chunks = plan.num_scheduled_tokens, self._scheduler.requests
        for one in self._running:
            late = [name for name, count in tokens.items() if count > 1 and chunks[name].arrival > one.arrival]
            if (one.num_tokens - one.num_computed_tokens == 1 and one.status is RequestStatus.RUNNING and late
                    and one.request_id not in tokens and one.request_id not in self.forked):
                yield (f"{one.request_id} needs one token and gets none; {late[0]}, which came later, computes "
                       f"{tokens[late[0]]}")

    def _who_fits_is_seated(self, plan: StepPlan) -> Iterator[str]:
        scheduler = self._scheduler
        left = scheduler.max_num_batched_tokens - plan.total_tokens
        if plan.preempted or not scheduler.waiting or left < 1:
            return
        first, free = scheduler.waiting[0], self._kv.free_count
        need = self._blocks(first)
        if first.status is RequestStatus.WAITING and len(scheduler.running) < scheduler.max_num_seqs and need <= free:
            yield (f"{first.request_id} waits, though a seat is free and it needs {need} of {free} free blocks; "
                   f"{left} more tokens could be computed")

    def _who_is_seated_fits(self, plan: StepPlan) -> Iterator[str]:
        """Only of the last one of a step is it known what was free when it came."""
        if plan.admitted and plan.admitted[-1].request_id in self._new:
            name = plan.admitted[-1].request_id
            request, free = self._scheduler.requests[name], self._kv.free_count
            more = self._blocks(request) - self._kv.table(name).num_blocks
            if more > free:
                yield f"{name} starts and will need {more} more blocks for the tokens it has; {free} are free"

    def _the_line_is_kept(self, plan: StepPlan) -> Iterator[str]:
        if self._policy == "round_robin":
            return
        for name in [admission.request_id for admission in plan.admitted if admission.request_id not in self.forked]:
            request = self._scheduler.requests[name]
            if self._policy == "fcfs" and self._victim != "newest" and request.num_preemptions:
                continue  # of several victims the one that lost its memory last comes back first
            for other in self._scheduler.waiting:
                if (self._rank(other) < self._rank(request) and other.request_id not in self.forked
                        and other.request_id not in plan.preempted):
                    yield f"{name} gets a seat before {other.request_id}, whose turn it is"

    def _seats_go_round(self, plan: StepPlan) -> Iterator[str]:
        admitted = {admission.request_id for admission in plan.admitted}
        seated = [one.request_id for one in self._scheduler.running]
        stayed = [name for name in seated if name not in admitted]
        self._in_seat = {name: self._in_seat.get(name, 0) + 1 if name in stayed else 1 for name in seated}
        if self._policy != "round_robin" or len(self._waiting) <= self._free_seats:
            return
        if all(one.request_id in stayed and not one.num_preemptions for one in self._running):
            for name in stayed:
                if self._in_seat[name] > self._quantum:
                    yield (f"{name} keeps its seat for step {self._in_seat[name]} of {self._quantum}, and "
                           f"{self._waiting[0].request_id} waits")

    # ---- memory ----

    def _the_right_one_gives_way(self, plan: StepPlan) -> Iterator[str]:
        if self._policy == "round_robin":
            return
        stay = [one for one in self._running if one.status is RequestStatus.RUNNING and one.request_id in
                self._scheduler.requests]
        for victim in [one for one in self._running if one.request_id in plan.preempted]:
            for other in stay:
                if self._gives_way_before(other, victim) and not {other.request_id, victim.request_id} & self.forked:
                    yield f"{victim.request_id} loses its memory while {other.request_id} keeps its own"

    def _gives_way_before(self, one: Request, other: Request) -> bool:
        """Should `one` lose its memory rather than `other`?"""
        if self._policy == "priority":
            return one.priority > other.priority
        if self._victim == "most_generated":
            return one.num_output_tokens > other.num_output_tokens
        return one.arrival > other.arrival

    def _what_memory_holds_is_found(self, plan: StepPlan) -> Iterator[str]:
        """A block of the right contents that nobody else takes in this plan was there to be found."""
        for admission in plan.admitted if self._kv.enable_prefix_caching else ():
            request = self._scheduler.requests[admission.request_id]
            if admission.request_id in self._new and not request.skip_reading_prefix_cache:
                there = self._num_held(request, plan)
                if admission.cached_tokens < there:
                    yield (f"{request.request_id} computes from its position {admission.cached_tokens} on, though "
                           f"memory holds its first {there} tokens")

    def _num_held(self, request: Request, plan: StepPlan) -> int:
        """Of how many tokens at the start of a request full blocks are in memory; one is always left to compute."""
        size = self._kv.block_size
        taken = {block for _, block in [*plan.copies, *plan.swap_ins]} | {
            slot // size for item in plan.scheduled if item.request_id != request.request_id
            for slot in item.slots(size)}
        held = {tuple(states) for block, states in enumerate(self._model.contents()) if block not in taken}
        full = (request.num_tokens - 1) // size * size
        states = dense(request.token_ids[:full], request.cache_salt, self._model.weights)
        return next((start for start in range(0, full, size) if tuple(states[start:start + size]) not in held), full)

    def _blocks(self, request: Request) -> int:
        return -(-request.num_tokens // self._kv.block_size)

    def _rank(self, request: Request) -> tuple[int, int]:
        return request.priority if self._policy == "priority" else 0, request.arrival
