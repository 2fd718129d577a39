"""The scenarios that only vLLM V0 tested: fork, copy-on-write, swap, watermark (V1 to V12). Block size 4, 4 device
and 4 host blocks unless a test says otherwise. V1 is in test_allocator.

Not here: V6's sliding window (we have no ring over a window; its "one reference for each distinct block" is
test_A1 of test_allocator), V8's verdict NEVER (`add_request` refuses what can never fit, by name), and R1, the radix
tree (we have none).
"""
from __future__ import annotations

import pytest

from minipaged.core import KVCacheManager
from minipaged.errors import RequestError

from .helpers import add, admit, append, done, make, moves, play, queues, request, tables


@pytest.mark.parametrize(("watermark", "fit"), [(0.0, 4), (0.25, 3), (0.24, 4), (0.5, 2), (0.99, 1)])
def test_V2_watermark(watermark: float, fit: int) -> None:
    scheduler = make(4, watermark=watermark)
    for name in "abcde":
        add(scheduler, name, 4)
    assert list(play(scheduler)[0].num_scheduled_tokens) == list("abcde"[:fit])
    assert scheduler.kv.free_count == 4 - fit


def test_V2_a_lone_request_may_use_the_whole_pool() -> None:
    scheduler = make(4, watermark=0.5)
    add(scheduler, "a", 16, max_tokens=1)
    assert play(scheduler)[0].num_scheduled_tokens == {"a": 16}
    assert not scheduler.has_unfinished


def test_V2_watermark_holds_for_swapped_requests_too() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    one = request("a", 5)
    admit(kv, one)
    assert kv.swap_out(one)
    moves(kv), kv.commit([])
    admit(kv, request("b", 4))
    one.token_ids.append(1)
    assert kv.swap_in(one, 1, reserve=2) is None
    assert tables(kv) == {"b": [2]} and kv.host.free_count == 2
    assert kv.swap_in(one, 1, reserve=1) == (0, 1)


def test_V3_append() -> None:
    kv = KVCacheManager(4, 4)
    one = request("a", 4)
    admit(kv, one)
    assert append(kv, one, []).copies == [] and tables(kv) == {"a": [0]}
    assert append(kv, one, [1, 2, 3, 4]).copies == [] and tables(kv) == {"a": [0, 1]}
    assert kv.free_count == 2


def test_V4_V5_fork_and_copy_on_write() -> None:
    kv = KVCacheManager(4, 4)
    parent = request("p", [1, 2, 3])
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    assert tables(kv) == {"p": [0], "c": [0]}
    assert (kv.free_count, kv.allocator.ref_count) == (3, [2, 0, 0, 0])
    assert append(kv, child, [4]).copies == [(0, 1)]
    assert tables(kv) == {"p": [0], "c": [1]}
    assert (kv.free_count, kv.allocator.ref_count) == (2, [1, 1, 0, 0])
    assert append(kv, parent, [5]).copies == []  # alone again: it writes in place


def test_V6_fork_of_a_longer_table_copies_the_written_block_only() -> None:
    kv = KVCacheManager(8, 1)
    parent = request("p", [1, 2, 3])
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    assert kv.free_count == 5
    append(kv, child, [4])
    append(kv, parent, [5])
    assert tables(kv) == {"p": [0, 1, 2, 4], "c": [0, 1, 2, 3]}
    assert kv.allocator.ref_count[:5] == [2, 2, 2, 1, 1]
    kv.free(parent)
    assert kv.free_count == 4
    kv.free(child)
    assert kv.free_count == 8


