"""The block map tells from the log alone what the memory manager knows."""
from __future__ import annotations

import random

import pytest

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog
from minipaged.viz.block_map import BlockState, block_states, describe, draw_block_map


def assert_log_tells_the_truth(events: EventLog, kv: KVCacheManager) -> None:
    states = block_states(events)
    for name, table in kv.tables().items():
        assert [state.block for state in states if name in state.holders] == sorted(set(table.blocks))
    assert [len(state.holders) for state in states] == list(kv.allocator.ref_count)
    assert [state.cached for state in states] == [bool(covered) for covered in kv.prefix_cache.covered]


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_holders_and_cached_blocks_are_those_of_the_manager(mode):
    """Requests with common prefixes in a small pool: shared, copied, preempted, swapped, evicted blocks."""
    seen: set[str] = set()
    for seed in range(5):
        chance = random.Random(seed)
        events = EventLog()
        kv = KVCacheManager(8, 4, num_cpu_blocks=6 if mode == "swap" else 0, events=events)
        scheduler = ContinuousBatchingScheduler(kv, max_num_seqs=4, max_num_batched_tokens=16, preemption_mode=mode,
                                                events=events)
        for number in range(12):
            prompt = [7] * chance.randint(1, 9) + [3] * chance.randint(0, 3)
            scheduler.add_request(Request(str(number), prompt, SamplingParams(max_tokens=chance.randint(8, 19))))
        for _ in range(500):
            if not scheduler.has_unfinished:
                break
            plan = scheduler.schedule()
            assert_log_tells_the_truth(events, kv)  # here evicted blocks have no key yet
            scheduler.commit(plan, {item.request_id: chance.randint(1, 9) for item in plan.scheduled if item.sample})
            assert_log_tells_the_truth(events, kv)
        assert all(not state.holders for state in block_states(events))
        seen |= set(events.counts())
    assert {"copy", "preempt", "share", "withdraw"} <= seen, "the case is too easy"
    assert ("swap_in" in seen) is (mode == "swap")


def test_an_earlier_moment_can_be_asked_for():
    events = EventLog()
    events.emit("pool", num_blocks=2, block_size=4, num_cpu_blocks=0, free_order="append")
    events.emit("allocate", block=1, request="A", index=0, ref_count=1)
    events.emit("free", block=1, request="A", end="back", cached=False)
    assert block_states(events, until=1)[1] == BlockState(1, ("A",), False)
    assert block_states(events)[1] == BlockState(1, (), False)


def test_a_log_without_a_pool_is_refused():
    events = EventLog()
    with pytest.raises(ValueError, match="the log is empty"):
        block_states(events)
    events.emit("allocate", block=0, request="A", index=0, ref_count=1)
    with pytest.raises(ValueError, match="begins with 'allocate'"):
        block_states(events)


STATES = [BlockState(0, ("A", "B"), True), BlockState(1, ("A",), False), BlockState(2, (), True),
          BlockState(3, (), False)]


def test_the_sentence_has_the_numbers():
    assert describe(STATES) == ("Map of 4 blocks: request A holds 2, request B holds 1; 1 of the 2 blocks in use are "
                                "shared; 2 are free, 1 of these still cached.")


def test_the_figure_has_a_stripe_for_each_holder_and_signs_beside_colour():
    fig = draw_block_map(STATES, columns=2)
    patches = {patch.get_gid(): patch for patch in fig.axes[0].patches}
    assert sorted(patches) == ["0:A", "0:B", "1:A", "2:", "3:"]
    assert patches["0:A"].get_facecolor() == patches["1:A"].get_facecolor() != patches["0:B"].get_facecolor()
    assert patches["0:A"].get_hatch() != patches["0:B"].get_hatch()
    assert patches["2:"].get_hatch() and not patches["3:"].get_hatch()
    assert patches["1:A"].get_width() == pytest.approx(2 * patches["0:A"].get_width())
    assert [text.get_text() for text in fig.axes[0].texts] == ["0", "1", "2", "3"]
    assert [text.get_text() for text in fig.legends[0].get_texts()] == [
        "request A", "request B", "free, still cached", "free"]
