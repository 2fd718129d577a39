"""The block table: logical block -> physical block, position -> slot."""
from __future__ import annotations

import pytest

from minipaged.core import BlockTable
from minipaged.errors import BlockError


def test_text3_append_get_physical_num_blocks() -> None:
    table = BlockTable(16)
    for block in (3, 7, 12, 1):
        table.append(block)
    assert table.num_blocks == 4
    assert [table.get_physical(logical) for logical in range(4)] == [3, 7, 12, 1]
    assert table.blocks == (3, 7, 12, 1)


@pytest.mark.parametrize(("position", "slot"), [(0, 48), (15, 63), (16, 112), (47, 207), (48, 16), (49, 17)])
def test_position_to_slot_is_block_times_size_plus_offset(position: int, slot: int) -> None:
    assert BlockTable(16, [3, 7, 12, 1]).slot(position) == slot


def test_slots_of_a_chunk_cross_a_block_edge() -> None:
    assert BlockTable(4, [5, 2, 9]).slots(2, 5) == [22, 23, 8, 9, 10]
    assert BlockTable(4, [5]).slots(0, 0) == []


def test_replace_returns_the_old_block_and_leaves_the_others() -> None:
    table = BlockTable(4, [5, 2, 9])
    before = table.blocks
    assert table.replace(1, 7) == 2
    assert table.blocks == (5, 7, 9)
    assert before == (5, 2, 9)  # a plan that took it keeps the table of its moment


def test_extend_appends_in_order() -> None:
    table = BlockTable(4, [5])
    table.extend([2, 9])
    assert table.blocks == (5, 2, 9)


@pytest.mark.parametrize("logical", [-1, 2, 100])
def test_an_entry_that_is_not_there_raises_and_says_how_many_are(logical: int) -> None:
    table = BlockTable(4, [5, 2])
    for use in (table.get_physical, lambda at: table.replace(at, 9), lambda at: table.slot(at * 4)):
        with pytest.raises(BlockError, match=f"logical block {logical} .*has 2 block"):
            use(logical)
    assert table.blocks == (5, 2)


def test_block_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="block_size is 0; it must be a whole number of at least 1"):
        BlockTable(0)
    assert BlockTable(1, [4, 6]).slot(1) == 6


def test_repr_shows_the_table() -> None:
    assert repr(BlockTable(4, [5, 2])) == "BlockTable(block_size=4, blocks=[5, 2])"
