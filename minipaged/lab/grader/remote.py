"""The grader's end of the pipe: a learner's answer as an object with make, call and get.

`RemoteAnswer` is an `Answer` (minipaged.lab.answer), so an exercise's drive runs here, beside the expected values, and
only calls and plain values go to the learner's process. Whatever that process does, all it can achieve is to send
values, and those are judged like any other answer.
"""
from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from minipaged.lab.answer import AnswerError, Reply
from minipaged.lab.grader import protocol
from minipaged.lab.limits import TimeUp
from minipaged.lab.plain import Odd

START_SECONDS = 60.0  # torch may come from a cold disk


class Broken(BaseException):
    """The learner's process is gone or speaks nonsense; the message says it in words for the learner.

    No Exception: a drive, or a trace that notes exceptions as outcomes, must not take it for the learner's.
    """


class Line(Protocol):
    """The way to a learner's process and back: see keeper.py for the two there are."""

    def send(self, data: bytes, seconds: float) -> None: ...

    def receive(self, seconds: float) -> bytes: ...

    def unasked(self) -> bool: ...

    def close(self) -> str: ...


class RemoteAnswer:
    """The answer in a learner's process, as minipaged.lab.answer.Answer. A context manager.

    `layers`: what holds that process; `printed`: what it printed, known when it is closed. A call that takes longer
    than `call_seconds`, or goes beyond `deadline` (of time.monotonic), raises TimeUp, and so does each one after it.
    Errors: Broken.
    """

    def __init__(self, line: Line, again: Callable[[], RemoteAnswer]) -> None:
        self._line, self._again, self._dead, self.printed = line, again, None, ""
        self._number = secrets.randbits(48)  # a reply carries the number of its request; the first can't be guessed
        self.call_seconds, self.deadline = START_SECONDS, float("inf")
        self.layers: list[str] = self._guarded(lambda: protocol.decode(line.receive(START_SECONDS)))

    def load(self, modules: Mapping[str, str], cells: Sequence[tuple[str, str, bool]]) -> list:
        """Run cells (label, source, must it run). Problems of cells that need not: [[names, text, line, label]].

        Errors: AnswerError for a cell that must run and does not.
        """
        problems = self._ask("load", dict(modules), [list(cell) for cell in cells])[0]
        if type(problems) is not list:
            raise Broken("the answer's process sent something that is no reply")
        return problems

    def fresh(self) -> RemoteAnswer:
        """Another process without the learner's cells, under the same time limits: where a text that the answer gave is
        compiled and run by code that the answer can't have touched."""
        other = self._again()
        other.call_seconds, other.deadline = self.call_seconds, self.deadline
        return other

    def missing(self, names: Sequence[str]) -> list[str]:
        """Those of these names that the cells did not define."""
        found = self._ask("has", list(names))[0]
        return [name for name in names if not isinstance(found, list) or name in found]

    def make(self, name: str, args: Sequence, kwargs: Mapping) -> object:
        return self._ask("make", name, list(args), dict(kwargs))[0]

    def call(self, target: object, method: str | None, args: Sequence, kwargs: Mapping,
             writes: Sequence[int] = ()) -> Reply:
        value, written, changed, shared = self._ask("call", target, method, list(args), dict(kwargs), list(writes),
                                                    parts=4)
        if type(written) is not list or len(written) != len(writes) or type(changed) is not list:
            raise Broken("the answer's process sent something that is no reply")
        return Reply(value, tuple(written), tuple(at for at in changed if type(at) is int), shared is True)

    def get(self, target: object, attribute: str) -> object:
        return self._ask("get", target, attribute)[0]

    def _ask(self, *request: object, parts: int = 1) -> tuple:
        """Send one request, and take the one reply to it."""
        if self._dead is not None:
            raise self._dead
        self._number += 1
        data = protocol.frame(protocol.encode((self._number, *request)))
        reply = self._guarded(lambda: self._exchange(data))
        if type(reply) is not tuple or len(reply) < 2 or type(reply[0]) is not int or reply[0] != self._number:
            self._dead = Broken("the answer's process sent a reply that nobody had asked for")
            raise self._dead
        _, kind, *values = reply
        if kind == "value" and len(values) == parts:
            return tuple(values)
        if kind == "raises" and len(values) == 4:
            raise _as_error(*values)
        if kind == "refused" and len(values) == 1 and type(values[0]) is str:
            return (Odd(f"that cannot be handed over ({values[0][:200]})"), [], [], False)[:parts]
        self._dead = Broken("the answer's process sent something that is no reply")
        raise self._dead

    def _exchange(self, data: bytes) -> object:
        if self._line.unasked():
            raise protocol.ProtocolError("it spoke before it was asked")
        end = min(time.monotonic() + self.call_seconds, self.deadline)
        self._line.send(data, max(end - time.monotonic(), 0.001))
        return protocol.decode(self._line.receive(max(end - time.monotonic(), 0.001)), Odd)

    def _guarded(self, work):
        try:
            return work()
        except TimeoutError:
            self._dead = TimeUp()
        except (EOFError, OSError):
            self._dead = Broken("the process of your code ended in the middle: it was stopped for using too much "
                                "memory or time, or it ended itself")
        except protocol.ProtocolError as error:
            self._dead = Broken(f"the answer's process sent something that is no reply: {error}")
        raise self._dead

    def close(self) -> None:
        if self._line is not None:
            try:
                self.printed = self._line.close()
            except OSError:
                self.printed = ""
            self._line = None

    def __enter__(self) -> RemoteAnswer:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _as_error(names: object, message: object, line: object, cell: object) -> AnswerError:
    plain = type(names) is list and names and all(type(name) is str for name in names)
    error = AnswerError(names if plain else ("Exception",), message if type(message) is str else "",
                        line if type(line) is int and line else None)
    error.cell = cell if type(cell) is str else ""
    return error
