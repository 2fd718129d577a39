"""Ctrl-C at any time leaves the engine whole."""
from __future__ import annotations

import random
import signal
import threading
import time

import pytest

from minipaged import LLM, SamplingParams
from minipaged.core import check_invariants
from minipaged.runtime.interrupts import interruptible, uninterrupted

PARAMS = SamplingParams(temperature=0, max_tokens=6)
PROMPTS = [[5, 6, 7, 8, 9], [15, 16, 17], [5, 6, 7, 8, 30, 31], [1], [5, 6, 7, 8, 30, 31, 32, 33, 34]]


@pytest.fixture(autouse=True)
def pythons_own_handler():
    """A shell starts background jobs with Ctrl-C switched off; these tests need Python's own handler."""
    old = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, old)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)  # os.kill would end the process on Windows


def test_it_is_put_off_to_the_end_of_the_section():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted():
            interrupt()
            with uninterrupted():
                interrupt()
            done.append(1)
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_hole_lets_it_through_once_and_cleaning_up_is_whole():
    done = []
    with pytest.raises(KeyboardInterrupt):
        with uninterrupted():
            try:
                with interruptible():
                    interrupt()
                    done.append("too late")
            except KeyboardInterrupt:
                interrupt()
                done.append("cleaned")
                raise
    assert done == ["cleaned"]


def test_the_previous_handler_gets_it():
    got = []
    old = signal.signal(signal.SIGINT, lambda number, frame: got.append(number))
    try:
        with uninterrupted():
            interrupt()
            assert got == []
        assert got == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, old)


def test_other_threads_are_left_alone():
    done = []

    def work():
        with uninterrupted(), interruptible():
            done.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [signal.default_int_handler]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs setitimer, which Windows lacks")
@pytest.mark.parametrize("options", [
    {}, dict(num_blocks=7, preemption_mode="swap", num_cpu_blocks=20), dict(scheduling_policy="static")],
    ids=["plain", "swap", "static"])
def test_at_random_times(folder, solo, options):
    llm = LLM(folder, **{"dtype": "float64", "block_size": 4, "num_blocks": 9, "max_num_batched_tokens": 16, **options})
    wanted = [solo(prompt, PARAMS) for prompt in PROMPTS]
    start = time.perf_counter()
    llm.generate(PROMPTS, PARAMS)
    usual = time.perf_counter() - start
    dice, num_cut, is_armed = random.Random(0), 0, False

    def raise_once(number, frame):
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    old = [signal.signal(signal.SIGINT, raise_once), signal.signal(signal.SIGALRM, lambda number, frame: interrupt())]
    try:
        for round_ in range(100):
            outputs, is_armed = None, True
            try:
                signal.setitimer(signal.ITIMER_REAL, dice.uniform(1e-5, usual), 2e-4)  # and again while it cleans up
                outputs = llm.generate(PROMPTS, PARAMS)
                is_armed = False
            except KeyboardInterrupt:
                num_cut += 1
            signal.setitimer(signal.ITIMER_REAL, 0)
            check_invariants(llm.engine.scheduler)
            assert llm.engine.kv.free_count == llm.engine.kv.num_blocks and not llm.engine.has_unfinished
            if outputs is None and round_ % 4 == 0:
                outputs = llm.generate(PROMPTS, PARAMS)
            if outputs is not None:
                assert [output.outputs[0].token_ids for output in outputs] == wanted
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, old[0])
        signal.signal(signal.SIGALRM, old[1])
    assert num_cut > 20
