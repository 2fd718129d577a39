"""vLLM's own scheduler scenarios (S): queues, budgets, priorities. Block size 16, 8,192 tokens a step, 16 seats and
10,000 blocks unless a test says otherwise; request i's prompt is token i, repeated.

Not here: S6 (two batches in flight: a plan is committed before the next is made, and test_scheduler checks that a
second `schedule` says so), and what needs drafts, multi-modal encoders or KV connectors.
"""
from __future__ import annotations

import pytest

from minipaged.core import ContinuousBatchingScheduler, FinishReason

from .helpers import add, idle, make, play, queues, tables


def scheduler_of(**options) -> ContinuousBatchingScheduler:
    settings = {"max_num_seqs": 16, "max_num_batched_tokens": 8192, **options}
    return make(settings.pop("num_blocks", 10_000), 16, **settings)


def fill(scheduler, lengths, **options) -> None:
    for index, length in enumerate(lengths):
        add(scheduler, str(index), [index] * length, **options)


def test_S1_S2_add_and_abort() -> None:
    scheduler = scheduler_of()
    for index in range(10):
        add(scheduler, str(index), [index] * 10)
        assert len(scheduler.waiting) == len(scheduler.requests) == index + 1
    for index in range(10):
        assert scheduler.abort(str(index)) is True
        assert str(index) not in scheduler.requests and len(scheduler.waiting) == 9 - index
    idle(scheduler)


def test_S3_one_step_takes_all() -> None:
    scheduler = scheduler_of()
    fill(scheduler, [10] * 10)
    plan = scheduler.schedule()
    assert plan.num_scheduled_tokens == {str(index): 10 for index in range(10)}
    assert list(plan.num_scheduled_tokens) == [str(index) for index in range(10)]
    assert queues(scheduler) == ([str(index) for index in range(10)], [])
    assert [(item.start, item.sample) for item in plan.scheduled] == [(0, True)] * 10
    assert (plan.total_tokens, plan.preempted, plan.swap_outs, plan.swap_ins, plan.copies) == (100, [], [], [], [])


@pytest.mark.parametrize("caching", [True, False])
def test_S4_concurrent_chunked_prefill(caching: bool) -> None:
    scheduler = scheduler_of(max_num_batched_tokens=1024, long_prefill_token_threshold=400,
                             enable_prefix_caching=caching)
    fill(scheduler, [800] * 3)
    plans = play(scheduler, 3)
    assert [list(plan.num_scheduled_tokens.values()) for plan in plans] == [[400, 400, 224], [400, 400, 224],
                                                                            [1, 1, 352]]
    assert [[item.sample for item in plan.scheduled] for plan in plans] == [
        [False, False, False], [True, True, False], [True, True, True]]
    assert [[item.start for item in plan.scheduled] for plan in plans] == [[0, 0, 0], [400, 400, 224], [800, 800, 448]]


@pytest.mark.parametrize(("chunked", "first"), [(True, {"0": 800, "1": 224}), (False, {"0": 800})])
def test_S5_no_queue_jumping(chunked: bool, first: dict) -> None:
    scheduler = scheduler_of(max_num_batched_tokens=1024, max_num_seqs=3, enable_chunked_prefill=chunked)
    fill(scheduler, [800, 800, 10, 10])
    assert play(scheduler)[0].num_scheduled_tokens == first


def test_S5_without_chunks_a_prompt_that_fills_the_step_exactly_goes_whole() -> None:
    scheduler = scheduler_of(max_num_batched_tokens=1024, enable_chunked_prefill=False)
    fill(scheduler, [800, 224, 800])
    assert [plan.num_scheduled_tokens for plan in play(scheduler, 2)] == [{"0": 800, "1": 224},
                                                                         {"0": 1, "1": 1, "2": 800}]


@pytest.mark.parametrize(("priorities", "arrivals", "order"), [
    pytest.param([2, 0, 1], None, [1, 2, 0], id="S11"),
    pytest.param([1, 1, 1], [3, 1, 2], [1, 2, 0], id="S12"),
    pytest.param([2, 1, 1, 0], [1, 3, 2, 4], [3, 2, 1, 0], id="S13"),
    pytest.param([0, 0, 0, 0], [4, 1, 3, 2], [1, 3, 2, 0], id="S14"),
])
def test_S11_to_S14_priority_then_arrival(priorities: list, arrivals: list | None, order: list) -> None:
    scheduler = scheduler_of(scheduling_policy="priority")
    for index, priority in enumerate(priorities):
        add(scheduler, str(index), [index] * 10, priority=priority, arrival=arrivals and arrivals[index])
    expected = [str(index) for index in order]
    assert queues(scheduler) == ([], expected)
    assert list(play(scheduler)[0].num_scheduled_tokens) == expected


@pytest.mark.parametrize(("seats", "priorities", "running", "waiting"), [
    pytest.param(1, [3, 2, 0], ["2"], ["1", "0"], id="S15"),
    pytest.param(2, [3, 1, 2, 0], ["3", "1"], ["2", "0"], id="S16"),
])
def test_S15_S16_seats_go_by_priority(seats: int, priorities: list, running: list, waiting: list) -> None:
    scheduler = scheduler_of(scheduling_policy="priority", max_num_seqs=seats)
    for index, priority in enumerate(priorities):
        add(scheduler, str(index), [index] * 10, priority=priority)
    play(scheduler)
    assert queues(scheduler) == (running, waiting)


def test_S17_one_seat_serves_in_sorted_order() -> None:
    scheduler = scheduler_of(scheduling_policy="priority", max_num_seqs=1)
    priorities = [5, 1, 8, 3, 2, 7, 4, 6]
    for index, priority in enumerate(priorities):
        add(scheduler, str(index), [index] * 10, priority=priority)
    served = []
    while scheduler.has_unfinished:
        play(scheduler)
        served.append(priorities[int(scheduler.running[0].request_id)])
        assert scheduler.finish(scheduler.running[0].request_id, FinishReason.STOP)
    assert served == sorted(priorities)
    idle(scheduler)


def test_S18_room_for_all_preempts_nobody() -> None:
    scheduler = scheduler_of(scheduling_policy="priority", max_num_seqs=3)
    for name, priority in (("0", 5), ("1", 5), ("2", 0)):
        add(scheduler, name, [int(name)] * 10, priority=priority)
        plan = play(scheduler)[0]
        assert plan.preempted == []
    assert queues(scheduler) == (["0", "1", "2"], [])
    assert tables(scheduler) == {"0": [0], "1": [1], "2": [2]}