def test_V7_swap_out_and_in() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    one = request("a", 4)
    admit(kv, one)
    append(kv, one, [9])
    assert tables(kv) == {"a": [0, 1]}
    assert kv.swap_out(one)
    assert moves(kv).swap_outs == [(0, 0), (1, 1)]
    assert (kv.free_count, kv.host.free_count, tables(kv)) == (4, 2, {})
    kv.commit([])
    other = request("b", 16)  # takes every device block: nothing is left of the old ones
    admit(kv, other)
    assert kv.free_count == 0
    kv.free(other)
    one.token_ids.append(8)
    assert kv.swap_in(one, 1) == tuple(tables(kv)["a"])
    plan = moves(kv)
    assert [host for host, _ in plan.swap_ins] == [0, 1]
    assert [block for _, block in plan.swap_ins] == tables(kv)["a"]
    assert (kv.free_count, kv.host.free_count) == (2, 2)  # this step still reads the host blocks
    done(kv, one)
    assert (kv.free_count, kv.host.free_count) == (2, 4)


def test_V7_blocks_shared_by_siblings_are_saved_once() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    parent = request("p", 6)
    admit(kv, parent)
    child = parent.fork("c")
    kv.fork(parent, child)
    assert kv.swap_out(parent) and kv.swap_out(child)
    assert moves(kv).swap_outs == [(0, 0), (1, 1)]
    assert (kv.free_count, kv.host.free_count) == (4, 2)
    assert kv.host.allocator.ref_count == [2, 2, 0, 0]


def test_V8_swap_in_waits_for_all_blocks_and_changes_nothing() -> None:
    kv = KVCacheManager(4, 4, num_cpu_blocks=4)
    one = request("a", 8)
    admit(kv, one)
    assert kv.swap_out(one)
    moves(kv), kv.commit([])
    one.token_ids.append(9)  # 9 tokens: 3 blocks
    blocker = request("b", 8)
    admit(kv, blocker)
    before = (kv.allocator.free_blocks(), list(kv.allocator.ref_count), kv.host.free_count)
    assert kv.swap_in(one, 1) is None
    assert before == (kv.allocator.free_blocks(), list(kv.allocator.ref_count), kv.host.free_count)
    kv.free(blocker)
    assert len(kv.swap_in(one, 1)) == 3


def test_V9_free_then_the_table_is_unknown() -> None:
    kv = KVCacheManager(4, 4)
    one = request("a", 9)
    admit(kv, one)
    assert kv.free_count == 1
    kv.free(one)
    assert kv.free_count == 4
    for use in (lambda: kv.table("a"), lambda: kv.free(one), lambda: kv.swap_out(one)):
        with pytest.raises(RequestError, match="request 'a' holds no blocks"):
            use()


def test_V10_reset() -> None:
    kv = KVCacheManager(4, 4)
    one = request("a", range(9))
    admit(kv, one)
    assert kv.reset_prefix_cache() is False  # live blocks: refused, and nothing is forgotten
    assert kv.match(request("b", range(9))).num_tokens == 8
    kv.free(one)
    assert kv.reset_prefix_cache() is True
    assert kv.free_count == 4 and kv.prefix_cache.covered == [0] * 4
    assert kv.match(request("b", range(9))).num_tokens == 0


def test_V11_a_chunk_marks_only_computed_blocks() -> None:
    scheduler = make(16, long_prefill_token_threshold=10, share_partial_blocks=False)
    add(scheduler, "a", 63)
    full = []
    for _ in range(3):
        play(scheduler)
        full.append(len(scheduler.kv.prefix_cache))
    assert full == [2, 5, 7]
    assert scheduler.kv.match(request("b", scheduler.requests["a"].token_ids)).num_tokens == 28


def test_V12_recompute_preemption() -> None:
    scheduler = make(2)
    add(scheduler, "a", 4)
    b = add(scheduler, "b", 4)
    assert play(scheduler)[0].num_scheduled_tokens == {"a": 4, "b": 4}
    plan = play(scheduler)[0]
    assert plan.num_scheduled_tokens == {"a": 1} and plan.preempted == ["b"]
    assert (plan.copies, plan.swap_outs, plan.swap_ins) == ([], [], [])
    assert queues(scheduler) == (["a"], ["b"]) and b.num_computed_tokens == 0
    scheduler.abort("a")
    plan = play(scheduler)[0]
    assert plan.num_scheduled_tokens == {"b": 5}
    assert plan.admitted == [("b", 0, True)]
