"""Fork and copy-on-write: a child shares every block of its parent; whoever writes first into a shared one copies."""
from __future__ import annotations

import pytest

from minipaged.core import EventLog, RequestStatus, SamplingParams, check_invariants
from minipaged.errors import RequestError

from .helpers import add, answer, finish_all, idle, make, play, queues, tables
from .shadow import ShadowExecutor


def forked(tokens: int = 6, **options):
    """A running parent with one output token and its child; the executor."""
    scheduler = make(options.pop("num_blocks", 8), **options)
    executor = ShadowExecutor(scheduler)
    parent = add(scheduler, "p", tokens, max_tokens=6)
    play(scheduler, run=executor.run)
    return scheduler, executor, parent, scheduler.fork("p", "c")


def test_a_fork_takes_no_memory() -> None:
    log = EventLog()
    scheduler, _, parent, child = forked(events=log)
    check_invariants(scheduler)
    assert tables(scheduler) == {"p": [0, 1], "c": [0, 1]}
    assert (scheduler.kv.free_count, scheduler.kv.allocator.ref_count[:2]) == (6, [2, 2])
    assert queues(scheduler) == (["p", "c"], [])
    assert child.token_ids == parent.token_ids and child.num_computed_tokens == 6
    assert [(event.kind, event.data) for event in log[-4:]] == [
        ("fork", {"request": "c", "parent": "p", "num_tokens": 7}),
        ("share", {"block": 0, "request": "c", "index": 0, "ref_count": 2, "num_tokens": 6}),
        ("share", {"block": 1, "request": "c", "index": 1, "ref_count": 2, "num_tokens": 6}),
        ("admit", {"request": "c", "cached_tokens": 0, "resumed": False, "was": "fork"})]


def test_the_first_writer_copies_the_second_writes_in_place() -> None:
    log = EventLog()
    scheduler, executor, parent, child = forked(events=log)
    plan = scheduler.schedule()
    assert plan.copies == [(1, 2)] and tables(scheduler) == {"p": [0, 2], "c": [0, 1]}
    assert scheduler.kv.allocator.ref_count[:3] == [2, 1, 1]
    assert [event.data for event in log.select("copy")] == [{"src": 1, "dst": 2, "request": "p", "index": 1}]
    scheduler.commit(plan, executor.run(plan))
    finish_all(scheduler, parent, executor=executor)
    assert child.token_ids == parent.token_ids


def test_the_child_writes_first_when_its_parent_has_to_wait() -> None:
    scheduler = make(8, max_num_seqs=2, scheduling_policy="round_robin", quantum=1)
    executor = ShadowExecutor(scheduler)
    add(scheduler, "p", 6, max_tokens=6)
    play(scheduler, run=executor.run)
    scheduler.fork("p", "c")
    add(scheduler, "x", 3)
    plan = play(scheduler, run=executor.run)[0]
    assert list(plan.num_scheduled_tokens) == ["c", "x"] and plan.copies == [(1, 2)]
    assert tables(scheduler) == {"p": [0, 1], "c": [0, 2], "x": [3]}


def test_a_fork_at_a_block_edge_copies_nothing() -> None:
    scheduler, executor, parent, child = forked(tokens=8)
    plan = play(scheduler, run=executor.run)[0]
    assert plan.copies == [] and tables(scheduler) == {"p": [0, 1, 2], "c": [0, 1, 3]}


@pytest.mark.parametrize("children", [2, 3])
def test_n_children_copy_the_tail_once_each_but_the_last_writes_in_place(children: int) -> None:
    scheduler, executor, parent, _ = forked(num_blocks=16)
    for index in range(1, children):
        scheduler.fork("p", f"c{index}")
    plan = play(scheduler, run=executor.run)[0]
    assert plan.copies == [(1, 2 + index) for index in range(children)]
    assert scheduler.kv.allocator.ref_count[:2] == [children + 1, 1]
    assert len({table[1] for table in tables(scheduler).values()}) == children + 1


def test_children_with_other_seeds_go_apart_and_each_is_right() -> None:
    scheduler = make(16)
    executor = ShadowExecutor(scheduler, vocab_size=1000)
    parent = add(scheduler, "p", 6, max_tokens=6, params={"seed": 1})
    play(scheduler, run=executor.run)
    others = [scheduler.fork("p", f"c{seed}", SamplingParams(max_tokens=6, seed=seed)) for seed in (2, 3)]
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)
    outputs = {tuple(one.output_token_ids) for one in (parent, *others)}
    assert len(outputs) == 3 and len({output[0] for output in outputs}) == 1  # the fork came after the first token
    assert all(one.num_output_tokens == 6 for one in (parent, *others))
    idle(scheduler)


@pytest.mark.parametrize("first", ["p", "c"])
def test_either_may_end_first(first: str) -> None:
    scheduler, executor, parent, child = forked()
    scheduler.abort(first)
    check_invariants(scheduler)
    assert scheduler.kv.allocator.ref_count[:2] == [1, 1]
    left = scheduler.running[0]
    assert play(scheduler, run=executor.run)[0].copies == []
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)
    assert left.num_output_tokens == 6
    idle(scheduler)


