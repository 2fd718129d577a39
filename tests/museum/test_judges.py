"""The museum's judges: silent about the right engine whoever comes, and never content with the scene alone."""
from __future__ import annotations

import pytest

from minipaged import museum
from minipaged.core import policy
from minipaged.museum.crowd import crowd

STAGES = {repr(piece.run.stage): piece.run.stage for piece in museum.PIECES if hasattr(piece.run, "stage")}
MORE = [{"num_blocks": 9, "scheduling_policy": policy, "victim": victim, "preemption_mode": mode, "num_cpu_blocks": 6,
         "max_num_seqs": 4, "max_num_batched_tokens": 9}
        for policy in ("fcfs", "priority", "round_robin") for victim in ("newest", "most_generated")
        for mode in ("recompute", "swap")]
STAGES |= {repr(stage): stage for stage in MORE}


def complaints(stages, seeds):
    return [(seed, stage, fault) for stage in stages for seed in seeds for fault in crowd(seed, **stage).faults]


def test_no_judge_complains_of_the_right_engine_with_random_requests():
    assert complaints(STAGES.values(), range(6)) == []


@pytest.mark.full
def test_no_judge_complains_of_the_right_engine_with_thousands_of_random_requests():
    assert complaints(STAGES.values(), range(6, 100)) == []


def test_a_crowd_is_the_same_each_time_and_another_for_another_seed():
    first, again, other = (crowd(seed, 8) for seed in (1, 1, 2))
    assert first.events == again.events != other.events
    assert first.tokens and all(first.tokens.values())


def test_only_what_is_waste_and_nothing_else_is_judged_by_a_count_worked_out_by_hand():
    assert [piece.name for piece in museum.PIECES if piece.caught_by == "numbers"] == ["freed-head-first"]


@pytest.mark.parametrize(("name", "repair", "judge"), [
    ("oldest-gives-way", lambda running: running[min(1, len(running) - 1)], "service"),
    ("full-last-block-counts-one-more", lambda self, request, match: request.num_tokens // self.block_size,
     "invariants"),
    ("most-generated-counts-the-prompt", lambda running: min(running, key=lambda one: one.num_prompt_tokens),
     "service"),
])
def test_a_repair_that_fits_the_scene_alone_is_none(name, repair, judge):
    assert f"In this scene all is well. With other requests not, as {judge} shows" in repr(museum.mend(name, repair))


def test_who_never_fits_is_seen_to_come_in_the_film():
    wrong = museum.piece("never-fits-and-waits").wrong()
    assert [event.request for event in wrong.events.select("add")] == ["big", "small"]


@pytest.mark.parametrize("piece", [piece for piece in museum.PIECES if piece.caught_by == "service"],
                         ids=lambda piece: piece.name)
def test_the_judge_of_service_needs_no_scene_made_for_the_bug(piece):
    with piece.switched_on():
        faults = [fault for seed in range(24) for fault in crowd(seed, **piece.run.stage).faults]
    assert "service" in {fault.judge for fault in faults}


def test_under_priority_nobody_of_a_higher_rank_gives_way():
    @museum.change(policy, "lowest_priority")
    def highest_priority(right, running):
        return min(running, key=lambda request: (request.priority, request.arrival))

    stage = {"num_blocks": 9, "scheduling_policy": "priority", "max_num_seqs": 4}
    with highest_priority.applied():
        faults = [fault for seed in range(24) for fault in crowd(seed, **stage).faults]
    assert any("loses its memory while" in fault.text for fault in faults)
