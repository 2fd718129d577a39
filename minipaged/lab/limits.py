"""A time limit for code that may never return (all labs).

In the main thread of Linux and macOS a timer signal interrupts even a sleep; elsewhere a second thread raises
the exception in this one, which reaches Python code only. No tracing: the learner's code runs at full speed.
"""
from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = 0.05  # seconds until it is tried again, against code that catches everything


class TimeUp(BaseException):
    """The time is over. No Exception, so that `except Exception` in a loop does not swallow it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeUp inside the block when it takes longer."""
    is_main = threading.current_thread() is threading.main_thread()
    with _by_signal(seconds) if is_main and hasattr(signal, "setitimer") else _by_thread(seconds):
        yield


@contextmanager
def _by_signal(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
        yield
    finally:
        _silence(lambda: signal.setitimer(signal.ITIMER_REAL, 0))
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _by_thread(seconds: float) -> Iterator[None]:
    target, done = threading.get_ident(), threading.Event()

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(TimeUp))
            wait = AGAIN

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        _silence(done.set)
        _silence(watcher.join)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), None)


def _silence(stop) -> None:
    """Stop the alarm, though it may ring once more while that is done."""
    while True:
        try:
            stop()
            return
        except TimeUp:
            continue
