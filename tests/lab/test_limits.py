"""The time limit ends loops, sleeps and code that catches everything; in a thread it ends Python code."""
from __future__ import annotations

import signal
import threading
import time

import pytest

from minipaged.lab.limits import TimeUp, time_limit


def loop():
    while True:
        pass


def stubborn():
    while True:
        try:
            loop()
        except Exception:
            pass


@pytest.mark.parametrize("code", [loop, stubborn])
def test_a_loop_ends(code):
    with pytest.raises(TimeUp), time_limit(0.1):
        code()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here: a sleep is not interrupted")
def test_a_sleep_ends():
    start = time.perf_counter()
    with pytest.raises(TimeUp), time_limit(0.1):
        time.sleep(30)
    assert time.perf_counter() - start < 10


def test_what_comes_in_time_is_left_alone():
    before = signal.getsignal(signal.SIGINT)
    with time_limit(5):
        assert sum(range(1000)) == 499500
    assert signal.getsignal(signal.SIGINT) is before
    time.sleep(0.1)  # no late alarm


def test_it_works_in_a_thread():
    seen = []

    def run():
        try:
            with time_limit(0.1):
                loop()
        except TimeUp:
            seen.append("time up")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    assert seen == ["time up"]
