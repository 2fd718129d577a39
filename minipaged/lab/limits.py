"""A time limit for code that may never return (all labs).

What counts is the processor's time, so that a busy machine does not make right answers look slow; sleeping and
waiting may take PATIENCE times as long. In the main thread of Linux and macOS timer signals interrupt even a sleep;
elsewhere a second thread raises the exception in this one, which reaches Python code only. No tracing: the
learner's code runs at full speed.
"""
from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE = 4
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

    timers = ((signal.SIGPROF, signal.ITIMER_PROF, seconds), (signal.SIGALRM, signal.ITIMER_REAL, PATIENCE * seconds))
    before = [signal.signal(number, ring) for number, _, _ in timers]
    try:
        for _, timer, limit in timers:
            signal.setitimer(timer, limit, AGAIN)
        yield
    finally:
        for _, timer, _ in timers:
            _silence(lambda timer=timer: signal.setitimer(timer, 0))
        for (number, _, _), handler in zip(timers, before):
            signal.signal(number, handler)


@contextmanager
def _by_thread(seconds: float) -> Iterator[None]:
    target, done = threading.get_ident(), threading.Event()

    def watch() -> None:
        start, begin = time.perf_counter(), time.process_time()
        while not done.wait(AGAIN):
            if time.process_time() - begin < seconds and time.perf_counter() - start < PATIENCE * seconds:
                continue
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(target), ctypes.py_object(TimeUp))

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
