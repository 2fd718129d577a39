"""The museum: real bugs of serving engines, each a few wrong lines that can be switched on (docs in README.md).

    from minipaged import museum
    museum.names()                          what there is
    museum.exhibit(17)                      what one sees, without saying why
    museum.piece("no-copy-on-write").film() the run with the bug beside the run without it
    museum.kills(my_test)                   which bugs a test of yours notices
"""
from __future__ import annotations

from minipaged.museum import (
    allocator,
    cache,
    copy_on_write,
    formulas,
    keys,
    lookup,
    preemption,
    scheduling,
    steps,
    swap,
    tables,
)
from minipaged.museum.piece import Piece

THEMES = {"allocator": allocator, "tables": tables, "copy_on_write": copy_on_write, "keys": keys, "cache": cache,
          "lookup": lookup, "scheduling": scheduling, "steps": steps, "preemption": preemption, "swap": swap,
          "formulas": formulas}
PIECES: tuple[Piece, ...] = tuple(piece for theme in THEMES.values() for piece in theme.PIECES)


def names() -> list[str]:
    """The names of all pieces, theme after theme."""
    return [piece.name for piece in PIECES]


def piece(name: str) -> Piece:
    """The piece of that name. Errors: ValueError that shows the nearest names."""
    for one in PIECES:
        if one.name == name:
            return one
    from difflib import get_close_matches

    close = get_close_matches(str(name), names(), n=3, cutoff=0.4)
    raise ValueError(f"there is no piece {name!r}; {'the nearest are ' + ', '.join(close) if close else 'see names()'}")
