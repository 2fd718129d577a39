"""One exercise of one submission: run its cells in a child, make the cases' calls, and say what came of it.

The verdict is made here, from values: right means that every step of every case agrees with the reference. The cases
are the exercise's own examples and some from a secret seed, HMAC(class key, exercise id): the same at each grading
with the same key, new with a new key, and never sent except as the arguments of one call after the other.
"""
from __future__ import annotations

import copy
import hashlib
import hmac
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import minipaged.errors
from minipaged.lab.answer import AnswerError
from minipaged.lab.diagnose import diagnose
from minipaged.lab.exercise import Exercise
from minipaged.lab.grader import sandbox
from minipaged.lab.grader.keeper import Keeper
from minipaged.lab.grader.remote import Broken, RemoteAnswer
from minipaged.lab.judge import words
from minipaged.lab.limits import TimeUp
from minipaged.lab.search import Failure
from minipaged.lab.trace import HANGS, RAISES, Outcome, Step

CASES = 40            # from the secret seed, beside the examples
PATIENCE = 3          # times the seconds that an exercise allows for a case: a busy machine is nobody's fault
BUDGET = 20.0         # seconds for all cases of an exercise and of computing, beside the patience for one
DIAGNOSIS_SECONDS = 3.0
MAX_CALLS = 14        # that a learner's page shows
MAX_PRINTED = 2_000   # characters of them, too
MAX_TEXT, MAX_NOTES = 2_500, 20  # characters of each text of a verdict, and its notes
MAX_EVENT = 2_000     # characters of an event of the film
#: what an answer may import from this package; the reference is not among it
MODULES = {
    "minipaged": "",
    "minipaged.errors": Path(minipaged.errors.__file__).read_text(encoding="utf-8"),
    "minipaged.lab": "def check(*things): pass\nhint = use = panel = check\n",
}


@dataclass
class Verdict:
    """`status`: right, wrong, hangs, stopped (its process was), missing, unfinished or incomplete. `message` and
    `calls` are for the learner and hold no expected value; `film` is [(event kind, data)] of the learner's own run."""

    exercise: str
    status: str
    points: float = 0.0
    max_points: float = 1.0
    message: str = ""
    misconception: str = ""
    calls: list[str] = field(default_factory=list)
    film: list = field(default_factory=list)
    printed: str = ""
    notes: list[str] = field(default_factory=list)
    isolation: dict = field(default_factory=dict)

    def as_dict(self) -> dict:
        return asdict(self)


def judge(exercise: Exercise, cells: Sequence[str] | None, shared: Sequence[str], notes: Sequence[str], key: bytes,
          keeper: Keeper) -> Verdict:
    """The verdict on the cells of one answer; None: there is none. Never raises for what an answer does."""
    verdict = Verdict(exercise.id, "missing", notes=list(notes), message="There is no answer to this exercise.")
    if cells is None:
        return verdict
    try:
        with keeper.answer(_budget(exercise)) as answer:
            verdict.isolation = sandbox.summary(answer.layers)
            _judge_answer(exercise, answer, cells, shared, key, verdict)
        verdict.printed = _printable(answer.printed[:MAX_PRINTED])
    except TimeUp:
        verdict.status, verdict.message = "hangs", "Its cells did not come to an end in time; is there an endless loop?"
    except Broken as error:
        verdict.status, verdict.message = "stopped", f"{str(error)[:1].upper()}{str(error)[1:]}."
    _shorten(verdict)
    return verdict


def _shorten(verdict: Verdict) -> None:
    """Whatever a learner's process sent: a result that can be written, of a size that can be read."""
    def short(text: str) -> str:
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT * 2 // 3]} ... {text[-MAX_TEXT // 4:]}"

    verdict.message = short(verdict.message)
    verdict.calls = list(map(short, verdict.calls))
    verdict.notes = list(map(short, verdict.notes[:MAX_NOTES]))