def test_a_fork_without_a_seat_waits_first_with_its_blocks() -> None:
    scheduler = make(8, max_num_seqs=1)
    executor = ShadowExecutor(scheduler)
    add(scheduler, "p", 6, max_tokens=3)
    other = add(scheduler, "x", 6, max_tokens=2)
    play(scheduler, run=executor.run)
    child = scheduler.fork("p", "c")
    check_invariants(scheduler)
    assert child.status is RequestStatus.PAUSED and queues(scheduler) == (["p"], ["c", "x"])
    assert tables(scheduler) == {"p": [0, 1], "c": [0, 1]}
    plans = []
    while scheduler.has_unfinished:
        plans += play(scheduler, run=executor.run)
    assert [list(plan.num_scheduled_tokens) for plan in plans] == [["p"], ["p"], ["c"], ["c"], ["x"], ["x"]]
    assert plans[2].admitted == [("c", 0, True)] and plans[2].scheduled[0].start == 6
    assert child.token_ids == list(range(child.token_ids[0], child.token_ids[0] + 6)) + child.output_token_ids
    assert child.num_output_tokens == 3 and other.num_output_tokens == 2


def test_a_fork_without_a_seat_keeps_the_order_of_priorities() -> None:
    scheduler = make(16, max_num_seqs=1, scheduling_policy="priority")
    add(scheduler, "p", 6, priority=5)
    play(scheduler)
    for name, priority in (("high", 0), ("low", 9)):
        add(scheduler, name, 3, priority=priority)
    scheduler.fork("p", "c")
    add(scheduler, "mid", 3, priority=3)
    assert queues(scheduler) == (["p"], ["high", "mid", "c", "low"])


def test_fork_of_a_waiting_request_is_a_second_one_that_waits() -> None:
    scheduler = make(8)
    add(scheduler, "p", range(6), max_tokens=2)
    child = scheduler.fork("p", "c")
    assert (child.status, queues(scheduler)) == (RequestStatus.WAITING, ([], ["c", "p"]))
    plan = play(scheduler)[0]
    assert plan.num_scheduled_tokens == {"c": 6, "p": 2}  # in the same step it finds the child's full block
    while scheduler.has_unfinished:
        play(scheduler)
    idle(scheduler)


def test_fork_in_the_middle_of_a_chunked_prompt() -> None:
    scheduler = make(16, max_num_batched_tokens=6)
    executor = ShadowExecutor(scheduler)
    parent = add(scheduler, "p", 14, max_tokens=3)
    play(scheduler, run=executor.run)
    child = scheduler.fork("p", "c")
    check_invariants(scheduler)
    assert tables(scheduler) == {"p": [0, 1], "c": [0, 1]} and child.num_computed_tokens == 6
    plan = play(scheduler, run=executor.run)[0]
    assert plan.copies == [(1, 2)]
    finish_all(scheduler, parent, child, executor=executor)


def test_a_fork_of_a_fork() -> None:
    scheduler, executor, parent, child = forked(num_blocks=12)
    grandchild = scheduler.fork("c", "g")
    assert scheduler.kv.allocator.ref_count[:2] == [3, 3]
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)
    assert parent.token_ids == child.token_ids == grandchild.token_ids
    idle(scheduler)


@pytest.mark.parametrize("mode", [{}, {"preemption_mode": "swap", "num_cpu_blocks": 8}], ids=str)
def test_a_shared_block_stays_when_its_sibling_is_preempted(mode: dict) -> None:
    scheduler = make(4, **mode)
    executor = ShadowExecutor(scheduler)
    add(scheduler, "p", 6, max_tokens=7)
    play(scheduler, run=executor.run)
    child = scheduler.fork("p", "c")
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)
    assert child.num_preemptions >= 1 and child.num_output_tokens == 7
    idle(scheduler)


@pytest.mark.parametrize(("parent", "child", "params", "message"), [
    ("x", "c", None, "request 'x' can't be forked: there is no such unfinished request"),
    ("p", "p", None, "request id 'p' is in use; give each request its own id"),
    ("p", "c", SamplingParams(max_tokens=1), "request c starts with 1 output tokens of p; its max_tokens 1 leaves none "
                                             "to generate"),
])
def test_a_bad_fork_changes_nothing(parent: str, child: str, params: SamplingParams | None, message: str) -> None:
    log = EventLog()
    scheduler = make(8, events=log)
    add(scheduler, "p", 6, max_tokens=6)
    play(scheduler)
    before = (len(log), tables(scheduler), queues(scheduler), list(scheduler.requests))
    with pytest.raises(RequestError) as refused:
        scheduler.fork(parent, child, params)
    assert str(refused.value) == message
    assert before == (len(log), tables(scheduler), queues(scheduler), list(scheduler.requests))


def test_a_child_with_its_own_limit() -> None:
    scheduler = make(8)
    add(scheduler, "p", 6, max_tokens=2)
    play(scheduler)
    child = scheduler.fork("p", "c", SamplingParams(max_tokens=4))
    play(scheduler, 3, run=answer)
    assert child.num_output_tokens == 4 and child.is_finished
    idle(scheduler)


def test_A1_a_block_that_stands_twice_in_a_table_has_one_holder_more_after_a_fork() -> None:
    """A sliding window that comes round writes its next block over its first: one block, two entries."""
    scheduler = make(8)
    parent = add(scheduler, "p", 8, max_tokens=6)
    play(scheduler, run=ShadowExecutor(scheduler).run)
    scheduler.kv.allocator.free(scheduler.kv.table("p").replace(1, 0))
    child = parent.fork("c")
    scheduler.kv.fork(parent, child)
    assert tables(scheduler) == {"p": [0, 0], "c": [0, 0]} and scheduler.kv.allocator.ref_count[0] == 2
    scheduler.kv.free(child)
    assert scheduler.kv.allocator.ref_count[0] == 1
