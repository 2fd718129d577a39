"""Which known misconception behaves like this answer (all labs)."""
from __future__ import annotations

from typing import NamedTuple

from minipaged.lab.answer import Answer, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.judge import agrees
from minipaged.lab.plain import without_nan
from minipaged.lab.search import Failure, attempt, seeded_cases
from minipaged.lab.trace import HANGS, RAISES, Outcome, Step

MORE_CASES = 16  # beside the examples and the failing case
ENOUGH = 0.75  # of the cases that fail in either must fail alike in both
SECONDS = 0.25  # for one case


def diagnose(exercise: Exercise, answer: Answer, failure: Failure) -> Misconception | None:
    """The misconception that makes the same first mistake in this case and in most other cases; None if there is
    none. An answer that hangs is compared in its failing case only."""
    alike = [(one, _answer(exercise, one)) for one in exercise.misconceptions]
    alike = [(one, wrong) for one, wrong in alike
             if _same_mistake(_mistake(exercise, wrong, failure.case, failure.expected), failure.steps)]
    if not alike:
        return None
    rows = [] if failure.hangs else [_Row(case, expected := exercise.expected(case),
                                          _mistake(exercise, answer, case, expected))
                                     for case in [*exercise.examples,
                                                  *seeded_cases(exercise, min(MORE_CASES, exercise.trials))]]
    scores = [(_likeness(exercise, wrong, rows), one) for one, wrong in alike]
    return max((item for item in scores if item[0] >= ENOUGH), key=lambda item: item[0], default=(0.0, None))[1]


class _Row(NamedTuple):
    """A case and the steps of the learner's answer up to its mistake; None where it makes none."""

    case: dict
    expected: list[Step]
    steps: list[Step] | None


def _likeness(exercise: Exercise, wrong: Answer, rows: list[_Row]) -> float:
    failing = alike = 1  # the failing case itself
    for case, expected, steps in rows:
        other = _mistake(exercise, wrong, case, expected)
        if steps is not None or other is not None:
            failing += 1
            alike += _same_mistake(other, steps)
    return alike / failing


def _answer(exercise: Exercise, misconception: Misconception) -> Answer:
    return exercise.answer(vars(from_source(misconception.source)))


def _mistake(exercise: Exercise, answer: Answer, case: dict, expected: list[Step]) -> list[Step] | None:
    slow = {"g++", "triton"} & set(exercise.needs)  # a compiler has to run first
    failure = attempt(exercise, answer, case, exercise.seconds if slow else SECONDS, expected)
    return None if failure is None else failure.steps


def _same_mistake(a: list[Step] | None, b: list[Step] | None) -> bool:
    if a is None or b is None or len(a) != len(b):
        return False
    first, second = a[-1].outcome, b[-1].outcome
    if first.kind == RAISES == second.kind:
        return first.value[0] == second.value[0]
    return first.kind == second.kind == HANGS or first == second or agrees(_no_nan(first), _no_nan(second))


def _no_nan(outcome: Outcome) -> Outcome:
    """Two answers with NaN in the same places are the same mistake, though NaN equals nothing."""
    return outcome._replace(value=without_nan(outcome.value))
