"""A time limit for code that may never end, without processes, signals or tracing, on every system."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class TooLong(BaseException):
    """The time is over. Not an Exception, so that an `except Exception` inside the code does not keep it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooLong in this thread when the block takes longer. It interrupts Python code, not a C call."""
    thread, over, lock = threading.get_ident(), False, threading.Lock()

    def stop() -> None:
        with lock:
            if not over:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TooLong))

    timer = threading.Timer(seconds, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        with lock:
            over = True
        timer.cancel()
