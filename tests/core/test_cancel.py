"""A step that fails: what its plan published is withdrawn, whoever depended on that starts again, nothing leaks."""
from __future__ import annotations

from random import Random

import pytest

from minipaged.core import EventLog, RequestStatus, check_invariants

from .helpers import add, finish_all, make, play, queues, request, tables
from .shadow import ShadowExecutor, StepFailed


def cancelled(scheduler):
    """Plan a step and cancel it."""
    plan = scheduler.schedule()
    scheduler.cancel(plan)
    check_invariants(scheduler)
    return plan


def test_step_cancels_when_the_executor_raises() -> None:
    scheduler = make(8)
    a = add(scheduler, "a", range(8))

    def fails(plan) -> dict[str, int]:
        raise RuntimeError("the device is gone")

    with pytest.raises(RuntimeError, match="the device is gone"):
        scheduler.step(fails)
    check_invariants(scheduler)
    assert (a.status, scheduler.kv.free_count, queues(scheduler)) == (RequestStatus.WAITING, 8, ([], ["a"]))
    finish_all(scheduler, a)


def test_a_decode_step_is_repeated_with_the_same_plan() -> None:
    scheduler = make(8)
    executor = ShadowExecutor(scheduler)
    requests = [add(scheduler, name, 5) for name in "ab"]
    play(scheduler, run=executor.run)
    plan = cancelled(scheduler)
    assert [one.num_computed_tokens for one in requests] == [5, 5] and queues(scheduler) == (["a", "b"], [])
    again = scheduler.schedule()
    assert again.scheduled == plan.scheduled and again.step == plan.step + 1
    scheduler.commit(again, executor.run(again))
    finish_all(scheduler, *requests, executor=executor)


def test_a_chunk_is_repeated() -> None:
    scheduler = make(8, max_num_batched_tokens=6)
    executor = ShadowExecutor(scheduler)
    a = add(scheduler, "a", range(16))
    play(scheduler, run=executor.run)
    plan = cancelled(scheduler)
    assert plan.num_scheduled_tokens == {"a": 6} and a.num_computed_tokens == 6
    assert scheduler.kv.match(request("x", range(16))).num_tokens == 6  # what was computed is still known
    finish_all(scheduler, a, executor=executor)


def test_only_whoever_was_admitted_starts_again() -> None:
    log = EventLog()
    scheduler = make(12, events=log)
    executor = ShadowExecutor(scheduler)
    a = add(scheduler, "a", 5)
    play(scheduler, run=executor.run)
    b, c = add(scheduler, "b", range(9)), add(scheduler, "c", range(9))
    plan = cancelled(scheduler)
    assert plan.num_scheduled_tokens == {"a": 1, "b": 9, "c": 1}
    assert queues(scheduler) == (["a"], ["b", "c"]) and tables(scheduler) == {"a": [0, 1]}
    assert log.select("cancel")[0].returned == ["b", "c"]
    assert a.num_computed_tokens == 5
    finish_all(scheduler, a, b, c, executor=executor)


def test_published_contents_are_withdrawn_and_old_ones_are_kept() -> None:
    log = EventLog()
    scheduler = make(12, events=log)
    executor = ShadowExecutor(scheduler)
    a = add(scheduler, "a", range(8), max_tokens=1)
    finish_all(scheduler, a, executor=executor)
    add(scheduler, "b", range(16))
    plan = cancelled(scheduler)
    assert plan.admitted == [("b", 8, False)]
    assert [(event.num_tokens, event.reason) for event in log.select("withdraw")] == [(4, "cancel"), (4, "cancel")]
    assert scheduler.kv.match(request("x", range(16))).blocks == [0, 1]
    assert scheduler.kv.free_count == 12


