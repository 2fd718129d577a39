"""Blocks, concurrency, the split of waste and the savings by sharing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minipaged.formulas import (
    Reservation,
    WasteSplit,
    blocks_for_tokens,
    blocks_that_fit,
    expected_tail_waste,
    max_concurrency,
    prefix_sharing,
    split_waste,
)
from minipaged.presets import preset

GIB = 2**30


def paged_reservation(current: int, block_size: int, final: int | None = None) -> Reservation:
    """What a paged cache holds for a request of ``current`` tokens: whole blocks, no more."""
    held = blocks_for_tokens(current, block_size) * block_size
    return Reservation(current, current if final is None else final, held)


@pytest.mark.parametrize(
    ("tokens", "block_size", "blocks"),
    [(50, 16, 4), (17, 16, 2), (17, 64, 1), (16, 16, 1), (0, 16, 0), (1, 1, 1)],
)
def test_tokens_to_blocks(tokens, block_size, blocks):
    assert blocks_for_tokens(tokens, block_size) == blocks


@pytest.mark.parametrize(("block_size", "empty"), [(64, 47), (16, 15)])
def test_17_tokens_leave_47_slots_of_64_and_15_of_32(block_size, empty):
    assert split_waste([paged_reservation(17, block_size)]).internal == empty


def test_blocks_that_fit_are_whole():
    assert blocks_that_fit(13_107_200 * 3 - 1, 13_107_200) == 2
    assert blocks_that_fit(0, 1) == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda: blocks_for_tokens(-1),
        lambda: blocks_for_tokens(3, 0),
        lambda: blocks_that_fit(10, 0),
        lambda: max_concurrency(8, 0),
        lambda: max_concurrency(8, 16, 4, shared_prefix=17),
    ],
)
def test_impossible_numbers_are_refused(call):
    with pytest.raises(ValueError):
        call()


# ---------------------------------------------------------------- concurrency


def test_r1_distill_qwen_1_5b_concurrency():
    # 28,672 B a token: 1 GiB holds 37,449 tokens, six times what the hidden size would suggest
    shape = preset("r1-distill-qwen-1.5b").shape
    blocks = blocks_that_fit(GIB, shape.block_bytes(16))
    assert blocks == 2340
    assert max_concurrency(blocks, 4096, 16) == 9


@given(st.integers(0, 300), st.integers(1, 60), st.integers(1, 9), st.data())
def test_concurrency_is_what_fits_and_one_more_does_not(num_blocks, tokens, block_size, data):
    prefix = data.draw(st.integers(0, tokens))
    n = max_concurrency(num_blocks, tokens, block_size, prefix)
    each = blocks_for_tokens(tokens, block_size)
    shared = min(prefix // block_size, each - 1)

    def needed(requests):
        return shared + requests * (each - shared) if requests else 0

    assert needed(n) <= num_blocks < needed(n + 1)
    assert n >= num_blocks // each  # sharing never makes room for fewer


# ---------------------------------------------------------------- waste


@pytest.mark.parametrize(("tokens", "percent"), [(50, 1.2), (200, 4.9), (1000, 24.4)])
def test_reserving_4096_slots_uses_few_of_them(tokens, percent):
    waste = split_waste([Reservation(current=tokens, final=tokens, capacity=4096)])
    assert round(100 * waste.utilization, 1) == percent
    assert waste.internal == 4096 - tokens


def test_the_four_kinds_of_waste():
    split = split_waste(
        [Reservation(current=10, final=30, capacity=64), Reservation(current=5, final=80, capacity=64)],
        holes=[20, 64, 100],
        next_capacity=64,
    )
    assert split == WasteSplit(used=15, reserved=20 + 59, internal=34, external=20, free=164)
    assert split.total == 64 + 64 + 184


def test_equal_blocks_lose_no_hole():
    assert split_waste([], holes=[4, 8, 4], next_capacity=4).external == 0
    assert split_waste([]).utilization == 0.0


def test_a_paged_request_reserves_only_to_the_end_of_its_last_block():
    assert split_waste([paged_reservation(17, 16, final=20)]) == WasteSplit(used=17, reserved=3, internal=12)
    assert split_waste([paged_reservation(17, 16, final=500)]) == WasteSplit(used=17, reserved=15)


def test_a_reservation_cannot_hold_more_than_it_has():
    with pytest.raises(ValueError, match="capacity 4"):
        Reservation(current=5, final=9, capacity=4)


@given(st.integers(1, 64))
def test_mean_tail_waste_is_half_a_block_less_half_a_slot(block_size):
    empty = [split_waste([paged_reservation(n, block_size)]).internal for n in range(1, block_size + 1)]
    assert sum(empty) / block_size == expected_tail_waste(block_size) == (block_size - 1) / 2


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=9), st.integers(1, 33))
def test_paged_slots_are_all_accounted_for(requests, block_size):
    held = [paged_reservation(current, block_size, current + more) for current, more in requests]
    split = split_waste(held)
    assert split.total == sum(r.capacity for r in held)
    assert split.reserved + split.internal < block_size * max(1, len(held))


# ---------------------------------------------------------------- sharing


def test_ten_requests_share_a_prefix_of_2000_tokens():
    token = preset("llama-2-13b").shape.bytes_per_token
    apart, once = 10 * 2000 * token, 2000 * token
    assert round(apart / GIB, 2) == 15.26 and round(once / GIB, 3) == 1.526
    assert round((apart - once) / GIB, 2) == 13.73
    sharing = prefix_sharing(10, 2000, 16)
    assert (sharing.blocks_apart, sharing.blocks_shared) == (1250, 125)
    assert sharing.copies == 0  # 2000 = 125 full blocks: no tail
    assert sharing.saving == 0.9  # of the prefix alone
    assert prefix_sharing(10, 2000, 16, own_tokens=100).saving < 0.9


def test_three_blocks_shared_by_two_requests_end_as_four():
    # P0, P1 full, P2 partly filled: after request 2 writes, P2 is copied to P2'
    before = prefix_sharing(2, 10, 4)
    assert (before.blocks_apart, before.blocks_shared, before.copies) == (6, 3, 0)
    after = prefix_sharing(2, 10, 4, own_tokens=1)
    assert (after.blocks_apart, after.blocks_shared, after.copies) == (6, 4, 1)
    full_only = prefix_sharing(2, 10, 4, share_partial_blocks=False)
    assert (full_only.blocks_shared, full_only.copies) == (4, 0)


@given(st.integers(1, 20), st.integers(0, 90), st.integers(1, 17), st.integers(0, 40), st.booleans())
def test_sharing_against_a_count_by_hand(requests, prefix, block_size, own, partial):
    """Lay the blocks out one by one: a block is common while it holds nothing but prefix tokens."""
    result = prefix_sharing(requests, prefix, block_size, own, partial)
    length = prefix + own
    common = private = 0
    for start in range(0, length, block_size):
        end = min(start + block_size, length)
        whole = end - start == block_size
        if end <= prefix and (whole or partial):
            common += 1
        else:
            private += 1
    assert result.blocks_apart == requests * (common + private)
    assert result.blocks_shared == common + requests * private
    straddles = partial and own > 0 and prefix % block_size != 0
    assert result.copies == (requests - 1 if straddles else 0)
    assert 0 <= result.blocks_saved and (requests > 1 or result.blocks_saved == 0)
