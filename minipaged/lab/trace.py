"""The trace of a case: each call of the learner's code and what came of it (all labs).

An exercise's `drive` gets a Trace and makes all its calls through it:

    pool = trace.new("pool", "BlockAllocator", 3)      # 1. pool = BlockAllocator(3)
    block = pool.call("allocate", event=taken)         # 2. pool.allocate(); taken(block) is an event for the film
    pool.get("free_count")                             # 3. pool.free_count
    trace.call("slot", [5, 2], 7)                      # 4. slot([5, 2], 7)

An exception becomes an outcome. With `expected` at hand the trace ends at the first step that differs, so that
the answers a drive goes on with are always right ones.
"""
from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import NamedTuple

from minipaged.lab.answer import Answer, AnswerError
from minipaged.lab.limits import TimeUp
from minipaged.lab.plain import plain, show

View = Callable[[object], object]
EventOf = Callable[[object], tuple[str, dict] | None]
ARGUMENT_WIDTH = 240  # of one argument in the text of a call
RETURNS, RAISES, HANGS, MUTATES, SHARES = "returns", "raises", "hangs", "mutates", "shares"


class Outcome(NamedTuple):
    """What came of a call. RETURNS: `value` is plain data. RAISES: `value` is the names of the exception's class
    and of those above, `message` its first line, `line` where in the cell. HANGS: it took too long. MUTATES: it
    changed the argument with number `value`, which belongs to the caller. SHARES: where lists of their own are asked
    for, `value` holds one list in two places, or one of the arguments' own."""

    kind: str
    value: object = None
    message: str = ""
    line: int | None = None


class Step(NamedTuple):
    """One call as text, its outcome, and the events (kind, data) that a film shows for it."""

    call: str
    outcome: Outcome
    events: tuple[tuple[str, dict], ...] = ()


class TraceEnds(Exception):
    """Nothing that follows could say more. Ends a drive; `Exercise.run` catches it."""


class Thing:
    """An object of the learner's class, inside a trace."""

    def __init__(self, trace: Trace, name: str, handle: object) -> None:
        self._trace, self._name, self._handle = trace, name, handle

    def call(self, method: str, *args: object, writes: Sequence[int] = (), text: str | None = None,
             view: View | None = None, event: EventOf | None = None, own: bool = False, **kwargs: object) -> object:
        """Call a method. See Trace.call."""
        return self._trace._call(self._handle, method, f"{self._name}.{method}", args, kwargs, writes, text, view,
                                 event, own)

    def get(self, attribute: str, view: View | None = None) -> object:
        """Read an attribute or a property."""
        trace = self._trace
        return trace._record(f"{self._name}.{attribute}",
                             lambda: Outcome(RETURNS, plain(trace.answer.get(self._handle, attribute))), view)


