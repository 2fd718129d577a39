"""One claim that is worth measuring: what is said, by whom, and the function that finds out (chapter 15)."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

#: what a claim turned out to be
VERDICTS = {"no": "does not hold", "unit": "mixes units", "depends": "holds only sometimes"}


@dataclass(frozen=True)
class Erratum:
    """One claim. `values()` measures it; `truth` is filled with what comes out; `why` is the lesson, one sentence.

    `values()` may hold "claimed" and "found", two numbers in one unit, for a picture of all of them.
    """

    name: str
    claim: str
    source: str
    verdict: str
    truth: str
    why: str
    values: Callable[[], dict[str, float]]

    def measured(self) -> str:
        """The measured truth as a sentence."""
        return self.truth.format(**self.values())


ERRATA: list[Erratum] = []


def claims(claim: str, source: str, verdict: str, truth: str) -> Callable:
    """Add a measuring function to ERRATA; its docstring is the lesson. It runs once, whoever asks."""
    def add(measure: Callable[[], dict[str, float]]) -> Callable[[], dict[str, float]]:
        once = cache(measure)
        ERRATA.append(Erratum(measure.__name__, claim, source, verdict, truth, measure.__doc__, once))
        return once
    return add
