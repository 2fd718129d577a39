"""Finding the smallest case in which an answer is wrong (all labs).

First the exercise's own examples, then random cases. hypothesis draws these and shrinks one that fails; a fixed
set from seeds is tried beside it. Everything is deterministic: the same answer fails in the same case.
"""
from __future__ import annotations

import contextlib
import copy
import io
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from minipaged.lab.answer import Answer
from minipaged.lab.exercise import Exercise
from minipaged.lab.limits import TimeUp, time_limit
from minipaged.lab.trace import HANGS, RETURNS, Outcome, Step, Trace

SMALL_ENOUGH = 3  # a failing example with no more calls than this is shown as it is
SHRINK_SECONDS = 1.0  # of the processor's time
MAX_PRINTED = 2_000


class Failure(NamedTuple):
    """A case that went wrong: the steps of a right answer, those of this one up to the first that differs, the
    exception of the last step if it was one, and what the code printed. `seen`: the steps of a run
    that was not stopped at the mistake, so that a film can show what follows from it (see `unstopped`)."""

    case: dict
    expected: list[Step]
    steps: list[Step]
    cause: BaseException | None
    printed: str
    seen: Sequence[Step] = ()

    @property
    def size(self) -> tuple[int, int]:
        return len(self.steps), sum(len(step.call) for step in self.steps)

    @property
    def hangs(self) -> bool:
        return bool(self.steps) and self.steps[-1].outcome.kind == HANGS

    @property
    def wanted(self) -> Outcome | None:
        """What the last step should have given; None when there are more steps than expected."""
        index = len(self.steps) - 1
        return self.expected[index].outcome if 0 <= index < len(self.expected) else None


def has_film(failure: Failure) -> bool:
    """Is there something that a film can show, and did the call come back, so that the run goes on?"""
    steps = [*failure.steps, *failure.seen, *failure.expected]
    return failure.steps[-1].outcome.kind == RETURNS and any(
        kind != "pool" for step in steps for kind, _ in step.events)


def unstopped(exercise: Exercise, answer: Answer, failure: Failure) -> Failure:
    """The failure with `seen`. A drive is made for right answers: where it can't go on with a wrong one, the steps
    of the failure are all there is."""
    trace = Trace(answer)
    try:
        with contextlib.redirect_stdout(_Capped()), time_limit(exercise.seconds):
            exercise.drive(trace, copy.deepcopy(failure.case))
    except (Exception, TimeUp):
        pass  # what it has until then is enough, or is not used
    same = [step.call for step in trace.steps[:len(failure.steps)]] == [step.call for step in failure.steps]
    return failure._replace(seen=trace.steps) if same else failure


class _Capped(io.StringIO):
    def write(self, text: str) -> int:
        if self.tell() < MAX_PRINTED:
            super().write(text[:MAX_PRINTED - self.tell()])
        return len(text)


class _Enough(BaseException):
    """Leaves hypothesis at once."""


def attempt(exercise: Exercise, answer: Answer, case: dict, seconds: float | None = None,
            expected: list[Step] | None = None) -> Failure | None:
    """Run one case; None when it is right. The learner's prints are kept, not shown."""
    expected = exercise.expected(case) if expected is None else expected
    printed = _Capped()
    try:
        with contextlib.redirect_stdout(printed), time_limit(seconds or exercise.seconds):
            trace = exercise.trace(answer, case, expected)
    except TimeUp:  # rang a second time on the way out
        hang = Step("(this case)", Outcome(HANGS))
        return Failure(case, expected, [hang], None, printed.getvalue())
    if exercise.is_right(expected, trace.steps):
        return None
    return Failure(case, expected, trace.steps, trace.cause, printed.getvalue())


def seeded_cases(exercise: Exercise, count: int) -> Iterator[dict]:
    """The same `count` random cases each time."""
    for number in range(count):
        yield exercise.case(random.Random(f"{exercise.id} {number}"))


def find_failure(exercise: Exercise, answer: Answer) -> Failure | None:
    """The smallest failing case that can be found soon, or None."""
    found: list[Failure] = []
    for case in exercise.examples:
        failure = attempt(exercise, answer, case)
        if failure is not None:
            found.append(failure)
            break
    if found and (found[0].hangs or len(found[0].steps) <= SMALL_ENOUGH):
        return found[0]
    found += _by_hypothesis(exercise, answer)
    if not found:
        for case in seeded_cases(exercise, exercise.trials):
            failure = attempt(exercise, answer, case)
            if failure is not None:
                found.append(failure)
                if failure.hangs:
                    break
    return min(reversed(found), key=lambda failure: failure.size, default=None)  # of equals the one shrunk last


def _by_hypothesis(exercise: Exercise, answer: Answer) -> Sequence[Failure]:
    """Failing cases, shrunk; none without hypothesis: the seeded cases remain."""
    try:
        _load_hypothesis()
    except ImportError:
        return ()
    from hypothesis import HealthCheck, Phase, Verbosity, given, settings
    from hypothesis.strategies import randoms

    found: list[Failure] = []
    started = 0.0

    @settings(max_examples=exercise.trials, derandomize=True, database=None, deadline=None, print_blob=False,
              phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
              verbosity=Verbosity.quiet, report_multiple_bugs=False)
    @given(randoms(use_true_random=False))
    def every_case_is_right(generator: random.Random) -> None:
        nonlocal started
        failure = attempt(exercise, answer, exercise.case(generator))
        if failure is not None:
            started = started or time.process_time()
            found.append(failure)
            if failure.hangs or time.process_time() - started > SHRINK_SECONDS:
                raise _Enough
            raise AssertionError

    try:
        every_case_is_right()
    except _Enough:
        pass
    except Exception:  # the failure itself, or hypothesis's complaint about an answer that changes its mind
        if not found:
            raise
    return found


def _load_hypothesis() -> None:
    """Import it for the first time in a way that leaves no folder .hypothesis beside the notebook."""
    if "hypothesis" not in sys.modules:
        from hypothesis.configuration import set_hypothesis_home_dir

        set_hypothesis_home_dir(tempfile.gettempdir())
