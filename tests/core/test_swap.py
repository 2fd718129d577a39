"""Swapping: blocks saved in the host pool and brought back, each distinct block once, first of all, bounded."""
from __future__ import annotations

import pytest

from minipaged.core import EventLog, KVCacheManager, RequestStatus, check_invariants

from .helpers import add, admit, answer, append, done, finish_all, idle, make, moves, play, queues, request, tables
from .shadow import ShadowExecutor


def swapping(num_blocks: int = 4, num_cpu_blocks: int = 8, **options):
    return make(num_blocks, preemption_mode="swap", num_cpu_blocks=num_cpu_blocks, **options)


def two_in_four(log: EventLog | None = None, **options):
    """a and b of 7 tokens in a pool of 4 blocks; in step 2 b is swapped out, its 8 tokens computed."""
    scheduler = swapping(events=log, **options)
    executor = ShadowExecutor(scheduler)
    a, b = add(scheduler, "a", 7, max_tokens=6), add(scheduler, "b", 7, max_tokens=6)
    plans = play(scheduler, 3, run=executor.run)
    return scheduler, executor, a, b, plans


def test_the_plan_names_the_pairs_and_b_comes_back_by_itself() -> None:
    scheduler, executor, a, b, plans = two_in_four()
    assert [plan.num_scheduled_tokens for plan in plans] == [{"a": 7, "b": 7}, {"a": 1, "b": 1}, {"a": 1}]
    assert (plans[2].preempted, plans[2].swap_outs, plans[2].swap_ins) == (["b"], [(2, 0), (3, 1)], [])
    assert b.status is RequestStatus.SWAPPED and b.num_computed_tokens == 8
    assert (tables(scheduler), scheduler.kv.host.free_count) == ({"a": [0, 1, 3]}, 6)
    plans = finish_all(scheduler, a, b, executor=executor)
    back = next(plan for plan in plans if plan.admitted)
    assert back.admitted == [("b", 0, True)]
    # block 2 was not used again: it is taken back as it is, with no copy; the other one is restored
    assert back.swap_ins == [(1, 3)] and back.scheduled[0].block_table[:2] == (2, 3)
    assert back.scheduled[0].start == 8 and back.num_scheduled_tokens["b"] == 1
    assert b.num_preemptions == 1


def test_recompute_would_compute_more() -> None:
    def total(**options) -> int:
        scheduler = make(4, enable_prefix_caching=False, **options)
        requests = [add(scheduler, name, 7, max_tokens=6) for name in "ab"]
        return sum(plan.total_tokens for plan in finish_all(scheduler, *requests))

    assert total(preemption_mode="swap", num_cpu_blocks=8) == 2 * 12
    assert total() == 2 * 12 + 8  # b's 8 computed tokens again


def test_swapped_requests_come_back_before_new_ones() -> None:
    scheduler, executor, a, b, _ = two_in_four()
    c = add(scheduler, "c", 4, max_tokens=1)
    assert queues(scheduler) == (["a"], ["b", "c"])
    order = [admission.request_id for plan in finish_all(scheduler, a, b, c, executor=executor)
             for admission in plan.admitted]
    assert order == ["b", "c"]


@pytest.mark.parametrize(("host", "mode"), [(2, "swap"), (1, "recompute")])
def test_without_host_room_it_falls_back_to_recompute(host: int, mode: str) -> None:
    log = EventLog()
    scheduler, executor, a, b, plans = two_in_four(log, num_cpu_blocks=host)
    assert [event.data for event in log.select("preempt")] == [
        {"request": "b", "mode": mode, "num_computed_tokens": 8, "unscheduled": 0}]
    assert plans[2].swap_outs == ([(2, 0), (3, 1)] if mode == "swap" else [])
    assert b.status == ("swapped" if mode == "swap" else "waiting")
    assert scheduler.kv.host.free_count == (0 if mode == "swap" else 1)
    finish_all(scheduler, a, b, executor=executor)


