"""Policies: who is next, who waits how long, who gives way; all orders are total and deterministic."""
from __future__ import annotations

from itertools import groupby
from math import ceil

import pytest

from minipaged.core import EventLog

from .helpers import add, finish_all, make, play, queues, request, tables
from .shadow import ShadowExecutor

# ---- round-robin ----


@pytest.mark.parametrize("quantum", [1, 2, 5])
@pytest.mark.parametrize(("count", "seats"), [(2, 1), (5, 2), (6, 2), (7, 3), (9, 4), (4, 4)])
def test_round_robin_waits_at_most_quantum_times_the_others_per_seat(quantum: int, count: int, seats: int) -> None:
    scheduler = make(200, max_num_seqs=seats, scheduling_policy="round_robin", quantum=quantum)
    requests = [add(scheduler, str(index), 3, max_tokens=60) for index in range(count)]
    bound, waited, worst = quantum * ceil((count - 1) / seats), dict.fromkeys(map(str, range(count)), 0), 0
    for _ in range(40):
        scheduled = play(scheduler)[0].num_scheduled_tokens
        assert len(scheduled) == min(seats, count)
        for name in waited:
            waited[name] = 0 if name in scheduled else waited[name] + 1
        worst = max(worst, *waited.values())
    assert worst <= bound
    if count > seats:
        assert worst >= quantum
    assert all(one.num_preemptions == 0 for one in requests)


def test_round_robin_is_served_in_turn_and_keeps_its_blocks() -> None:
    scheduler = make(20, max_num_seqs=1, scheduling_policy="round_robin", quantum=2)
    for name in "abc":
        add(scheduler, name, 3, max_tokens=4)
    order = "".join(next(iter(plan.num_scheduled_tokens)) for plan in play(scheduler, 7))
    assert order == "aabbcca"
    assert tables(scheduler) == {"a": [0, 3], "b": [1], "c": [2]}
    assert queues(scheduler) == (["a"], ["b", "c"])


def test_round_robin_without_others_keeps_the_seat() -> None:
    log = EventLog()
    scheduler = make(20, max_num_seqs=2, scheduling_policy="round_robin", quantum=1, events=log)
    finish_all(scheduler, *(add(scheduler, name, 3, max_tokens=9) for name in "ab"))
    assert log.select("rotate") == []


def test_round_robin_takes_no_more_seats_than_others_need() -> None:
    log = EventLog()
    scheduler = make(40, max_num_seqs=3, scheduling_policy="round_robin", quantum=2, events=log)
    for name in "abcd":
        add(scheduler, name, 3, max_tokens=9)
    play(scheduler, 3)
    assert [event.request for event in log.select("rotate")] == ["a"]
    assert queues(scheduler) == (["b", "c", "d"], ["a"])
    add(scheduler, "e", 3)
    add(scheduler, "f", 3)
    play(scheduler)
    assert [event.request for event in log.select("rotate")] == ["a", "b", "c"]
    assert queues(scheduler) == (["d", "a", "e"], ["f", "b", "c"])


def test_round_robin_under_pressure_takes_the_blocks_of_the_last_in_line() -> None:
    log = EventLog()
    scheduler = make(4, max_num_seqs=1, scheduling_policy="round_robin", quantum=1, events=log,
                     enable_prefix_caching=False)
    requests = [add(scheduler, name, 4, max_tokens=6) for name in "abcd"]
    executor = ShadowExecutor(scheduler)
    play(scheduler, 5, run=executor.run)
    assert [(event.step, event.request) for event in log.select("preempt")] == [(4, "d")]
    assert queues(scheduler) == (["a"], ["b", "c", "d"])
    assert tables(scheduler) == {"a": [0, 3], "b": [1], "c": [2]}
    finish_all(scheduler, *requests, executor=executor)


@pytest.mark.parametrize("mode", [{}, {"preemption_mode": "swap", "num_cpu_blocks": 8}], ids=str)
def test_round_robin_finishes_all_in_a_small_pool(mode: dict) -> None:
    scheduler = make(4, max_num_seqs=2, scheduling_policy="round_robin", quantum=2, **mode)
    requests = [add(scheduler, str(index), 5, max_tokens=8) for index in range(6)]
    finish_all(scheduler, *requests)


# ---- victims ----

@pytest.mark.parametrize(("victim", "preempted"), [("newest", "c"), ("most_generated", "a"), ("lowest_priority", "b")])
def test_who_gives_way(victim: str, preempted: str) -> None:
    scheduler = make(5, victim=victim, enable_prefix_caching=False)
    add(scheduler, "a", 2, max_tokens=20, priority=1)
    play(scheduler, 1)
    add(scheduler, "b", 7, max_tokens=20, priority=5)
    play(scheduler, 1)
    add(scheduler, "c", 7, max_tokens=20, priority=2)
    plan = play(scheduler)[0]
    assert plan.preempted == [] and scheduler.kv.free_count == 0
    plan = play(scheduler)[0]
    assert plan.preempted == [preempted]
    assert preempted not in plan.num_scheduled_tokens and set(plan.num_scheduled_tokens) == set("abc") - {preempted}


def test_most_generated_of_equals_is_the_newest() -> None:
    scheduler = make(4, victim="most_generated", enable_prefix_caching=False)
    for name in "abc":
        add(scheduler, name, 4, max_tokens=9)
    play(scheduler)
    assert play(scheduler)[0].preempted == ["c"]
    assert queues(scheduler) == (["a", "b"], ["c"])


