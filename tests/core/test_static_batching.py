"""Static batching: a batch starts together, reserves for its longest and ends with its slowest."""
from __future__ import annotations

import pytest

from minipaged.core import EventLog, FinishReason, check_invariants

from .helpers import add, answer, finish_all, idle, make, names, play, queues, tables
from .shadow import ShadowExecutor


def test_text7_four_requests_use_47_5_percent_of_the_slot_steps() -> None:
    scheduler = make(52, 16, static=True, max_num_seqs=4)
    requests = [add(scheduler, name, 1, max_tokens=count) for name, count in
                (("a", 100), ("b", 50), ("c", 200), ("d", 30))]
    executor, busy, ends = ShadowExecutor(scheduler), 0, {}
    for step in range(1, 201):
        plan = play(scheduler, run=executor.run)[0]
        busy += len(plan.scheduled)
        ends.update({one.request_id: step for one in requests if one.is_finished and one.request_id not in ends})
    assert not scheduler.has_unfinished
    assert busy / (4 * 200) == 0.475
    assert ends == {"d": 30, "b": 50, "a": 100, "c": 200}
    idle(scheduler)


def test_events_of_a_batch() -> None:
    log = EventLog()
    scheduler = make(8, static=True, events=log)
    add(scheduler, "a", 3, max_tokens=2), add(scheduler, "b", 3, max_tokens=1)
    play(scheduler, 2)
    assert [(event.kind, event.data) for event in log.select("allocate", "admit", "free", "finish")
            if event.request == "a"] == [
        ("allocate", {"block": 0, "request": "a", "index": 0, "ref_count": 1}),
        ("allocate", {"block": 1, "request": "a", "index": 1, "ref_count": 1}),
        ("admit", {"request": "a", "cached_tokens": 0, "resumed": False, "was": "waiting"}),
        ("free", {"block": 1, "request": "a", "end": "front", "cached": False}),
        ("free", {"block": 0, "request": "a", "end": "back", "cached": True}),
        ("finish", {"request": "a", "reason": "length", "num_tokens": 5})]


def test_every_row_reserves_for_the_longest_from_the_first_step_on() -> None:
    scheduler = make(10, static=True)
    add(scheduler, "a", 5, max_tokens=2)
    add(scheduler, "b", 3, max_tokens=13)  # 16 tokens: 4 blocks
    add(scheduler, "c", 3, max_tokens=1)  # a third row of 4 blocks does not fit
    play(scheduler)
    assert tables(scheduler) == {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}
    assert (queues(scheduler), scheduler.kv.free_count) == ((["a", "b"], ["c"]), 2)


def test_a_row_that_is_done_keeps_its_memory_until_the_batch_ends() -> None:
    scheduler = make(8, static=True)
    a, b = add(scheduler, "a", 3, max_tokens=2), add(scheduler, "b", 3, max_tokens=5)
    c = add(scheduler, "c", 3, max_tokens=20)
    play(scheduler, 2)
    assert a.is_finished and (names(scheduler.idle_rows), queues(scheduler)) == (["a"], (["b"], ["c"]))
    assert tables(scheduler) == {"a": [0, 1], "b": [2, 3]}
    play(scheduler, 3)
    assert b.is_finished and scheduler.kv.free_count == 8 and scheduler.idle_rows == []
    finish_all(scheduler, c, limit=20)


def test_a_late_row_waits_for_the_next_batch() -> None:
    scheduler = make(20, static=True)
    a = add(scheduler, "a", 3, max_tokens=3)
    executor = ShadowExecutor(scheduler)
    play(scheduler, run=executor.run)
    b = add(scheduler, "b", 3, max_tokens=1)
    plans = finish_all(scheduler, a, b, executor=executor)
    assert [list(plan.num_scheduled_tokens) for plan in plans] == [["a"], ["a"], ["b"]]
    assert [plan.admitted for plan in plans] == [[], [], [("b", 0, False)]]


