"""Which known misconception behaves like this answer (all labs)."""
from __future__ import annotations

from minipaged.lab.answer import Answer, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.judge import agrees
from minipaged.lab.search import Failure, attempt, seeded_cases
from minipaged.lab.trace import HANGS, RAISES, Step

MORE_CASES = 16  # beside the examples and the failing case
ENOUGH = 0.75  # of the cases that fail in either must fail alike in both
SECONDS = 0.25  # for one case


def diagnose(exercise: Exercise, answer: Answer, failure: Failure) -> Misconception | None:
    """The misconception that makes the same first mistake in this case and in most other cases; None if there is
    none. An answer that hangs is compared in its failing case only."""
    cases = [failure.case]
    own: list[list[Step] | None] = [failure.steps]
    alike = [misconception for misconception in exercise.misconceptions
             if _same_mistake(_mistake(exercise, misconception, failure.case), failure.steps)]
    if not alike:
        return None
    if not failure.hangs:
        for case in [*exercise.examples, *seeded_cases(exercise, MORE_CASES)]:
            cases.append(case)
            own.append(_steps(attempt(exercise, answer, case, SECONDS)))
    return max((item for item in ((_likeness(exercise, one, cases, own), one) for one in alike) if item[0] >= ENOUGH),
               key=lambda item: item[0], default=(0.0, None))[1]


def _likeness(exercise: Exercise, misconception: Misconception, cases: list[dict],
              own: list[list[Step] | None]) -> float:
    failing = alike = 0
    for case, steps in zip(cases, own):
        other = _mistake(exercise, misconception, case)
        if steps is not None or other is not None:
            failing += 1
            alike += _same_mistake(other, steps)
    return alike / failing


def _mistake(exercise: Exercise, misconception: Misconception, case: dict) -> list[Step] | None:
    answer = exercise.answer(vars(from_source(misconception.source)))
    return _steps(attempt(exercise, answer, case, SECONDS))


def _steps(failure: Failure | None) -> list[Step] | None:
    return None if failure is None else failure.steps


def _same_mistake(a: list[Step] | None, b: list[Step] | None) -> bool:
    if a is None or b is None or len(a) != len(b):
        return False
    first, second = a[-1].outcome, b[-1].outcome
    if first.kind == RAISES == second.kind:
        return first.value[0] == second.value[0]
    return first.kind == second.kind == HANGS or first == second or agrees(first, second)