def test_lowest_priority_of_equals_is_the_latest_arrival() -> None:
    scheduler = make(2, victim="lowest_priority", enable_prefix_caching=False)
    add(scheduler, "a", 4, max_tokens=9, arrival=8)
    add(scheduler, "b", 4, max_tokens=9, arrival=3)
    play(scheduler)
    assert play(scheduler)[0].preempted == ["a"]


@pytest.mark.parametrize(("victim", "preempted"), [("newest", "c"), ("most_generated", "b"), ("lowest_priority", "c")])
def test_under_the_priority_policy_only_the_lowest_priority_gives_way(victim: str, preempted: str) -> None:
    scheduler = make(5, victim=victim, scheduling_policy="priority", enable_prefix_caching=False)
    add(scheduler, "b", 2, max_tokens=20, priority=5, arrival=1)
    play(scheduler)
    add(scheduler, "c", 7, max_tokens=20, priority=5, arrival=2)
    play(scheduler)
    add(scheduler, "a", 7, max_tokens=20, priority=0)
    play(scheduler)
    assert play(scheduler)[0].preempted == [preempted]


# ---- order of the line ----

def test_fcfs_a_preempted_request_is_first_in_line() -> None:
    scheduler = make(3, enable_prefix_caching=False)
    for name in "abcd":
        add(scheduler, name, 4, max_tokens=5)
    play(scheduler)
    assert queues(scheduler) == (["a", "b", "c"], ["d"])
    assert play(scheduler)[0].preempted == ["c", "b"]
    assert queues(scheduler) == (["a"], ["b", "c", "d"])


def test_priority_resumes_in_rank_order() -> None:
    scheduler = make(12, max_num_seqs=1, scheduling_policy="priority")
    requests = [add(scheduler, name, 3, max_tokens=2, priority=rank) for name, rank in
                (("a", 2), ("b", 1), ("c", 1), ("d", 0), ("e", -1.5))]
    assert queues(scheduler)[1] == ["e", "d", "b", "c", "a"]
    finish_all(scheduler, *requests)


def test_a_step_that_preempts_admits_nobody() -> None:
    scheduler = make(3, enable_prefix_caching=False)
    add(scheduler, "a", 4, max_tokens=9), add(scheduler, "b", 8, max_tokens=9)
    play(scheduler)
    add(scheduler, "c", 1)
    plan = play(scheduler)[0]  # b gives way and leaves room for c, which still waits
    assert (plan.preempted, plan.admitted, plan.num_scheduled_tokens) == (["b"], [], {"a": 1})
    assert scheduler.kv.free_count == 1


# ---- a victim that this very plan had scheduled ----

def test_what_an_unscheduled_victim_would_have_filled_is_withdrawn() -> None:
    log = EventLog()
    scheduler = make(7, scheduling_policy="priority", long_prefill_token_threshold=8, events=log)
    executor = ShadowExecutor(scheduler)
    a = add(scheduler, "a", range(28), priority=1)
    play(scheduler, run=executor.run)
    b = add(scheduler, "b", 4, priority=0)
    play(scheduler, run=executor.run)
    assert tables(scheduler) == {"a": [0, 1, 2, 3], "b": [4]}
    plan = scheduler.schedule()  # a's third chunk takes blocks 5 and 6; then b needs one
    assert plan.preempted == ["a"] and plan.num_scheduled_tokens == {"b": 1}
    assert tables(scheduler) == {"b": [4, 6]}
    assert [event.block for event in log.select("withdraw", reason="cancel")] == [5, 6]
    assert [event.data for event in log.select("preempt")] == [
        {"request": "a", "mode": "recompute", "num_computed_tokens": 16, "unscheduled": 8}]
    assert scheduler.kv.match(request("x", range(28))).num_tokens == 16
    scheduler.commit(plan, executor.run(plan))
    finish_all(scheduler, a, b, executor=executor)


@pytest.mark.parametrize("mode", [{}, {"preemption_mode": "swap", "num_cpu_blocks": 8}], ids=str)
def test_only_the_copies_of_an_unscheduled_victim_are_dropped(mode: dict) -> None:
    scheduler = make(7, scheduling_policy="priority", **mode)
    executor = ShadowExecutor(scheduler)
    for name, count, priority in (("q", 4, 1), ("p", 5, 5), ("b", 4, 0)):
        add(scheduler, name, count, max_tokens=9, priority=priority)
        play(scheduler, run=executor.run)
    scheduler.fork("q", "qc"), scheduler.fork("p", "pc")
    assert tables(scheduler) == {"q": [0, 1], "p": [2, 3], "b": [4], "qc": [0, 1], "pc": [2, 3]}
    plan = scheduler.schedule()  # q copies 1 to 5, p copies 3 to 6, then b needs a block: p gives way
    assert plan.preempted == ["p"] and plan.copies == [(1, 5)] and plan.swap_outs == []
    assert tables(scheduler) == {"q": [0, 5], "b": [4, 6], "qc": [0, 1], "pc": [2, 3]}
    scheduler.commit(plan, executor.run(plan))
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)


def test_round_robin_counts_the_steps_of_a_resumed_request_once_it_has_a_token() -> None:
    scheduler = make(4, max_num_seqs=1, scheduling_policy="round_robin", quantum=2, enable_prefix_caching=False)
    add(scheduler, "a", 9, max_tokens=4)
    play(scheduler, 2)
    add(scheduler, "b", 6, max_tokens=30)
    add(scheduler, "c", 1, max_tokens=30)
    order = [next(iter(plan.num_scheduled_tokens)) for plan in play(scheduler, 14)]
    preempted = scheduler.requests["b"].num_preemptions + scheduler.requests["c"].num_preemptions
    assert preempted >= 1
    assert max(len(list(group)) for _, group in groupby(order)) == 2, order
