"""The block allocator: free queue and reference counts, by the situations of public bug reports (A1 to A9) and
of vLLM's own tests (FQ, BLK, V1). Block numbers start at 0: there is no null block."""
from __future__ import annotations

import pytest

from minipaged.core import BlockAllocator, EventLog
from minipaged.errors import BlockError, OutOfBlocks
from minipaged.event_file import to_dict


def state(pool: BlockAllocator) -> tuple:
    return pool.free_blocks(), list(pool.ref_count), pool.free_count


def held(pool: BlockAllocator, count: int) -> list[int]:
    return pool.allocate_many(count)


# ---- taking and giving back ----

def test_FQ1_one_block() -> None:
    pool = BlockAllocator(1, 4)
    assert state(pool) == ([0], [0], 1)
    assert pool.allocate() == 0
    assert state(pool) == ([], [1], 0)
    pool.free(0)
    assert state(pool) == ([0], [0], 1)


def test_FQ2_FQ5_front_middle_and_back() -> None:
    pool = BlockAllocator(5, 4, free_order="append")
    assert pool.free_blocks() == [0, 1, 2, 3, 4]
    assert pool.allocate() == 0
    assert pool.free_blocks() == [1, 2, 3, 4]
    pool.touch(2)
    assert state(pool) == ([1, 3, 4], [1, 0, 1, 0, 0], 3)
    pool.free(2)
    assert state(pool) == ([1, 3, 4, 2], [1, 0, 0, 0, 0], 4)
    assert pool.allocate_many(4) == [1, 3, 4, 2]
    assert state(pool) == ([], [1] * 5, 0)
    with pytest.raises(OutOfBlocks, match="^1 block.* of 4 tokens are needed, 0 of 5 are free; free some, or make a "
                                          "pool with more blocks$"):
        pool.allocate()
    assert state(pool) == ([], [1] * 5, 0)


def test_FQ2_touch_takes_out_of_either_end() -> None:
    pool = BlockAllocator(3, 4)
    pool.touch(0)
    assert pool.free_blocks() == [1, 2]
    pool.touch(2)
    assert pool.free_blocks() == [1]
    pool.touch(1)
    assert state(pool) == ([], [1, 1, 1], 0)


def test_FQ3_releases_append_as_lists() -> None:
    pool = BlockAllocator(6, 4, free_order="append")
    held(pool, 6)
    pool.free_many([])
    assert pool.free_blocks() == []
    pool.free(0)
    pool.free_many([5, 4])  # tail first
    assert pool.free_blocks() == [0, 4, 5]
    pool.free_many([3, 2, 1])
    assert state(pool) == ([0, 4, 5, 1, 2, 3], [0] * 6, 6)


def test_FQ4_many_from_the_front() -> None:
    pool = BlockAllocator(6, 4, free_order="append")
    held(pool, 6)
    pool.free_many([2, 0, 4, 5, 3, 1])
    assert pool.free_blocks() == [1, 3, 5, 4, 0, 2]
    taken = [(pool.allocate_many(count), pool.free_count) for count in (0, 1, 2, 3)]
    assert taken == [([], 6), ([1], 5), ([3, 5], 3), ([4, 0, 2], 0)]


def test_BLK_a_new_block_has_count_0_and_an_allocated_one_count_1() -> None:
    pool = BlockAllocator(3, 4)
    assert pool.ref_count == [0, 0, 0]
    pool.allocate()
    assert pool.ref_count == [1, 0, 0]
    assert (pool.num_blocks, pool.block_size, pool.free_order) == (3, 4, "unhashed_first")
    assert BlockAllocator(3).block_size == 16


def test_V1_allocate_until_empty_free_and_free_again() -> None:
    pool = BlockAllocator(4, 4)
    assert [pool.allocate() for _ in range(4)] == [0, 1, 2, 3]
    assert pool.free_count == 0
    with pytest.raises(OutOfBlocks):
        pool.allocate()
    for freed, block in enumerate((2, 0, 3, 1), 1):
        pool.free(block)
        assert pool.free_count == freed
    for block in range(4):
        with pytest.raises(BlockError, match=f"block {block} is already free; it can't be freed twice"):
            pool.free(block)
    assert pool.free_count == 4


def test_many_or_none_are_taken() -> None:
    pool = BlockAllocator(4, 4)
    pool.allocate()
    before = state(pool)
    with pytest.raises(OutOfBlocks, match=r"^4 block\(s\) of 4 tokens are needed, 3 of 4 are free"):
        pool.allocate_many(4)
    assert state(pool) == before
    assert pool.allocate_many(3) == [1, 2, 3]


def test_text5_free_count_and_utilization() -> None:
    pool = BlockAllocator(8, 16)
    assert (pool.free_count, pool.utilization) == (8, 0.0)
    blocks = held(pool, 2)
    assert (pool.free_count, pool.utilization) == (6, 0.25)
    pool.increment_ref(blocks[0])
    assert (pool.free_count, pool.utilization) == (6, 0.25)
    held(pool, 6)
    assert pool.utilization == 1.0


# ---- reference counts ----

def test_A1_fork_counts_once_for_each_distinct_block_and_free_too() -> None:
    """A ring over a sliding window may name one block twice; the table level is what we have of it."""
    pool = BlockAllocator(4, 4)
    ring = [0, 1, 0]
    held(pool, 2)
    for block in dict.fromkeys(ring):
        pool.increment_ref(block)
    pool.free_many(ring)
    assert state(pool) == ([2, 3], [1, 1, 0, 0], 2)
    pool.free_many(ring)
    assert state(pool) == ([1, 0, 2, 3], [0] * 4, 4)


