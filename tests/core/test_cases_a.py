"""Public bug reports, part A: allocator, counts, leaks (A1 to A3 and A7's allocator half are in test_allocator)."""
from __future__ import annotations

import pytest

from minipaged.core import BlockTable, KVCacheManager, PrefixCache, Request, check_invariants

from .helpers import add, admit, answer, append, finish_all, idle, make, play, queues, request, tables
from .shadow import ShadowExecutor


@pytest.mark.parametrize("budget", [2048, 4])
def test_A4_the_last_token_takes_no_slot_and_nothing_is_left_at_idle(budget: int) -> None:
    scheduler = make(300, 1, max_num_batched_tokens=budget)
    one = add(scheduler, "a", 5, max_tokens=200)
    plans = finish_all(scheduler, one)
    assert one.num_tokens == 205 and one.num_computed_tokens == 204
    assert len(plans[-1].scheduled[0].block_table) == 204
    assert len(plans) == 200 + (budget == 4)


def test_A5_one_block_is_counted_once_however_often_its_tokens_are_rewritten() -> None:
    cache = PrefixCache(4, 4, share_partial_blocks=False)
    cache.store([1, 2, 3, 4], [0])
    cache.store([5, 6, 7, 8], [0])
    assert len(cache) == 1
    assert cache.match_prefix([1, 2, 3, 4, 0]) == ([], 0)
    assert cache.match_prefix([5, 6, 7, 8, 0]) == ([0], 4)


def test_A5_free_and_held_blocks_are_the_whole_pool_after_every_step() -> None:
    scheduler = make(6)
    requests = [add(scheduler, name, range(6), max_tokens=9) for name in "abc"]
    executor = ShadowExecutor(scheduler)
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)
        held = {block for blocks in tables(scheduler).values() for block in blocks}
        assert scheduler.kv.free_count + len(held) == 6
        assert len(scheduler.kv.prefix_cache) <= 6
    assert {len(one.output_token_ids) for one in requests} == {9}


def test_A6_twins_of_a_step_then_a_third_that_writes() -> None:
    scheduler = make(8)
    a, b = add(scheduler, "a", range(8)), add(scheduler, "b", range(8))
    executor = ShadowExecutor(scheduler)
    play(scheduler, run=executor.run)
    assert tables(scheduler) == {"a": [0, 1], "b": [0, 2]}  # b finds the block that a fills in the same step
    c = add(scheduler, "c", 8)
    finish_all(scheduler, a, b, c, executor=executor)


@pytest.mark.parametrize(("tokens", "blocks"), [(1, [0]), (4, [0]), (5, [0, 1]), (8, [0, 1])])
def test_A7_a_last_block_that_is_exactly_full(tokens: int, blocks: list[int]) -> None:
    kv = KVCacheManager(2, 4)
    one = request("a", tokens)
    assert admit(kv, one) == (0, blocks)
    assert kv.table("a").slots(0, tokens) == list(range(tokens))
    kv.free(one)
    assert kv.free_count == 2


def test_A7_an_empty_table_has_no_block() -> None:
    assert BlockTable(4).num_blocks == 0 and BlockTable(4).slots(0, 0) == []


def test_A8_a_plan_that_does_not_run_withdraws_what_it_published() -> None:
    scheduler = make(8)
    add(scheduler, "a", range(8))
    plan = scheduler.schedule()
    assert scheduler.kv.match(request("x", range(9))).num_tokens == 8
    scheduler.cancel(plan)
    assert scheduler.kv.match(request("x", range(9))).num_tokens == 0
    scheduler.abort("a")
    again = add(scheduler, "again", range(8))
    finish_all(scheduler, again)
    assert again.num_cached_tokens == 0


def test_A8_whoever_hit_it_in_that_plan_is_unscheduled_too() -> None:
    scheduler = make(8)
    a, b = add(scheduler, "a", range(8)), add(scheduler, "b", range(8))
    plan = scheduler.schedule()
    assert plan.num_scheduled_tokens == {"a": 8, "b": 4}
    scheduler.cancel(plan)
    check_invariants(scheduler)
    assert queues(scheduler) == ([], ["a", "b"])
    assert (a.num_computed_tokens, b.num_computed_tokens, scheduler.kv.free_count) == (0, 0, 8)
    assert finish_all(scheduler, a, b)[0].num_scheduled_tokens == {"a": 8, "b": 4}


def test_A9a_a_block_that_a_table_holds_is_never_a_victim() -> None:
    scheduler = make(4)
    a = add(scheduler, "a", range(8), max_tokens=3)
    play(scheduler, run=(executor := ShadowExecutor(scheduler)).run)
    add(scheduler, "b", 12)
    plan = play(scheduler, run=executor.run)[0]
    assert list(plan.num_scheduled_tokens) == ["a"]  # b has to wait: only one block is free
    assert scheduler.kv.match(request("x", range(9))).blocks == [0, 1]
    assert tables(scheduler) == {"a": [0, 1, 2]}
    finish_all(scheduler, a, scheduler.requests["b"], executor=executor)


def test_A9b_a_failed_suffix_gives_the_matched_blocks_back() -> None:
    kv = KVCacheManager(6, 4)
    admit(kv, request("a", [*range(8), 90, 91, 92]))
    admit(kv, request("held", 5))
    before = (list(kv.allocator.ref_count), kv.allocator.free_blocks())
    b = Request("b", [*range(8), *range(200, 212)])
    match = kv.match(b)
    assert match.blocks == [0, 1] and kv.blocks_needed(b, match) == 3
    assert kv.admit(b, match, 12) is None
    assert before == (list(kv.allocator.ref_count), kv.allocator.free_blocks())
    assert "b" not in kv.tables()


def test_growth_is_all_or_nothing() -> None:
    kv = KVCacheManager(3, 4)
    one = request("a", 3)
    admit(kv, one)
    child = one.fork("c")
    kv.fork(one, child)
    one.token_ids += range(10)  # would need the copy of one block and three new ones
    before = (list(kv.allocator.ref_count), kv.allocator.free_blocks(), tables(kv))
    assert kv.grow(one, 3, 13) is None
    assert before == (list(kv.allocator.ref_count), kv.allocator.free_blocks(), tables(kv))
    assert kv.grow(one, 3, 8) == (1, 2)


def test_reserve_takes_blocks_up_to_a_number() -> None:
    kv = KVCacheManager(5, 4)
    one = request("a", 3)
    admit(kv, one)
    kv.reserve(one, 3)
    assert tables(kv) == {"a": [0, 1, 2]}
    kv.reserve(one, 3)
    assert tables(kv) == {"a": [0, 1, 2]} and kv.free_count == 2
    assert append(kv, one, [1] * 9).copies == [] and tables(kv) == {"a": [0, 1, 2]}


def test_idle_after_many_lives() -> None:
    scheduler = make(5)
    for round_ in range(5):
        for name in "abcd":
            add(scheduler, f"{name}{round_}", range(round_, round_ + 6), max_tokens=3)
        while scheduler.has_unfinished:
            play(scheduler, run=answer)
        idle(scheduler)