def _judge_answer(exercise: Exercise, answer: RemoteAnswer, cells: Sequence[str], shared: Sequence[str], key: bytes,
                  verdict: Verdict) -> None:
    answer.deadline = time.monotonic() + _budget(exercise)
    answer.call_seconds = PATIENCE * max(exercise.seconds, 1.0)
    texts = [*((f"<cell shared {number}>", text, False) for number, text in enumerate(shared, 1)),
             *((f"<cell answer {number}>", text, False) for number, text in enumerate(cells, 1))]
    problems = answer.load(MODULES, texts)
    verdict.notes += [note for problem in problems if (note := _note(problem))]
    if missing := answer.missing(exercise.names):
        verdict.message = " ".join([f"The answer does not define {' and '.join(missing)}.", *verdict.notes])
        return
    for case, expected in cases(exercise, key):
        try:
            trace = exercise.trace(answer, copy.deepcopy(case), expected)
        except Exception as error:  # the drive met values that it was not written for: they are no right answer
            verdict.status = "wrong"
            verdict.message = f"{exercise.rule} Your answer gave something else ({type(error).__name__})."
            return
        if not exercise.is_right(expected, trace.steps):
            _explain(exercise, answer, Failure(copy.deepcopy(case), expected, trace.steps, None, ""), verdict)
            return
    verdict.status, verdict.points, verdict.message = "right", verdict.max_points, "Right in every case."


def _budget(exercise: Exercise) -> float:
    return BUDGET + PATIENCE * exercise.seconds


def cases(exercise: Exercise, key: bytes) -> list[tuple[dict, list[Step]]]:
    """(case, steps of a right answer): the examples, then the secret ones. Made once a process."""
    if (exercise.id, key) not in _cases:
        _cases[exercise.id, key] = _make_cases(exercise, key)
    return _cases[exercise.id, key]


_cases: dict[tuple[str, bytes], list[tuple[dict, list[Step]]]] = {}


def _make_cases(exercise: Exercise, key: bytes) -> list[tuple[dict, list[Step]]]:
    seed = hmac.new(key, exercise.id.encode(), hashlib.sha256).digest()
    rng = random.Random(int.from_bytes(seed, "big"))
    every = [*exercise.examples, *(exercise.case(rng) for _ in range(min(CASES, exercise.trials)))]
    return [(copy.deepcopy(case), exercise.expected(copy.deepcopy(case))) for case in every]


def _explain(exercise: Exercise, answer: RemoteAnswer, failure: Failure, verdict: Verdict) -> None:
    """What the learner did, in which calls, and what is likely behind it; never what was expected."""
    got = failure.steps[-1].outcome if failure.steps else Outcome("returns")
    verdict.status = "hangs" if got.kind == HANGS else "wrong"
    verdict.calls = [_call_text(step) for step in failure.steps[-MAX_CALLS:]]
    verdict.film = _film(failure.steps)
    if got.kind == RAISES and got.value[0] == "NotImplementedError":
        verdict.status, verdict.message = "unfinished", "It still raises NotImplementedError: it is not written yet."
        return
    where = f" (line {got.line} of the cell)" if got.kind == RAISES and got.line else ""
    verdict.message = f"The rule: {exercise.rule} The last of these calls breaks it: your code {words(got)}{where}."
    if got.kind == HANGS:
        return
    answer.deadline = time.monotonic() + DIAGNOSIS_SECONDS
    try:
        found = diagnose(exercise, answer, failure)
    except (Broken, TimeUp, AnswerError):
        found = None  # without a diagnosis the verdict stands all the same
    if found is not None:
        verdict.misconception = found.id
        verdict.message += f" Likely: {found.message}"


def _film(steps: Sequence[Step]) -> list:
    """[kind, data] of the events, up to the first that is no small piece of JSON, such as NaN for a block."""
    found: list = []
    for kind, data in (event for step in steps for event in step.events):
        try:
            text = json.dumps(data, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            return found
        if len(text) > MAX_EVENT:
            return found
        found.append([kind, json.loads(text)])
    return found


def _call_text(step: Step) -> str:
    silent = step.outcome.kind == "returns" and step.outcome.value is None
    return step.call if silent else f"{step.call}  {words(step.outcome)}"


def _note(problem: object) -> str:
    """A sentence for a cell that raised while it was loaded; nothing for the imports that only notebooks need."""
    if not isinstance(problem, (list, tuple)) or [type(part) for part in problem] != [list, str, int, str]:
        return ""
    names, text, line, label = problem
    if label.startswith("<cell shared") or not names or type(names[0]) is not str:
        return ""
    hint = ""
    if "minipaged." in text and names[0] == "ModuleNotFoundError":
        hint = "; an answer stands alone, without the course's own engine"
    return f"the cell raised {names[0][:300]} in line {line}: {text[:300]}{hint}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
