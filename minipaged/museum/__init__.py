"""The museum: real bugs of serving engines, each a few wrong lines that can be switched on (docs in README.md).

    from minipaged import museum
    museum.names()                          what there is
    museum.exhibit(7893)                    what one sees, without saying why
    museum.piece("no-copy-on-write").film() the run with the bug beside the run without it
    museum.mend("no-copy-on-write", mine)   is this a repair?
    museum.kills(my_test)                   which bugs a test of yours notices
"""
from __future__ import annotations

from minipaged.museum import (
    allocator,
    attention,
    cache,
    copy_on_write,
    formulas,
    keys,
    lookup,
    preemption,
    sampling,
    scheduling,
    steps,
    swap,
    tables,
)
from minipaged.museum.bug import Change, Piece, change
from minipaged.museum.repair import Mended, signature, try_repair
from minipaged.museum.showing import Exhibit, code
from minipaged.museum.stage import JUDGES, Fault, Run, Stage, scene
from minipaged.museum.trial import Kills, run_kills

__all__ = ["JUDGES", "PIECES", "THEMES", "Change", "Exhibit", "Fault", "Kills", "Mended", "Piece", "Run", "Stage",
           "change", "code", "exhibit", "kills", "mend", "names", "piece", "scene", "signature"]

THEMES = {"allocator": allocator, "tables": tables, "copy_on_write": copy_on_write, "keys": keys, "cache": cache,
          "lookup": lookup, "scheduling": scheduling, "steps": steps, "preemption": preemption, "swap": swap,
          "formulas": formulas, "attention": attention, "sampling": sampling}
PIECES: tuple[Piece, ...] = tuple(piece for theme in THEMES.values() for piece in theme.PIECES)


def names(chapter: str | None = None) -> list[str]:
    """The names of all pieces, theme after theme; of one chapter, as "05_copy_on_write" or "05"."""
    return [piece.name for piece in PIECES if chapter is None or piece.chapter.startswith(chapter)]


def piece(name: str) -> Piece:
    """The piece of that name. Errors: ValueError that shows the nearest names."""
    for one in PIECES:
        if one.name == name:
            return one
    from difflib import get_close_matches

    close = get_close_matches(str(name), names(), n=3, cutoff=0.4)
    others = "the nearest are " + ", ".join(close) if close else "`minipaged museum` and museum.names() list them"
    raise ValueError(f"there is no piece {name!r}; {others}")


def exhibit(which: int | str) -> Exhibit:
    """A piece as a visitor sees it, by the number on its door (`code`) or by name; in a notebook, with its film.

    Errors: ValueError for a number or a name that there is not.
    """
    if not isinstance(which, int):
        return Exhibit(piece(which), PIECES)
    for one in PIECES:
        if code(one) == which:
            return Exhibit(one, PIECES)
    raise ValueError(f"there is no exhibit {which}; numbers are those of museum.code(museum.piece(name))")


def kills(test, pieces: list[str] | None = None, seconds: float = 2.0) -> Kills:
    """Which bugs a test notices. `test(lib)` gets the classes of minipaged.core; `pieces` are names (default: all
    bugs of core); a test that takes longer than `seconds` with a bug has noticed it.

    Errors: ValueError for a test that is no function or a name that there is not.
    """
    chosen = [piece(name) for name in pieces] if pieces is not None else [
        one for one in PIECES if one.test.startswith("tests/core/")]
    return run_kills(test, chosen, seconds)


def mend(name: str, *functions) -> Mended:
    """Put your own functions in the place of a piece's wrong ones (`signature` says which) and play its scene.

    Errors: ValueError for a name that there is not or another number of functions.
    """
    return try_repair(piece(name), functions)
