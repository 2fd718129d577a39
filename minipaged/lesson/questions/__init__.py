"""The questions of the chapters, a module each, kept out of the notebooks: there a reader would see the answers.

    PREDICTIONS = {"waste-longest": Prediction("Of 100 slots ...?", choices={90: "Most requests ...", 27: ""})}
    QUIZ = [Question("Which ...?", right=("choice", "why"), wrong={"choice": "why not", ...}), ...]

`{name}` or `{name:.1%}` in a text is filled in by the chapter, which has measured it: `quiz("02_waste", name=...)`.
"""
from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

Answer = float | str


class Prediction(NamedTuple):
    """What a reader is asked before a measurement: one of `choices`, or a free number in the unit `number`.

    choices: each answer with what it overlooks, "" for the right one and where nothing is to be said. The right
    one is not declared: it is the one nearest to what is measured.
    """

    question: str
    choices: dict[Answer, str] | None = None
    number: str | None = None


class Question(NamedTuple):
    """A question, its right choice with the reason, and the wrong ones with theirs."""

    text: str
    right: tuple[str, str]
    wrong: dict[str, str]


def chapters() -> list[str]:
    """Chapters that have questions, in order."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[0-9][0-9]_*.py"))


def of(chapter: str) -> ModuleType:
    """The module of a chapter, with PREDICTIONS and QUIZ. Errors: ValueError names the chapters there are."""
    if chapter not in chapters():
        raise ValueError(f"chapter {chapter!r} has no questions; there are: {', '.join(chapters())}")
    return import_module(f"{__name__}.{chapter}")


@cache
def predictions() -> dict[str, Prediction]:
    """All predictions of the course by id. Errors: ValueError for an id that two chapters use."""
    found: dict[str, Prediction] = {}
    for chapter in chapters():
        for name, prediction in of(chapter).PREDICTIONS.items():
            if name in found:
                raise ValueError(f"prediction {name!r} of {chapter} is another chapter's too; choose another id")
            found[name] = prediction
    return found


def filled(text: str, numbers: dict[str, object]) -> str:
    """The text with its numbers. Errors: ValueError names one that was not given."""
    try:
        return text.format(**numbers)
    except (KeyError, IndexError) as missing:
        raise ValueError(f"{text!r} needs the number {missing}; pass it as a keyword") from None
