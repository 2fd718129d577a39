"""Contiguous memory: buddy and first fit, reservations, and the split of waste."""
from __future__ import annotations

import random

import pytest

from minipaged.core import Request, SamplingParams
from minipaged.sim.regions import ALLOCATORS, BuddyAllocator, FirstFitAllocator
from minipaged.sim.reservation import ContiguousKV


@pytest.mark.parametrize("name", ALLOCATORS)
@pytest.mark.parametrize("size", [1, 100, 1024, 15_700])
def test_regions_never_overlap_and_all_comes_back(name, size):
    memory, draw, held = ALLOCATORS[name](size), random.Random(size), []
    before = memory.holes()
    for _ in range(400):
        if held and draw.random() < 0.5:
            memory.free(held.pop(draw.randrange(len(held))))
        else:
            region = memory.allocate(draw.randint(1, 300))
            if region is not None:
                held.append(region)
        used = sorted((region.start, region.stop) for region in held)
        assert all(end <= start for (_, end), (start, _) in zip(used, used[1:]))
        assert all(0 <= start and end <= size for start, end in used)
        assert sum(memory.holes()) + sum(len(region) for region in held) == size
    for region in held:
        memory.free(region)
    assert memory.holes() == before


def test_buddy_by_hand():
    memory = BuddyAllocator(16)
    a, b = memory.allocate(3), memory.allocate(4)
    assert (a, b) == (range(0, 4), range(4, 8)) and memory.holes() == [8]
    assert memory.allocate(9) is None
    memory.free(a)
    assert memory.holes() == [4, 8]  # its twin is held: no merging
    memory.free(b)
    assert memory.holes() == [16]
    assert BuddyAllocator(15_700).holes() == [4, 16, 64, 256, 1024, 2048, 4096, 8192]


def test_first_fit_by_hand():
    memory = FirstFitAllocator(10)
    a, b, c = memory.allocate(3), memory.allocate(3), memory.allocate(3)
    memory.free(a)
    memory.free(c)
    assert memory.holes() == [3, 4] and memory.allocate(5) is None
    memory.free(b)
    assert memory.holes() == [10]


@pytest.mark.parametrize("reservation, slots", [("max", 2048), ("pow2", 100 + 256), ("oracle", 100 + 200),
                                                ("pow2 of 256", 100 + 256)])
def test_what_each_system_reserves(reservation, slots):
    reservation, _, exact = reservation.partition(" of ")
    kv = ContiguousKV(16_384, reservation, fit="first_fit", max_model_len=2048)
    request = Request("a", [1] * 100, SamplingParams(max_tokens=int(exact or 200)))
    assert len(kv.admit(request, kv.match(request), 100)) == slots
    request.num_computed_tokens = 150
    split = kv.waste_split({"a": request})
    stored = request.max_num_tokens - 1  # the last token is never stored
    assert (split.used, split.reserved) == (150, stored - 150)
    assert split.internal == slots - stored and split.total == 16_384
    kv.free(request)
    assert kv.free_count == 16_384