def test_A2_second_free_raises_and_changes_nothing() -> None:
    pool = BlockAllocator(4, 4)
    block = pool.allocate()
    pool.free(block)
    before = state(pool)
    with pytest.raises(BlockError, match="block 0 is already free"):
        pool.free(block)
    assert state(pool) == before
    assert sorted(pool.allocate() for _ in range(4)) == [0, 1, 2, 3]


def test_A3_a_release_that_names_a_block_twice_frees_it_once() -> None:
    pool = BlockAllocator(8, 4)
    held(pool, 8)
    pool.free_many([3, 5, 3])
    assert state(pool) == ([5, 3], [1, 1, 1, 0, 1, 0, 1, 1], 2)


def test_A3_a_release_with_one_bad_block_changes_nothing() -> None:
    pool = BlockAllocator(4, 4)
    held(pool, 3)
    before = state(pool)
    for bad in (3, 4, -1, "0", 1.5, None):
        with pytest.raises(BlockError, match=f"block {bad!r}"):
            pool.free_many([0, 1, bad])
        assert state(pool) == before


def test_A7_new_block_has_count_1_and_free_gives_it_back() -> None:
    pool = BlockAllocator(2, 4)
    blocks = held(pool, 2)
    assert pool.ref_count == [1, 1]
    pool.free_many(blocks)
    assert state(pool) == ([1, 0], [0, 0], 2)


def test_a_shared_block_comes_back_with_its_last_holder() -> None:
    pool = BlockAllocator(2, 4)
    block = pool.allocate()
    pool.increment_ref(block)
    pool.touch(block)
    assert state(pool) == ([1], [3, 0], 1)
    for count in (2, 1):
        pool.free(block)
        assert state(pool) == ([1], [count, 0], 1)
    pool.free(block)
    assert state(pool) == ([0, 1], [0, 0], 2)


def test_a_free_block_cannot_be_shared_but_a_hit_may_touch_it() -> None:
    pool = BlockAllocator(2, 4)
    with pytest.raises(BlockError, match="block 1 is free; a free block can't be shared"):
        pool.increment_ref(1)
    assert state(pool) == ([0, 1], [0, 0], 2)
    pool.touch(1)
    assert state(pool) == ([0], [0, 1], 1)


@pytest.mark.parametrize("operation", ["increment_ref", "touch", "free"])
@pytest.mark.parametrize("block", [-1, 2, "a", None, 0.0])
def test_unknown_block_is_named_and_nothing_changes(operation: str, block: object) -> None:
    pool = BlockAllocator(2, 4)
    pool.allocate()
    with pytest.raises(BlockError, match=f"there is no block {block!r}; the pool has blocks 0 to 1"):
        getattr(pool, operation)(block)
    assert state(pool) == ([1], [1, 0], 1)


# ---- where a released block goes ----

#: blocks 0 to 5 are held, 6 and 7 free; [0, 1, 2, 3, 4] is released, and 0, 1, 3 can be found by their contents
ORDERS = {"unhashed_first": [4, 2, 6, 7, 3, 1, 0], "append": [6, 7, 4, 3, 2, 1, 0]}


@pytest.mark.parametrize("order", ORDERS)
def test_release_order_by_contents(order: str) -> None:
    events = EventLog()
    pool = BlockAllocator(8, 4, free_order=order, events=events)
    held(pool, 6)
    pool.free_many([0, 1, 2, 3, 4], keep=[True, True, False, True, False, False, False, False], request_id="a")
    assert pool.free_blocks() == ORDERS[order]
    freed = [(event.block, event.end, event.cached, event.request) for event in events.select("free")]
    assert freed == {
        "unhashed_first": [(2, "front", False, "a"), (4, "front", False, "a"),
                           (3, "back", True, "a"), (1, "back", True, "a"), (0, "back", True, "a")],
        "append": [(4, "back", False, "a"), (3, "back", True, "a"), (2, "back", False, "a"), (1, "back", True, "a"),
                   (0, "back", True, "a")]}[order]


def test_events_of_allocate_and_release() -> None:
    events = EventLog()
    pool = BlockAllocator(3, 4, events=events)
    pool.allocate_many(2, "a", 5)
    pool.increment_ref(1)
    pool.free_many([0, 1], request_id="a")
    pool.allocate()
    assert [to_dict(event) for event in events] == [
        {"time": 0, "step": -1, "kind": "allocate", "block": 0, "request": "a", "ref_count": 1, "index": 5},
        {"time": 1, "step": -1, "kind": "allocate", "block": 1, "request": "a", "ref_count": 1, "index": 6},
        {"time": 2, "step": -1, "kind": "release", "block": 1, "request": "a", "ref_count": 1},
        {"time": 3, "step": -1, "kind": "free", "block": 0, "request": "a", "end": "front", "cached": False},
        {"time": 4, "step": -1, "kind": "allocate", "block": 0, "request": None, "ref_count": 1, "index": None}]


# ---- bad pools ----

@pytest.mark.parametrize(("blocks", "size"), [(0, 4), (-1, 4), (4, 0), (4, -2)])
def test_a_pool_without_blocks_or_tokens_is_refused(blocks: int, size: int) -> None:
    with pytest.raises(ValueError, match="must be a whole number of at least 1"):
        BlockAllocator(blocks, size)
    assert BlockAllocator(1, 1).free_blocks() == [0]


def test_unknown_free_order_names_the_choices() -> None:
    with pytest.raises(ValueError, match="free_order is 'lifo'; it must be one of unhashed_first, append"):
        BlockAllocator(4, 4, free_order="lifo")
