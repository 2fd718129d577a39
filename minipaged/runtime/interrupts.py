"""Ctrl-C at a time that suits the engine (chapter 11).

Python raises KeyboardInterrupt between any two bytecodes, also when a block has left the free list and is in no
table yet. `uninterrupted` puts it off to the end of a section that must be done whole; `interruptible` is the
hole in such a section where it may come at once, such as the forward pass.
"""
from __future__ import annotations

import signal
import threading
from types import FrameType


class _Interrupts:
    """The SIGINT handler of the sections under way. Only the main thread gets signals, so one object does."""

    def __init__(self) -> None:
        self.depth = 0  # sections within sections
        self.is_open = False
        self.is_pending = False
        self.previous = signal.default_int_handler

    def handle(self, number: int, frame: FrameType | None) -> None:
        if not self.is_open:
            self.is_pending = True
            return
        self.is_open = False  # what cleans up after the exception must be done whole too
        self.previous(number, frame)
        self.is_open = True  # a handler that raised nothing

    def deliver(self) -> None:
        if self.is_pending:
            self.is_pending = False
            self.handle(signal.SIGINT, None)

    def enter(self) -> bool:
        """False where SIGINT has no Python handler: then there is nothing to put off."""
        if self.depth == 0:
            self.is_open = self.is_pending = False
            previous = signal.signal(signal.SIGINT, self.handle)
            if not callable(previous):
                signal.signal(signal.SIGINT, previous)
                return False
            self.previous = previous
        self.depth += 1
        return True

    def leave(self) -> None:
        self.depth -= 1
        if self.depth == 0:
            signal.signal(signal.SIGINT, self.previous)
            if self.is_pending:
                self.is_pending = False
                self.previous(signal.SIGINT, None)


_INTERRUPTS = _Interrupts()


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


class uninterrupted:  # noqa: N801 - used as a function
    """Context manager: SIGINT is put off until the end, then goes to the handler that was there before.

    Nothing happens in other threads, and where SIGINT has no Python handler. Sections may be nested.
    """

    __slots__ = ("_is_active", "_was_open")

    def __enter__(self) -> None:
        self._is_active, self._was_open = _in_main_thread(), False
        if self._is_active:
            if _INTERRUPTS.depth > 0 and _INTERRUPTS.is_open:
                self._was_open, _INTERRUPTS.is_open = True, False
            self._is_active = _INTERRUPTS.enter()

    def __exit__(self, *exception: object) -> None:
        if self._is_active:
            if self._was_open:
                _INTERRUPTS.depth -= 1
                _INTERRUPTS.is_open = True
                _INTERRUPTS.deliver()
            else:
                _INTERRUPTS.leave()


class interruptible:  # noqa: N801 - used as a function
    """Context manager inside `uninterrupted`: here SIGINT comes at once, also one that was put off before."""

    __slots__ = ("_is_active",)

    def __enter__(self) -> None:
        self._is_active = _in_main_thread() and _INTERRUPTS.depth > 0
        if self._is_active:
            _INTERRUPTS.is_open = True
            _INTERRUPTS.deliver()

    def __exit__(self, *exception: object) -> None:
        if self._is_active:
            _INTERRUPTS.is_open = False
