"""The words of a check: what the rule is, what happened, and what may be behind it (all labs)."""
from __future__ import annotations

from minipaged.lab import exercises
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.judge import explain, words
from minipaged.lab.search import Failure
from minipaged.lab.trace import HANGS, MUTATES, RAISES, RETURNS

MAX_STEPS = 14  # of a long case the last ones are shown
MAX_WIDTH = 60  # longer calls are not lined up
PRAISE = ("Right.", "Well done.", "That is it.", "Correct, in every case we tried.")


def success(exercise: Exercise) -> str:
    """Short and warm, with what comes next. It names no other lab, so that a new one changes no notebook."""
    following = exercises.after(exercise.id)
    if following is not None and following.chapter == exercise.chapter:
        return f"{praise(exercise)} Next: {following.title} ({following.minutes} minutes)."
    return f"{praise(exercise)} That was the last one here; `minipaged learn` knows what comes next."


def praise(exercise: Exercise) -> str:
    """The first sentence after a right answer."""
    return f"✓ {exercise.title}: {PRAISE[sum(map(ord, exercise.id)) % len(PRAISE)]}"


def hint_call(exercise: Exercise) -> str:
    """How a notebook asks for a hint."""
    return f'`hint("{exercise.id}")`'


def not_ready(exercise: Exercise, sentence: str) -> str:
    """Something that stands before any test: a missing name, a wrong signature, code that is not written."""
    return f"✗ {exercise.title}: {sentence}"


def special(exercise: Exercise, failure: Failure) -> str | None:
    """A sentence for a mistake that has nothing to do with the rule of the exercise, or None."""
    step, wanted = failure.steps[-1], failure.wanted
    got = step.outcome
    where = f" (line {got.line} of its cell)" if got.line else ""
    if got.kind == RAISES and got.value[0] == "NotImplementedError":
        return f"Not written yet: `{step.call}` meets `raise NotImplementedError()`{where}. Put your code in its place."
    if got.kind == RAISES and got.value[0] == "NameError":
        return (f"`{step.call}` stops at a name that is not known{where}: {got.message}. Run the cell that defines "
                "it first, or look at the spelling.")
    if got.kind == HANGS:
        return (f"`{step.call}` did not come back within {exercise.seconds:g} s; is there a loop that never ends? "
                f"{_expected(wanted)}")
    if got.kind == MUTATES:
        return (f"`{step.call}` changes its argument number {got.value + 1}, which belongs to the caller; work on a "
                "copy of it.")
    if got.kind == RETURNS and got.value is None and wanted is not None and wanted.value is not None:
        if failure.printed.strip():
            shown = failure.printed.strip().splitlines()[-1][:60]
            return (f"`{step.call}` prints {shown!r} but returns None: a caller can't use what is only printed. End it "
                    "with `return`.")
        if wanted.kind == RETURNS:
            return f"`{step.call}` returns None. {_expected(wanted)} Is there a path without `return`?"
    return None


def _expected(wanted) -> str:
    return "" if wanted is None else f"Expected: it {words(wanted)}."


def failure_text(exercise: Exercise, failure: Failure, misconception: Misconception | None) -> str:
    """The whole report of a wrong answer."""
    lines = [f"✗ {exercise.title}: not yet right.", "", f"The rule: {exercise.rule}", "",
             "The smallest case we found that breaks it:", *_numbered(failure), ""]
    wanted, got = failure.wanted, failure.steps[-1].outcome
    if wanted is None:
        lines.append("Nothing more was expected after that.")
    else:
        sentence = explain(wanted, got)
        lines.append(f"Here {sentence}.")
        if got.kind == RAISES and got.line:
            lines.append(f"It was raised in line {got.line} of your cell.")
    if failure.printed.strip():
        lines += ["", "Your code printed meanwhile:", *(f"    {line}" for line in failure.printed.splitlines()[:8])]
    if misconception is not None:
        lines += ["", f"Likely: {_capital(misconception.message)}"]
    lines += ["", f"Stuck? {hint_call(exercise)} gives a question first, then a sketch."]
    return "\n".join(lines)


def _numbered(failure: Failure) -> list[str]:
    first = max(0, len(failure.steps) - MAX_STEPS)
    lines = [f"    ({first} calls before that went well)"] if first else []
    width = max((len(step.call) for step in failure.steps[first:] if len(step.call) <= MAX_WIDTH), default=0)
    for number, step in enumerate(failure.steps[first:], first + 1):
        is_last = number == len(failure.steps)
        quiet = step.outcome.kind == RETURNS and step.outcome.value is None and not is_last
        result = "" if quiet else f"  {words(step.outcome)}"
        lines.append(f"  {'>' if is_last else ' '} {number:>2}. {step.call:<{width if result else 0}}{result}")
    return lines


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
