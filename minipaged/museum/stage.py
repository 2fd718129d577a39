"""Small runs with judges: the stage on which the museum shows its pieces.

A scene is a function that adds requests to a `Stage` and makes steps. After each step the judges look: the
invariant checker, and the oracle in its parts. A right engine leaves them nothing to say.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import wraps
from typing import NamedTuple

from minipaged.core import (
    ContinuousBatchingScheduler,
    EventLog,
    InvariantError,
    KVCacheManager,
    Request,
    SamplingParams,
    StaticBatchingScheduler,
    StepPlan,
    check_invariants,
)
from minipaged.museum.oracle import ToyModel, alone
from minipaged.museum.service import Service

#: who may notice a bug -> what that judge does
JUDGES = {
    "invariants": "the invariant checker looks at memory and queues after each step",
    "contents": "the oracle compares every slot that is read with what a dense cache would hold",
    "tokens": "the oracle compares every request's tokens with those of the same request alone",
    "progress": "the oracle wants each step to compute something, and everybody to end",
    "errors": "the oracle wants a mistake answered by an error that changes nothing, and nothing else to fail",
    "service": "the oracle looks at each plan: nobody waits, computes again or gives way without need",
    "recount": "the oracle counts the same thing again in another way, on random input",
    "numbers": "the oracle compares a count with the one worked out by hand",
    "dense": "the oracle compares attention through pages with attention over one plain tensor",
}

MEMORY = ("enable_prefix_caching", "share_partial_blocks", "free_order", "num_cpu_blocks", "hash_fn")


class Fault(NamedTuple):
    """What a judge has to say."""

    judge: str
    step: int
    text: str


@dataclass
class Run:
    """What happened: the log, the output of each request, what the judges said, and numbers worth seeing."""

    events: EventLog | None = None
    tokens: dict[str, list[int]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)

    def fault(self, judge: str) -> Fault | None:
        return next((fault for fault in self.faults if fault.judge == judge), None)

    def note(self, what: str, got: object) -> None:
        """A number worth seeing, which no judge compares."""
        self.facts[what] = got

    def expect(self, what: str, got: object, right: object, judge: str = "numbers", step: int = -1) -> None:
        """Note a number, and say so when it is not the right one."""
        self.facts[what] = got
        if got != right and self.fault(judge) is None:
            self.faults.append(Fault(judge, step, f"{what}: {got}; right is {right}"))


class Stage:
    """An engine with blocks of 4 and a toy model. Options are those of the memory and of the scheduler."""

    def __init__(self, num_blocks: int, block_size: int = 4, *, static: bool = False, **options) -> None:
        self.run = Run(EventLog())
        self.is_static = static
        memory = {name: options.pop(name) for name in MEMORY if name in options}
        self.kv = KVCacheManager(num_blocks, block_size, events=self.run.events, **memory)
        kind = StaticBatchingScheduler if static else ContinuousBatchingScheduler
        self.scheduler = kind(self.kv, events=self.run.events, **options)
        self.model = ToyModel(self.scheduler, self.complain)
        rules = {name: options[name] for name in ("victim", "quantum") if name in options}
        self._service = None if static else Service(self.scheduler, self.model, self.complain, **rules)
        self.requests: dict[str, Request] = {}
        self._alone: dict[str, list[int]] = {}

    # ---- what a scene does ----

    def add(self, name: str, prompt: Iterable[int], max_tokens: int = 4, *, params: dict | None = None,
            **options) -> Request:
        """Put a request in the queue."""
        request = Request(name, list(prompt), SamplingParams(max_tokens=max_tokens, **(params or {})), **options)
        self.scheduler.add_request(request)
        return self._known(request)

    def fork(self, parent: str, child: str, seed: int = 1) -> Request:
        """The child goes on from its parent's tokens, with a seed of its own."""
        params = SamplingParams(max_tokens=self.requests[parent].params.max_tokens, seed=seed)
        request = self.scheduler.fork(parent, child, params)
        if self._service is not None:
            self._service.forked |= {parent, child}
        tokens = Request(child, request.token_ids, SamplingParams(
            max_tokens=params.max_tokens - request.num_output_tokens, seed=seed))
        return self._known(request, [*request.output_token_ids, *alone(tokens, self._capacity, self.model.weights)])

    def step(self, count: int = 1) -> list[StepPlan]:
        """Some steps, the judges after each; the plans."""
        return [self._step() for _ in range(count)]

    def finish(self, limit: int = 40) -> list[StepPlan]:
        """Steps until everybody has ended."""
        plans = []
        while self.scheduler.has_unfinished:
            if len(plans) == limit or (plans and not plans[-1].total_tokens):
                names = ", ".join(self.scheduler.requests)
                self.complain("progress", f"after {len(plans)} steps these have not ended: {names}")
                break
            plans.append(self._step())
        return plans

    def expect(self, what: str, got: object, right: object, judge: str = "numbers") -> None:
        """A number that is known by hand, or (judge "recount") from another way to count."""
        self.run.expect(what, got, right, judge, self.scheduler.step_index)

    def note(self, what: str, got: object) -> None:
        """As Run.note."""
        self.run.note(what, got)

    def must_raise(self, kind: type[Exception], what: str, call: Callable, *args: object) -> None:
        """A mistake that must be answered by an error."""
        try:
            call(*args)
        except kind as error:
            self.run.facts[what] = f"{type(error).__name__}: {error}"
        else:
            self.run.facts[what] = "no error"
            self.complain("errors", f"{what}: no {kind.__name__} came")
        self.check()

    def complain(self, judge: str, text: str) -> None:
        """Note what a judge says, the first time it says anything."""
        if self.run.fault(judge) is None:
            self.run.faults.append(Fault(judge, self.scheduler.step_index, text))

    def check(self) -> None:
        """Let the invariant checker look."""
        try:
            check_invariants(self.scheduler)
        except InvariantError as error:
            self.complain("invariants", str(error).splitlines()[1].removeprefix("- "))

    # ---- the judges ----

    def _step(self) -> StepPlan:
        had_work, plans = self.scheduler.has_unfinished, []
        said = {name: len(request.output_token_ids) for name, request in self.requests.items()}
        if self._service is not None:
            self._service.watch()

        def run(plan: StepPlan) -> dict[str, int]:
            plans.append(plan)
            if self._service is not None:
                self._service.judge(plan)
            return self.model.run(plan)

        self.scheduler.step(run)
        for item in plans[0].scheduled:
            if not item.token_ids:
                self.complain("progress", f"{item.request_id} is scheduled with no token to compute")
        self.check()
        for name, request in self.requests.items():
            output, right = request.output_token_ids, self._alone[name]
            if len(output) < said[name]:
                self.complain("tokens", f"{name} had said {said[name]} tokens and now has said {len(output)}")
            if output != right[:len(output)] or (request.is_finished and len(output) < len(right)
                                                 and request.finish_reason.value != "abort"):
                self.complain("tokens", f"{name} says {output}; alone it says {right}")
        if had_work and not plans[0].total_tokens:
            self.complain("progress", f"a step computes nothing; who waits: {', '.join(self.scheduler.requests)}")
        return plans[0]

    @property
    def _capacity(self) -> int:
        return self.kv.num_blocks * self.kv.block_size

    def _known(self, request: Request, output: list[int] | None = None) -> Request:
        self.requests[request.request_id] = request
        self._alone[request.request_id] = output or alone(request, self._capacity, self.model.weights,
                                                          tuple(self.scheduler.eos_token_ids))
        return request


def scene(num_blocks: int, block_size: int = 4, **options) -> Callable[[Callable[[Stage], None]], Callable[[], Run]]:
    """Make a run of a function that plays on a stage. An exception ends the run; it is a fault like others."""
    def decorate(script: Callable[[Stage], None]) -> Callable[[], Run]:
        @wraps(script)
        def play() -> Run:
            stage = Stage(num_blocks, block_size, **options)
            try:
                script(stage)
            except Exception as error:  # whatever the wrong lines lead to
                stage.complain("errors", f"{type(error).__name__}: {error}")
            stage.run.tokens = {name: request.output_token_ids for name, request in stage.requests.items()}
            return stage.run

        play.stage = {"num_blocks": num_blocks, "block_size": block_size, **options}
        return play

    return decorate
