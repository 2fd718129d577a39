"""Repairing a bug: a visitor's function takes the place of the wrong one (the "fix it" labs).

    print(museum.piece("full-hit-computes-nothing").source)     # the wrong lines

    def match(self, request):                                   # the same call, without the wrong line
        return self.prefix_cache.match(request, request.num_tokens - 1, self.unwritten)

    museum.mend("full-hit-computes-nothing", match)
"""
from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from minipaged.museum.bug import Change, Piece
from minipaged.museum.crowd import crowd
from minipaged.museum.limit import TooLong, time_limit
from minipaged.museum.stage import Run

SECONDS = 5.0
CROWDS = 24  # random runs on the piece's stage, after its own scene


@dataclass(frozen=True)
class Mended:
    """Whether a repair is one; `trouble` says what still goes wrong."""

    trouble: str | None

    @property
    def is_right(self) -> bool:
        return self.trouble is None

    def __repr__(self) -> str:
        if self.trouble:
            return f"Not yet. {self.trouble}"
        return ("Mended: the run is the right one again, event by event, and no judge has anything to say, here or "
                "with random requests.")


def try_repair(piece: Piece, functions: tuple[Callable, ...]) -> Mended:
    """Play the piece's scene, then random requests, with the visitor's functions in place of the engine's own.

    They get what the engine's own methods get (not the right one, as wrong lines do). Errors: ValueError for
    another number of functions.
    """
    if len(functions) != len(piece.patch) or not all(map(callable, functions)):
        wanted = ", ".join(f"one for {change.name}" for change in piece.patch)
        raise ValueError(f"{piece.name} has {len(piece.patch)} wrong function(s); give {wanted}")
    right = piece.right()
    try:
        with ExitStack() as stack:
            for change, function in zip(piece.patch, functions):
                stack.enter_context(Change(change.owner, change.name, _alone(function)).applied())
            stack.enter_context(time_limit(SECONDS))
            got = piece.run()
            trouble = _trouble(right, got) or _trouble_in_a_crowd(piece)
    except TooLong:
        return Mended(f"The run does not end within {SECONDS:g} s.")
    except Exception as error:  # a formula or a kernel: no stage that keeps it
        return Mended(f"The run ends in {type(error).__name__}: {error}")
    return Mended(trouble)


def _alone(function: Callable) -> Callable:
    def without_the_right_one(right: Callable, *args: object, **kwargs: object) -> object:
        return function(*args, **kwargs)

    return without_the_right_one


def _trouble(right: Run, got: Run) -> str | None:
    from minipaged.museum.showing import first_difference

    if got.faults:
        fault = got.faults[0]
        return f"{fault.judge.capitalize()}, in step {fault.step}: {fault.text}"
    differ = first_difference(right, got)
    if differ is not None:
        return f"No judge complains, but the run is another one. It should have: {differ[0]}; it has: {differ[1]}"
    return None


def _trouble_in_a_crowd(piece: Piece) -> str | None:
    """A repair must be one for all requests, and not for those of the scene alone."""
    stage = getattr(piece.run, "stage", None)  # a formula or a kernel has none
    for seed in range(0 if stage is None else CROWDS):
        more = {**stage, "num_blocks": stage["num_blocks"] * (1 + seed % 3)}
        for fault in crowd(seed, **more).faults:
            return (f"In this scene all is well. With other requests not, as {fault.judge} shows in step {fault.step}: "
                    f"{fault.text}")
    return None


def signature(piece: Piece) -> str:
    """What a repair must take: the names of the wrong functions and their arguments."""
    lines = []
    for change in piece.patch:
        names = list(inspect.signature(change.wrong).parameters.values())[1:]
        lines.append(f"def {change.name}({', '.join(map(str, names))})")
    return "\n".join(lines)