def test_without_a_host_pool_swap_mode_recomputes() -> None:
    scheduler = make(4, preemption_mode="swap")
    requests = [add(scheduler, name, 7, max_tokens=6) for name in "ab"]
    assert all(plan.swap_outs == [] for plan in finish_all(scheduler, *requests))


def test_host_blocks_come_back_after_the_step_that_reads_them() -> None:
    log = EventLog()
    scheduler, executor, a, b, _ = two_in_four(log)
    scheduler.abort("a")
    plan = scheduler.schedule()
    assert plan.admitted == [("b", 0, True)] and scheduler.kv.host.free_count == 6
    scheduler.commit(plan, executor.run(plan))
    assert scheduler.kv.host.free_count == 8
    assert [event.host_block for event in log.select("host_free")] == [0, 1]
    finish_all(scheduler, b, executor=executor)


def test_abort_of_a_swapped_request_frees_its_host_blocks() -> None:
    log = EventLog()
    scheduler, *_ = two_in_four(log)
    scheduler.abort("b")
    check_invariants(scheduler)
    assert scheduler.kv.host.free_count == 8
    assert [event.host_block for event in log.select("host_free")] == [0, 1]
    scheduler.abort("a")
    idle(scheduler)


def test_siblings_share_the_host_copy() -> None:
    log = EventLog()
    kv = KVCacheManager(8, 4, num_cpu_blocks=3, events=log)
    parent = request("p", 10)
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    append(kv, child, [5])  # copies the last block
    assert tables(kv) == {"p": [0, 1, 2], "c": [0, 1, 3]}
    assert kv.swap_out(parent)
    assert moves(kv).swap_outs == [(0, 0), (1, 1), (2, 2)]
    assert kv.allocator.ref_count[:4] == [1, 1, 0, 1]
    assert not kv.swap_out(child)  # its own last block finds no room: nothing changes
    assert moves(kv).swap_outs == [] and kv.host.allocator.ref_count == [1, 1, 1] and tables(kv) == {"c": [0, 1, 3]}
    kv.commit([])
    assert kv.swap_in(parent, 0) == (0, 1, 2)  # all three still hold their contents
    assert moves(kv).swap_ins == []
    kv.commit([])
    assert kv.host.free_count == 3 and kv.allocator.ref_count[:4] == [2, 2, 1, 1]
    assert kv.swap_out(child) and kv.swap_out(parent) is False
    assert moves(kv).swap_outs == [(0, 0), (1, 1), (3, 2)]
    assert [(event.block, event.host_block, event.request, event.copied) for event in log.select("swap_out")][-3:] == [
        (0, 0, "c", True), (1, 1, "c", True), (3, 2, "c", True)]


def test_a_sibling_that_follows_saves_only_what_is_its_own() -> None:
    kv = KVCacheManager(8, 4, num_cpu_blocks=4)
    parent = request("p", 10)
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    append(kv, child, [5])
    assert kv.swap_out(parent) and kv.swap_out(child)
    assert moves(kv).swap_outs == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert kv.host.allocator.ref_count == [2, 2, 1, 1] and kv.free_count == 8
    kv.commit([])
    other = request("x", 32)
    admit(kv, other)  # overwrites every device block
    kv.free(other)
    first = kv.swap_in(child, 0)
    plan = moves(kv)
    assert [pair[0] for pair in plan.swap_ins] == [0, 1, 3] and [pair[1] for pair in plan.swap_ins] == list(first)
    second = kv.swap_in(parent, 0)
    plan = moves(kv)
    assert [pair[0] for pair in plan.swap_ins] == [2]  # the shared ones are on the device again
    assert second[:2] == first[:2] and kv.allocator.ref_count[first[0]] == 2
    done(kv, parent, child)
    assert kv.host.free_count == 4


def test_a_twin_is_forgotten_when_its_device_block_is_written() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    parent = request("p", 3)
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    assert kv.swap_out(parent)
    assert moves(kv).swap_outs == [(0, 0)]
    assert kv.host.device_of.get(0) == 0 and kv.host.twins
    append(kv, child, [9])  # alone in block 0: written in place
    assert kv.host.device_of.get(0) is None and not kv.host.twins
    assert kv.swap_in(parent, 0) == (1,)
    assert moves(kv).swap_ins == [(0, 1)]


