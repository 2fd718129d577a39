"""A time limit for code that may never end, without processes, signals or tracing, on every system."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

AGAIN = 0.1  # seconds until it is tried again, against code that catches everything


class TooLong(BaseException):
    """The time is over. Not an Exception, so that an `except Exception` inside the code does not keep it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in this thread when the block takes longer, again and again until the block has ended.

    It interrupts Python code, not a call into C such as a long sleep.
    """
    thread, over = threading.get_ident(), threading.Event()
    lock = threading.Lock()

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            with lock:
                if not over.is_set():
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooLong))
            wait = AGAIN

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        with lock:
            over.set()