def test_a_copy_that_was_not_made_sends_its_writer_back() -> None:
    scheduler = make(8)
    executor = ShadowExecutor(scheduler)
    parent = add(scheduler, "p", 6)
    play(scheduler, run=executor.run)
    child = scheduler.fork("p", "c")
    plan = cancelled(scheduler)
    assert plan.copies == [(1, 2)]
    assert queues(scheduler) == (["c"], ["p"])  # p was to write into the copy
    assert tables(scheduler) == {"c": [0, 1]} and scheduler.kv.allocator.ref_count[:3] == [1, 1, 0]
    finish_all(scheduler, parent, executor=executor)
    assert child.token_ids == parent.token_ids


def test_a_preempted_request_stays_preempted() -> None:
    scheduler = make(2, enable_prefix_caching=False)
    executor = ShadowExecutor(scheduler)
    a, b = add(scheduler, "a", 4), add(scheduler, "b", 4)
    play(scheduler, run=executor.run)
    plan = cancelled(scheduler)
    assert plan.preempted == ["b"] and queues(scheduler) == (["a"], ["b"])
    finish_all(scheduler, a, b, executor=executor)


def test_a_resumed_paused_request_starts_again() -> None:
    scheduler = make(12, scheduling_policy="round_robin", quantum=1, max_num_seqs=1)
    executor = ShadowExecutor(scheduler)
    a, b = add(scheduler, "a", 5), add(scheduler, "b", 5)
    play(scheduler, 2, run=executor.run)
    plan = cancelled(scheduler)  # b pauses, a resumes
    assert plan.admitted == [("a", 0, True)]
    assert (queues(scheduler), a.status, b.status) == (([], ["a", "b"]), "waiting", "paused")
    finish_all(scheduler, a, b, executor=executor)


def test_many_cancels_in_a_row_leave_nothing() -> None:
    scheduler = make(6)
    requests = [add(scheduler, name, range(7)) for name in "abc"]
    for _ in range(5):
        cancelled(scheduler)
        assert scheduler.kv.free_count == 6 and scheduler.kv.prefix_cache.covered == [0] * 6
    finish_all(scheduler, *requests)


@pytest.mark.parametrize("options", [
    {}, {"preemption_mode": "swap", "num_cpu_blocks": 6}, {"scheduling_policy": "round_robin", "quantum": 2},
    {"enable_prefix_caching": False}, {"share_partial_blocks": False, "free_order": "append"}], ids=str)
def test_every_third_step_fails_and_all_get_their_tokens(options: dict) -> None:
    scheduler = make(8, max_num_batched_tokens=7, max_num_seqs=3, **options)
    executor, random = ShadowExecutor(scheduler), Random(1)
    requests = [add(scheduler, str(index), [index % 2] * (4 + index), max_tokens=7) for index in range(5)]
    for _ in range(30):
        with pytest.raises(StepFailed):
            scheduler.step(lambda plan: executor.fail(plan, random))
        check_invariants(scheduler)
        play(scheduler, 2, run=executor.run)
    finish_all(scheduler, *requests, executor=executor)


@pytest.mark.parametrize("broken", [KeyboardInterrupt, RuntimeError])
def test_a_plan_that_breaks_while_it_is_made_leaves_nothing_behind(monkeypatch, broken: type) -> None:
    """Ctrl-C, or a fault, after two of three requests are planned: all go on as if the step had not begun."""
    scheduler = make(20)
    executor = ShadowExecutor(scheduler)
    requests = [add(scheduler, name, range(start, start + 6), max_tokens=4) for start, name in enumerate("abc")]
    calls, admit = [], scheduler.kv.admit

    def third_breaks(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise broken
        return admit(*arguments)

    monkeypatch.setattr(scheduler.kv, "admit", third_breaks)
    with pytest.raises(broken):
        scheduler.step(executor.run)
    check_invariants(scheduler)
    assert [request.status.value for request in requests] == ["waiting"] * 3
    assert scheduler.kv.free_count == 20
    finish_all(scheduler, *requests, executor=executor)