def test_a_shared_tail_is_copied_when_its_sibling_comes_back_to_write() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    parent = request("p", 3)
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    assert kv.swap_out(parent)
    moves(kv), kv.commit([])
    parent.token_ids.append(7)
    assert kv.swap_in(parent, 1) == (1,)  # block 0 is the child's: touched, then copied for the write
    plan = moves(kv)
    assert (plan.swap_ins, plan.copies) == ([], [(0, 1)])
    assert kv.allocator.ref_count[:2] == [1, 1]


def test_swap_in_counts_a_shared_tail_as_a_block_to_take() -> None:
    kv = KVCacheManager(2, 4, num_cpu_blocks=4)
    parent = request("p", 3)
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    assert kv.swap_out(parent)
    moves(kv), kv.commit([])
    admit(kv, request("x", 4))  # the pool is full: block 0 of the child, block 1 of x
    parent.token_ids.append(7)
    assert kv.swap_in(parent, 1) is None
    assert kv.allocator.ref_count == [1, 1] and kv.host.free_count == 3


def test_only_computed_blocks_are_saved() -> None:
    kv = KVCacheManager(8, 4, num_cpu_blocks=8)
    one = request("a", 5)
    admit(kv, one)
    kv.reserve(one, 4)
    assert kv.swap_out(one)
    assert moves(kv).swap_outs == [(0, 0), (1, 1)] and kv.free_count == 8


@pytest.mark.parametrize("computed", [4, 6])
def test_swapped_contents_are_published_again(computed: int) -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    one = request("a", range(computed))
    admit(kv, one)
    assert kv.swap_out(one)
    moves(kv), kv.commit([])
    other = request("x", 16)
    admit(kv, other)
    kv.free(other)
    assert kv.match(request("y", range(6))).num_tokens == 0  # evicted on the device
    one.token_ids.append(computed)
    assert kv.swap_in(one, 1) is not None
    assert kv.match(request("y", range(computed))).num_tokens == (4 if computed > 4 else 0)
    assert kv.match(request("y", range(8))).num_tokens == 4
    done(kv, one)
    assert kv.match(request("y", [*range(computed + 1), 0])).num_tokens == computed + 1


def test_hazard_swap_out_and_in_in_one_plan() -> None:
    """A paused request gives its blocks up for a swapped one: saved first, restored into the same blocks after."""
    scheduler = swapping(4, 8, scheduling_policy="round_robin", quantum=1, max_num_seqs=1,
                         enable_prefix_caching=False)
    executor = ShadowExecutor(scheduler)
    requests = [add(scheduler, name, 7, max_tokens=4) for name in "abc"]
    plans = finish_all(scheduler, *requests, executor=executor)
    both = [plan for plan in plans if plan.swap_outs and plan.swap_ins]
    assert both
    assert any({block for block, _ in plan.swap_outs} & {block for _, block in plan.swap_ins} for plan in both)
    for plan in both:  # a host block that is read in this step is not handed out in it
        assert not {host for _, host in plan.swap_outs} & {host for host, _ in plan.swap_ins}


def test_a_host_block_that_a_plan_reads_is_not_given_away_in_it() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=1)
    a, b = request("a", 4), request("b", 4)
    admit(kv, a)
    assert kv.swap_out(a)
    moves(kv), kv.commit([])
    filler = request("f", 16)
    admit(kv, filler)
    kv.free(filler)
    admit(kv, b)
    assert kv.swap_in(a, 0) is not None
    assert kv.swap_out(b) is False
    assert moves(kv).swap_outs == []
    kv.commit([])
    assert kv.swap_out(b) is True


