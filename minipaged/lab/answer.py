"""A learner's answer as a server of calls: make, call, get (all labs).

`Trace` speaks to an answer through these three methods only, with plain data in both directions. In a notebook
the objects are at hand (`LocalAnswer`); in the grader they live in another process, behind the same methods.
"""
from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import NamedTuple, Protocol

from minipaged.lab.grader.alias import one_in_two_places
from minipaged.lab.plain import plain, without_nan


class Reply(NamedTuple):
    """What a call gave. `written`: the arguments that the caller named in `writes`, as they are after the call;
    `mutated`: the positions of other arguments that the call has changed, which it must not; `shared`: does the value
    hold one list or dict twice, or one of the arguments' own?"""

    value: object
    written: tuple = ()
    mutated: tuple[int, ...] = ()
    shared: bool = False


class AnswerError(Exception):
    """An exception of the learner's code that cannot be raised as it was, as when it comes through a pipe.

    `names`: the name of its class and of the classes above, nearest first; `line`: in the learner's cell.
    """

    def __init__(self, names: Sequence[str], message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.names, self.line = tuple(names), line


class Answer(Protocol):
    """`target` is a name of the exercise (a function) or what `make` returned (an object)."""

    def make(self, name: str, args: Sequence, kwargs: Mapping) -> object:
        """A new object of the learner's class `name`; the result is a handle, opaque to the caller."""

    def call(self, target: object, method: str | None, args: Sequence, kwargs: Mapping,
             writes: Sequence[int] = ()) -> Reply:
        """Call the function `target` (method None), or a method of the object `target`."""

    def get(self, target: object, attribute: str) -> object:
        """Read an attribute of an object."""


class LocalAnswer:
    """Objects of this process. `objects`: name -> class or function."""

    def __init__(self, objects: Mapping[str, object] | SimpleNamespace) -> None:
        self.objects = dict(vars(objects) if isinstance(objects, SimpleNamespace) else objects)

    def make(self, name: str, args: Sequence, kwargs: Mapping) -> object:
        return self.objects[name](*args, **kwargs)

    def call(self, target: object, method: str | None, args: Sequence, kwargs: Mapping,
             writes: Sequence[int] = ()) -> Reply:
        function = self.objects[target] if method is None else getattr(target, method)
        before = [None if index in writes else plain(arg) for index, arg in enumerate(args)]
        value = function(*args, **kwargs)
        if inspect.isgenerator(value):  # forgiven where a list is wanted; an endless one meets the time limit
            value = list(value)
        mutated = tuple(index for index, (old, arg) in enumerate(zip(before, args))
                        if index not in writes and not _unchanged(old, plain(arg)))
        return Reply(value, tuple(args[index] for index in writes), mutated, one_in_two_places(value, args))

    def get(self, target: object, attribute: str) -> object:
        return getattr(target, attribute)


def _unchanged(before: object, after: object) -> bool:
    return without_nan(before) == without_nan(after)


def from_source(source: str, namespace: Mapping[str, object] | None = None) -> SimpleNamespace:
    """Run a text and give what it defines as a namespace: answers that are kept as texts."""
    names = dict(namespace or {}, __name__="answer")
    exec(compile(source, "<answer>", "exec", dont_inherit=True), names)
    return SimpleNamespace(**{name: value for name, value in names.items() if not name.startswith("__")})


def change(source: str, *pairs: str) -> str:
    """A text with replacements: change(TEXT, old, new, old, new, ...). Each old one must be there exactly once."""
    for old, new in zip(pairs[::2], pairs[1::2], strict=True):
        if source.count(old) != 1:
            raise ValueError(f"{old!r} stands {source.count(old)} times in the text; it must be there once")
        source = source.replace(old, new)
    return source
