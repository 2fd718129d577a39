"""Lab 11 says that the engine does the same: here they are compared."""
from __future__ import annotations

from itertools import product

import pytest

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.lab.answer import from_source
from minipaged.lab.exercises import find
from minipaged.lab.exercises._engine_sampling import DRAW


def test_the_labs_dice_are_those_of_the_engine():
    sampler = pytest.importorskip("minipaged.runtime.sampler")
    mine = from_source(DRAW).uniform
    for seed, position in product((0, 7, "0/3"), range(5)):
        assert mine(seed, position) == sampler.uniform(seed, position)


def steps_of(scheduler, name, prompt, num_output):
    scheduler.add_request(Request(name, prompt, SamplingParams(max_tokens=num_output, ignore_eos=True)))
    steps = []
    while scheduler.has_unfinished:
        plan = scheduler.schedule()
        steps += [(item.start, item.num_tokens, item.sample) for item in plan.scheduled]
        scheduler.commit(plan, {item.request_id: 7 for item in plan.scheduled if item.sample})
    return steps


@pytest.mark.parametrize("chunk", (1, 3, 4, 8))
def test_the_labs_steps_are_those_of_the_scheduler(chunk):
    answer = find("engine.catch-up").reference()
    for length in range(1, 10):
        scheduler = ContinuousBatchingScheduler(KVCacheManager(16, 4), max_num_batched_tokens=chunk)
        prompt = list(range(length))
        assert steps_of(scheduler, "cold", prompt, 3) == answer.steps_of(length, 0, 3, chunk, None)
        assert steps_of(scheduler, "warm", prompt, 3) == answer.steps_of(length, length, 3, chunk, None)