def test_fork_of_a_swapped_request_starts_again_and_finds_what_is_left() -> None:
    scheduler, executor, a, b, _ = two_in_four()
    child = scheduler.fork("b", "c")
    check_invariants(scheduler)
    assert (child.status, child.num_computed_tokens) == (RequestStatus.WAITING, 0)
    assert queues(scheduler) == (["a"], ["c", "b"])
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)
    assert child.token_ids == b.token_ids
    idle(scheduler)


def test_cancel_brings_a_swapped_out_request_back_to_the_start() -> None:
    log = EventLog()
    scheduler = swapping(events=log)
    executor = ShadowExecutor(scheduler)
    a, b = add(scheduler, "a", 7, max_tokens=6), add(scheduler, "b", 7, max_tokens=6)
    play(scheduler, 2, run=executor.run)
    plan = scheduler.schedule()
    assert plan.swap_outs == [(2, 0), (3, 1)]
    scheduler.cancel(plan)
    check_invariants(scheduler)
    assert (b.status, b.num_computed_tokens, scheduler.kv.host.free_count) == (RequestStatus.WAITING, 0, 8)
    finish_all(scheduler, a, b, executor=executor)


def test_cancel_of_a_swap_in_recomputes_and_frees_the_host_blocks() -> None:
    scheduler, executor, a, b, _ = two_in_four()
    scheduler.abort("a")
    plan = scheduler.schedule()
    assert plan.admitted == [("b", 0, True)]
    scheduler.cancel(plan)
    check_invariants(scheduler)
    assert (b.status, b.num_computed_tokens) == (RequestStatus.WAITING, 0)
    assert (scheduler.kv.host.free_count, scheduler.kv.free_count) == (8, 4)
    finish_all(scheduler, b, executor=executor)


@pytest.mark.parametrize("host", [1, 2, 3, 4, 6, 16])
@pytest.mark.parametrize("victim", ["newest", "most_generated"])
def test_many_swaps_with_a_host_pool_of_any_size(host: int, victim: str) -> None:
    scheduler = swapping(5, host, victim=victim)
    requests = [add(scheduler, str(index), [index % 2] * (3 + index), max_tokens=8) for index in range(5)]
    finish_all(scheduler, *requests)


def test_the_same_token_for_all() -> None:
    scheduler = swapping(5, 6)
    for index in range(4):
        add(scheduler, str(index), [1] * 5, max_tokens=8)
    while scheduler.has_unfinished:
        play(scheduler, run=answer)
    idle(scheduler)


def test_cancel_leaves_alone_whoever_was_swapped_out_before() -> None:
    scheduler, executor, a, b, _ = two_in_four()
    scheduler.cancel(scheduler.schedule())
    check_invariants(scheduler)
    assert (b.status, b.num_computed_tokens, scheduler.kv.host.free_count) == (RequestStatus.SWAPPED, 8, 6)
    finish_all(scheduler, a, b, executor=executor)


def test_a_restore_that_did_not_happen_makes_no_twin() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    parent = request("p", 4)
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    assert kv.swap_out(parent) and kv.swap_out(child)
    moves(kv), kv.commit([])
    filler = request("f", 16)
    admit(kv, filler)
    kv.free(filler)
    assert kv.swap_in(parent, 0) is not None
    plan = moves(kv)
    assert [host for host, _ in plan.swap_ins] == [0]
    kv.cancel(plan)
    kv.free(parent)
    assert kv.host.device_of.get(0) is None and kv.host.allocator.ref_count[0] == 1
    assert kv.swap_in(child, 0) is not None
    assert [host for host, _ in moves(kv).swap_ins] == [0]  # restored, not taken over


def test_who_was_scheduled_already_is_swapped_too() -> None:
    log = EventLog()
    scheduler = swapping(4, events=log, victim="most_generated")
    add(scheduler, "a", 5, max_tokens=12)
    play(scheduler, 2)
    add(scheduler, "b", 8, max_tokens=9)
    play(scheduler, 2)  # in the second one a comes first and fits; then b needs a third block
    assert [(event.request, event.mode, event.unscheduled) for event in log.select("preempt")] == [("a", "swap", 1)]
