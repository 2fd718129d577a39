"""The KV cache manager: tables, all-or-nothing, copies collected for the plan. (Swapping: test_swap.)"""
from __future__ import annotations

import pytest

from minipaged.core import BlockAllocator, EventLog, KVCacheManager, PrefixCache, Request, check_invariants
from minipaged.errors import OutOfBlocks, RequestError

from .helpers import admit, append, moves, request, tables


def test_admission_asks_for_all_tokens_but_takes_the_blocks_of_the_chunk() -> None:
    kv = KVCacheManager(4, 4)
    one = request("a", 16)
    assert kv.admit(one, kv.match(one), 5) == (0, 1)
    assert kv.free_count == 2
    two = request("b", 9)
    assert kv.blocks_needed(two, kv.match(two)) == 3
    assert kv.admit(two, kv.match(two), 1) is None  # its first chunk would fit, the whole prompt would not
    assert kv.free_count == 2 and list(kv.tables()) == ["a"]


@pytest.mark.parametrize(("reserve", "table"), [(0, (2,)), (1, (2,)), (2, None)])
def test_admission_leaves_a_reserve(reserve: int, table: tuple | None) -> None:
    kv = KVCacheManager(4, 4)
    admit(kv, request("a", 8))
    one = request("b", 4)
    assert kv.admit(one, kv.match(one), 4, reserve) == table


def test_a_request_that_holds_blocks_is_not_admitted_again() -> None:
    kv = KVCacheManager(4, 4)
    one = request("a", 4)
    admit(kv, one)
    with pytest.raises(RequestError, match="request a already holds blocks"):
        kv.admit(one, kv.match(one), 4)
    child = one.fork("a")
    with pytest.raises(RequestError, match="request a already holds blocks"):
        kv.fork(one, child)
    assert kv.allocator.ref_count == [1, 0, 0, 0]


@pytest.mark.parametrize(("hit", "refs", "needed"), [
    pytest.param("held", 1, 1, id="a held full block is not counted"),
    pytest.param("free", 0, 2, id="a free one leaves the queue and is"),
])
def test_blocks_needed(hit: str, refs: int, needed: int) -> None:
    kv = KVCacheManager(8, 4)
    one = Request("a", range(4))
    admit(kv, one)
    if hit == "free":
        kv.free(one)
    two = Request("b", [*range(4), 9, 9])
    match = kv.match(two)
    assert match.blocks == [0] and kv.allocator.ref_count[0] == refs
    assert kv.blocks_needed(two, match) == needed
    before = kv.free_count
    assert kv.admit(two, match, 2) == (0, 1)
    assert before - kv.free_count == needed


@pytest.mark.parametrize("held", [True, False])
def test_a_shared_tail_takes_one_block_held_or_free(held: bool) -> None:
    kv = KVCacheManager(8, 4)
    one = Request("a", [1, 2])
    admit(kv, one)
    if not held:
        kv.free(one)
    two = Request("b", [1, 2, 3])
    match = kv.match(two)
    assert (match.tail, match.num_tokens, kv.blocks_needed(two, match)) == (0, 2, 1)
    before = kv.free_count
    assert kv.admit(two, match, 1) == ((1,) if held else (0,))
    assert before - kv.free_count == 1
    plan = moves(kv)
    assert plan.copies == ([(0, 1)] if held else [])


def test_growing_within_a_block_changes_nothing() -> None:
    kv = KVCacheManager(4, 4)
    one = request("a", 5)
    admit(kv, one)
    before = kv.table("a").blocks
    assert kv.grow(one, 5, 6) is before and kv.grow(one, 5, 8) is before
    assert kv.grow(one, 5, 9) == (0, 1, 2)
    assert kv.free_count == 1


def test_growing_copies_every_shared_block_that_is_written() -> None:
    kv = KVCacheManager(8, 4)
    one = request("a", 10)
    admit(kv, one)
    child = one.fork("c")
    kv.fork(one, child)
    assert kv.grow(child, 5, 13) == (0, 3, 4, 5)
    plan = moves(kv)
    assert plan.copies == [(1, 3), (2, 4)]
    assert kv.allocator.ref_count[:6] == [2, 1, 1, 1, 1, 1]


def test_each_move_is_in_one_plan() -> None:
    kv = KVCacheManager(4, 4)
    one = request("a", 3)
    admit(kv, one)
    child = one.fork("c")
    kv.fork(one, child)
    assert append(kv, child, [1]).copies == [(0, 1)]
    assert moves(kv).is_empty


def test_tables_blocks_and_slots() -> None:
    kv = KVCacheManager(4, 4)
    admit(kv, request("a", 5)), admit(kv, request("b", 3))
    assert kv.blocks_of("a") == kv.table("a").blocks == (0, 1) and kv.table("b").slot(2) == 10
    assert list(kv.tables()) == ["a", "b"]
    with pytest.raises(RequestError, match="request 'x' holds no blocks"):
        kv.table("x")


def test_a_reserve_that_does_not_fit_changes_nothing() -> None:
    kv = KVCacheManager(2, 4)
    one = request("a", 3)
    admit(kv, one)
    with pytest.raises(OutOfBlocks, match=r"2 block\(s\) of 4 tokens are needed, 1 of 2 are free"):
        kv.reserve(one, 3)
    assert tables(kv) == {"a": [0]}


def test_fork_shares_only_computed_blocks() -> None:
    kv = KVCacheManager(8, 4)
    one = request("a", 5)
    admit(kv, one)
    kv.reserve(one, 4)
    child = one.fork("c")
    kv.fork(one, child)
    assert tables(kv) == {"a": [0, 1, 2, 3], "c": [0, 1]}
    assert kv.allocator.ref_count[:4] == [2, 2, 1, 1]


def test_a_child_publishes_what_it_writes_under_its_parents_chain() -> None:
    kv = KVCacheManager(8, 4)
    one = Request("a", range(6))
    admit(kv, one)
    child = one.fork("c")
    kv.fork(one, child)
    append(kv, child, [70, 71, 72])
    assert kv.match(Request("x", [*range(6), 70, 71, 5])).blocks == [0, 2]
    append(kv, one, [80, 81])
    assert kv.match(Request("y", [*range(6), 80, 81, 5])).blocks == [0, 1]


def test_the_readers_own_allocator_and_cache_are_used() -> None:
    log = EventLog()
    allocator, cache = BlockAllocator(4, 4, free_order="append"), PrefixCache(4, 4)
    kv = KVCacheManager(4, 4, allocator=allocator, prefix_cache=cache, events=log)
    one = request("a", 5)
    admit(kv, one)
    assert kv.allocator is allocator and kv.prefix_cache is cache
    assert allocator.ref_count == [1, 1, 0, 0] and len(cache) == 1
    assert log[0].free_order == "append"


def test_partial_sharing_needs_caching() -> None:
    assert KVCacheManager(4, 4).prefix_cache.share_partial_blocks is True
    assert KVCacheManager(4, 4, share_partial_blocks=False).prefix_cache.share_partial_blocks is False
    assert KVCacheManager(4, 4, enable_prefix_caching=False).prefix_cache.share_partial_blocks is False


def test_free_gives_back_tail_first_by_key() -> None:
    kv = KVCacheManager(6, 4, share_partial_blocks=False)
    one = Request("a", range(14))
    admit(kv, one)
    kv.free(one)
    assert kv.allocator.free_blocks() == [3, 4, 5, 2, 1, 0]
    check_invariants(kv)
    with pytest.raises(RequestError, match="request 'a' holds no blocks"):
        kv.free(one)