class Trace:
    """Makes the calls of one case and keeps the steps."""

    def __init__(self, answer: Answer, expected: Sequence[Step] | None = None,
                 agrees: Callable[[Outcome, Outcome], bool] | None = None) -> None:
        self.answer = answer
        self.steps: list[Step] = []
        self.cause: BaseException | None = None  # the learner's exception in the last step, if it raised
        self._expected, self._agrees = expected, agrees
        self._early: list[tuple[str, dict]] = []  # events before the first step

    def new(self, name: str, class_name: str, *args: object, text: str | None = None, **kwargs: object) -> Thing:
        """Make an object of the learner's class; `name` is how the calls are written: `pool = Pool(3)`."""
        made: list[object] = []

        def make() -> Outcome:
            made.append(self.answer.make(class_name, args, kwargs))
            return Outcome(RETURNS)

        self._record(text or f"{name} = {class_name}({_arguments(args, kwargs)})", make)
        if not made:
            raise TraceEnds
        return Thing(self, name, made[0])

    def call(self, function: str, *args: object, writes: Sequence[int] = (), text: str | None = None,
             view: View | None = None, event: EventOf | None = None, own: bool = False, **kwargs: object) -> object:
        """Call a function; gives what it returned as plain data, or None when it raised.

        `writes`: positions of arguments that the function shall change; the outcome is then the list of these as
        they are after the call. Changing any other argument is a mistake. `text` replaces the call's text.
        `view`: where several answers are right, what to compare in place of the value: a function of it that gives
        plain data, or words as `Said("a free block")`. `event`: a function of the value that gives what a film shows
        for this call, `("allocate", {...})` with the data of minipaged.core.events.KINDS, or None. `own`: every list
        and dict of the value must be an object of its own, since somebody will change it later.
        """
        return self._call(function, None, function, args, kwargs, writes, text, view, event, own)

    def result(self, text: str, value: object) -> None:
        """Something that follows from the calls, such as a waiting time: compared like an answer."""
        self._record(text, lambda: Outcome(RETURNS, plain(value)))

    def event(self, kind: str, **data: object) -> None:
        """One more event for the last step, or for the first where there is none yet. Not for what a call gives: a
        trace that ends there has no more events."""
        if not self.steps:
            self._early.append((kind, data))
            return
        last = self.steps[-1]
        self.steps[-1] = last._replace(events=(*last.events, (kind, data)))

    @property
    def raised(self) -> bool:
        """Did the last call raise?"""
        return self.steps[-1].outcome.kind == RAISES

    def _call(self, target: object, method: str | None, name: str, args: tuple, kwargs: dict,
              writes: Sequence[int], text: str | None, view: View | None,
              event: EventOf | None, own: bool) -> object:
        text = text or f"{name}({_arguments(args, kwargs)})"

        def call() -> Outcome:
            reply = self.answer.call(target, method, args, kwargs, writes)
            if reply.mutated:
                return Outcome(MUTATES, reply.mutated[0])
            kind = SHARES if own and reply.shared else RETURNS
            return Outcome(kind, plain(list(reply.written) if writes else reply.value))

        return self._record(text, call, view, event)

    def _record(self, text: str, action: Callable[[], Outcome], view: View | None = None,
                event: EventOf | None = None) -> object:
        self.cause, value = None, None
        try:
            outcome = action()
            value = outcome.value
        except TimeUp:
            outcome = Outcome(HANGS)
        except AnswerError as error:
            outcome = Outcome(RAISES, error.names, _first_line(error), error.line)
        except (Exception, SystemExit) as error:
            self.cause = error
            names = tuple(kind.__name__ for kind in type(error).__mro__ if kind not in (BaseException, object))
            outcome = Outcome(RAISES, names, _first_line(error), line_of(error))
        shown = _try(event, value) if outcome.kind == RETURNS else None
        if view is not None and outcome.kind == RETURNS:
            outcome = outcome._replace(value=_try(view, value) or value)
        self.steps.append(Step(text, outcome, (*self._early, *(() if shown is None else (shown,)))))
        self._early = []
        if outcome.kind in (HANGS, MUTATES):
            raise TraceEnds
        if self._expected is not None:
            index = len(self.steps) - 1
            if index >= len(self._expected) or not self._agrees(self._expected[index].outcome, outcome):
                raise TraceEnds
        return value if outcome.kind == RETURNS else None


def _try(function: Callable[[object], object] | None, value: object) -> object:
    """What a drive makes of a value; None where the value is not of the kind that it was written for."""
    try:
        return None if function is None else function(value)
    except Exception:
        return None


def _arguments(args: Sequence, kwargs: dict) -> str:
    return ", ".join([*(show(plain(arg), ARGUMENT_WIDTH) for arg in args),
                      *(f"{name}={show(plain(value), ARGUMENT_WIDTH)}" for name, value in kwargs.items())])


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else ""


def line_of(error: BaseException) -> int | None:
    """The line in the learner's own code, which is what a module of this package called last; None elsewhere."""
    file = found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        name, frame_file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if name.startswith("minipaged.lab."):
            file = found = None
        elif file is None and not name.startswith("minipaged."):
            file = frame_file
        if frame_file == file:
            found = line
    return found