@pytest.mark.parametrize(("options", "rows"), [
    ({"max_num_seqs": 2}, ["a", "b"]), ({"max_num_batched_tokens": 9}, ["a", "b", "c"]),
    ({"max_num_batched_tokens": 8}, ["a", "b"]), ({"max_num_batched_tokens": 2}, ["a"]), ({}, ["a", "b", "c", "d"])])
def test_how_many_rows_a_batch_takes(options: dict, rows: list[str]) -> None:
    scheduler = make(20, static=True, **options)
    for name in "abcd":
        add(scheduler, name, 3, max_tokens=2)
    assert list(play(scheduler)[0].num_scheduled_tokens) == rows


def test_a_batch_fills_the_pool_exactly() -> None:
    scheduler = make(8, static=True)
    for name in "abcde":
        add(scheduler, name, 3, max_tokens=5)
    assert list(play(scheduler)[0].num_scheduled_tokens) == list("abcd") and scheduler.kv.free_count == 0


def test_nothing_is_shared() -> None:
    scheduler = make(8, static=True)
    requests = [add(scheduler, name, range(6), max_tokens=2) for name in "ab"]
    plan = scheduler.schedule()
    assert plan.num_scheduled_tokens == {"a": 6, "b": 6} and tables(scheduler) == {"a": [0, 1], "b": [2, 3]}
    scheduler.cancel(plan)
    finish_all(scheduler, *requests)


def test_a_lone_row_that_outgrows_the_pool_ends_with_capacity() -> None:
    scheduler = make(2, static=True)
    one = add(scheduler, "a", 6, max_tokens=9)
    finish_all(scheduler, one)
    assert (one.finish_reason, one.num_tokens) == (FinishReason.CAPACITY, 9)


def test_abort_of_a_row_and_of_the_last_row() -> None:
    scheduler = make(8, static=True)
    add(scheduler, "a", 3), add(scheduler, "b", 3), add(scheduler, "c", 30)
    play(scheduler)
    scheduler.abort("a")
    check_invariants(scheduler)
    assert tables(scheduler) == {"a": [0, 1], "b": [2, 3]}
    scheduler.abort("c")
    scheduler.abort("b")
    idle(scheduler)


def test_cancel_of_the_first_step_sends_the_batch_back_in_order() -> None:
    log = EventLog()
    scheduler = make(8, static=True, events=log)
    requests = [add(scheduler, name, 3) for name in "abc"]
    plan = scheduler.schedule()
    scheduler.cancel(plan)
    check_invariants(scheduler)
    assert (queues(scheduler), scheduler.kv.free_count) == (([], ["a", "b", "c"]), 8)
    assert log.select("cancel")[0].returned == ["a", "b", "c"]
    finish_all(scheduler, *requests)


def test_cancel_of_a_later_step_repeats_it() -> None:
    scheduler = make(8, static=True)
    requests = [add(scheduler, name, 3, max_tokens=3) for name in "ab"]
    executor = ShadowExecutor(scheduler)
    play(scheduler, run=executor.run)
    first = scheduler.schedule()
    scheduler.cancel(first)
    check_invariants(scheduler)
    again = scheduler.schedule()
    assert again.scheduled == first.scheduled
    scheduler.commit(again, executor.run(again))
    finish_all(scheduler, *requests, executor=executor)


def test_a_row_aborted_in_a_plan_that_is_cancelled_gives_its_blocks_back() -> None:
    scheduler = make(4, static=True)
    add(scheduler, "a", 3), add(scheduler, "b", 3)
    plan = scheduler.schedule()
    scheduler.abort("a")
    scheduler.cancel(plan)
    check_invariants(scheduler)
    assert scheduler.idle_rows == [] and scheduler.kv.free_count == 4
    finish_all(scheduler, scheduler.requests["b"])


def test_bad_input_is_refused_as_everywhere() -> None:
    scheduler = make(2, static=True)
    with pytest.raises(ValueError, match="request a needs 9 tokens = 3 blocks of 4; the pool holds 2 blocks"):
        add(scheduler, "a", 9)
    add(scheduler, "b", 3, max_tokens=1)
    assert names(scheduler.step(answer)) == ["b"]
    idle(scheduler)
