"""What a piece of the museum is: a real bug that can be switched on and off (chapters 03 to 13, "break it").

A bug is a few wrong lines that take the place of right ones while a `with` block lasts:

    @change(BlockAllocator, "free")
    def frees_in_silence(right, self, block):
        if self.ref_count[block]:
            right(self, block)

Everything else of the engine stays as it is, so what a run shows is what those lines do.
"""
from __future__ import annotations

import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from types import ModuleType

from minipaged.museum.stage import JUDGES, Run


class Change:
    """One right function and the wrong one that can take its place.

    owner: a class, a module or its name (then it is imported when the bug is switched on), or a table.
    """

    def __init__(self, owner: type | ModuleType | str | dict, name: str, wrong: Callable) -> None:
        self.owner, self.name, self.wrong = owner, name, wrong

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The wrong lines are in force until the block ends."""
        right, puts = self._places()
        wrong = self._replacement(right)
        try:
            for put in puts:
                put(self.name, wrong)
            yield
        finally:
            for put in puts:
                put(self.name, right)

    def _places(self) -> tuple[object, list[Callable[[str, object], None]]]:
        """What is right, and every place where it stands."""
        owner, name = self.owner, self.name
        if isinstance(owner, dict):
            return owner[name], [owner.__setitem__]
        if isinstance(owner, type):
            owner = next(kind for kind in owner.__mro__ if name in vars(kind))
            return vars(owner)[name], [partial(setattr, owner)]
        if isinstance(owner, str):  # a module that is imported only now
            owner = import_module(owner)
        right = getattr(owner, name)  # also wherever it was imported by name
        holders = [module for module in list(sys.modules.values())
                   if getattr(module, "__dict__", {}).get(name) is right]
        return right, [partial(setattr, module) for module in holders]

    def _replacement(self, right: Callable | property) -> Callable | property:
        if isinstance(right, property):
            return property(lambda owner: self.wrong(right.fget, owner))

        @wraps(right)
        def replacement(*args: object, **kwargs: object) -> object:
            return self.wrong(right, *args, **kwargs)

        return replacement


def change(owner: type | ModuleType | str | dict, name: str) -> Callable[[Callable], Change]:
    """Make a Change of the decorated function: it gets the right one first, then the call's own arguments."""
    return lambda wrong: Change(owner, name, wrong)


@dataclass(frozen=True)
class Piece:
    """A real bug.

    name: a stable id in words. title: what is wrong, in one line. reference: the public report, paper or section
    where it comes from. chapter: where the course meets it. symptom: what one sees. rule: what must hold.
    patch: the wrong lines. run: a small run that shows the symptom, right or wrong as the switch stands.
    caught_by: which judge of that run notices it first. test: the test that fails with it.
    """

    name: str
    title: str
    reference: str
    chapter: str
    symptom: str
    rule: str
    patch: tuple[Change, ...]
    run: Callable[[], Run]
    caught_by: str
    test: str
    is_wrong_fix: bool = False  # proposed in public as a repair, and itself a bug

    def __post_init__(self) -> None:
        if self.caught_by not in JUDGES:
            raise ValueError(f"piece {self.name}: caught_by is {self.caught_by!r}; there are {', '.join(JUDGES)}")

    @contextmanager
    def switched_on(self) -> Iterator[None]:
        """The bug is in the engine until the block ends, for everything that this process runs meanwhile."""
        with ExitStack() as stack:
            for one in self.patch:
                stack.enter_context(one.applied())
            yield

    def right(self) -> Run:
        return self.run()

    def wrong(self) -> Run:
        with self.switched_on():
            return self.run()

    def film(self):
        """The run with the bug beside the run without it. Errors: ValueError for a piece without events."""
        from minipaged.museum.showing import film_of

        return film_of(self.right(), self.wrong(), self.title)

    @property
    def source(self) -> str:
        """The wrong lines as text."""
        return "\n".join(textwrap.dedent(inspect.getsource(one.wrong)) for one in self.patch)
