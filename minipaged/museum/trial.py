"""How good is a test? Let it look at every bug of the museum (the "write a test" labs).

A learner's test is a function of one argument. It gets the engine's classes, uses them, and asserts:

    def test_mine(lib):
        allocator = lib.BlockAllocator(8, 4)
        block = allocator.allocate()
        allocator.free(block)
        assert allocator.free_count == 8

It must pass with the right engine. Then each bug is switched on in turn; a test that now fails has killed it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from types import SimpleNamespace

from minipaged import core, errors
from minipaged.museum.bug import Piece
from minipaged.museum.limit import TooLong, time_limit
from minipaged.museum.oracle import ToyModel

SECONDS = 2.0


@dataclass(frozen=True)
class Kills:
    """The result: `trouble` is why the test counts for nothing (None: it does), `how` says of each piece how the
    test failed with it (None: it passed, the bug lives)."""

    trouble: str | None
    how: dict[str, str | None]

    @property
    def killed(self) -> list[str]:
        return [name for name, how in self.how.items() if how is not None]

    @property
    def survived(self) -> list[str]:
        return [name for name, how in self.how.items() if how is None]

    def __repr__(self) -> str:
        if self.trouble:
            return self.trouble
        width = max(map(len, self.how), default=0)
        rows = [f"  {name:<{width}}  {'killed' if how else 'lives '}  {how or ''}".rstrip()
                for name, how in self.how.items()]
        return "\n".join([f"Your test kills {len(self.killed)} of {len(self.how)} bugs.", *rows])


def library() -> SimpleNamespace:
    """What a test gets: all public names of minipaged.core and its errors, and ToyModel to run plans with."""
    names = {name: getattr(core, name) for name in core.__all__}
    kinds = {name: kind for name, kind in vars(errors).items() if isinstance(kind, type)}
    return SimpleNamespace(**names, **kinds, ToyModel=ToyModel)


def run_kills(test: Callable[[SimpleNamespace], object], pieces: Iterable[Piece], seconds: float = SECONDS) -> Kills:
    """Run a test with the right engine, then with each piece. What it prints is not shown."""
    if not callable(test):
        raise ValueError(f"a test is a function that takes `lib`; got {test!r:.60}")
    trouble = failure(test, None, seconds)
    if trouble:
        return Kills(f"Your test fails with the right engine: {trouble}. A test must pass where nothing is wrong.", {})
    return Kills(None, {piece.name: failure(test, piece, seconds) for piece in pieces})


def failure(test: Callable[[SimpleNamespace], object], piece: Piece | None, seconds: float) -> str | None:
    """How the test fails with a piece switched on (None: with the right engine), in one line; None if it passes."""
    try:
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(StringIO()))
            if piece is not None:
                stack.enter_context(piece.switched_on())
            stack.enter_context(time_limit(seconds))
            test(library())
    except TooLong:
        return f"it takes longer than {seconds:g} s"
    except (Exception, SystemExit) as error:
        first = next(iter(str(error).splitlines()), "")
        return f"{type(error).__name__}: {first}"[:110] if first else type(error).__name__
    return None
