"""`check`: is an answer right, and if not, why (all labs).

    check("blocks.allocator")                  # takes BlockAllocator from the notebook
    check("blocks.allocator", MyAllocator)     # or any object

The answer runs beside the reference on the same cases; the first difference, in the smallest case, is shown in
words and as two pictures. Nothing raises: a notebook goes on after a wrong answer. Only under nbgrader, which
scores a cell by its exception, a wrong answer raises AssertionError.
"""
from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from minipaged.lab import exercises, interface, progress, report
from minipaged.lab.diagnose import diagnose
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.search import Failure, find_failure, has_film, unstopped


@dataclass(frozen=True)
class CheckResult:
    """`passed` and `message` say it all. `failure` is the case that broke the rule, None where the answer could
    not be tried; `misconception` the known one that behaves like it. True when passed."""

    exercise_id: str
    passed: bool
    message: str
    failure: Failure | None = None
    misconception: Misconception | None = None

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        return f"CheckResult({self.exercise_id!r}, passed={self.passed})"

    def _ipython_display_(self) -> None:
        """Nothing: `check` has shown it already."""


def check(exercise_id: str, *objects: object) -> CheckResult:
    """Check an exercise, show the result and give it back.

    `objects`: the learner's functions or classes in the order of the exercise; those that are not given are
    taken from the caller's names.
    """
    try:
        exercise = exercises.find(exercise_id)
    except KeyError as error:
        print(f"✗ {error.args[0]}")
        return CheckResult(str(exercise_id), False, error.args[0])
    result = judge(exercise, gather(exercise, objects, sys._getframe(1).f_globals))
    print(result.message)
    if result.failure is not None and has_film(result.failure):
        from minipaged.lab.picture import show_failure

        show_failure(exercise, result.failure)
    progress.record_check(exercise.id, result.passed)
    if not result.passed and os.environ.get("NBGRADER_EXECUTION"):
        raise AssertionError(result.message)
    return result


def gather(exercise: Exercise, objects: tuple, namespace: Mapping[str, object]) -> dict[str, object]:
    """The learner's objects by the exercise's names."""
    named = {name: namespace[name] for name in exercise.names if name in namespace}
    return named | dict(zip(exercise.names, objects))


def judge(exercise: Exercise, objects: Mapping[str, object]) -> CheckResult:
    """Check without showing or recording anything."""
    missing = [need for need in exercise.needs if not _is_here(need)]
    if missing:
        return CheckResult(exercise.id, False, report.not_ready(exercise, _cannot_run(missing[0])))
    sentence = interface.problem(exercise, objects)
    if sentence is not None:
        return CheckResult(exercise.id, False, report.not_ready(exercise, sentence))
    answer = exercise.answer(objects)
    failure = find_failure(exercise, answer)
    if failure is None:
        return CheckResult(exercise.id, True, report.success(exercise))
    failure = unstopped(exercise, answer, failure)
    sentence = report.special(exercise, failure)
    misconception = diagnose(exercise, answer, failure)
    if sentence is not None:
        more = f"\nLikely: {misconception.message}" if misconception else ""
        return CheckResult(exercise.id, False, report.not_ready(exercise, sentence) + more, failure, misconception)
    return CheckResult(exercise.id, False, report.failure_text(exercise, failure, misconception), failure,
                       misconception)


def _is_here(need: str) -> bool:
    if need == "g++":
        from minipaged.doctor import find_compiler

        return find_compiler() is not None
    from importlib.util import find_spec

    return find_spec(need) is not None


def _cannot_run(need: str) -> str:
    what = "a C++ compiler" if need == "g++" else f"the module {need}"
    return f"this exercise needs {what}, which is not here; `minipaged doctor` says how to get it."
