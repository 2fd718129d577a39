"""The explorer of chapter 04: whatever the order and the block size, the same answer; a wrong reader loses weight."""
from __future__ import annotations

import itertools
from math import exp

import pytest

from minipaged.viz.widgets import attention_explorer
from minipaged.viz.widgets.attention import ORDERS, READS, SCORES, VALUES


@pytest.mark.parametrize("tokens", [1, 4, 10, 16])
def test_order_and_block_size_do_not_change_the_answer(tokens):
    weights = [exp(score) for score in SCORES[:tokens]]
    right = sum(weight * value for weight, value in zip(weights, VALUES)) / sum(weights)
    for order, size in itertools.product(ORDERS, (1, 2, 4, 8)):
        shown = attention_explorer().at(tokens=tokens, order=order, block_size=size)
        assert shown.data["answer"] == pytest.approx(right, abs=1e-6), (order, size)


def test_nothing_is_scaled_down_when_the_largest_score_comes_first():
    assert attention_explorer().at(order=ORDERS[2]).data["rescaled"] == 0
    assert attention_explorer().at(block_size=1).data["rescaled"] == 3  # 1.1, 2.0, 2.6, 3.1


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_whole_blocks_take_attention_unless_the_last_one_is_full(size):
    for tokens in range(1, 17):
        shown = attention_explorer().at(tokens=tokens, block_size=size, reads=READS[1])
        assert (shown.data["stolen"] > 0) is (tokens % size > 0), tokens
        assert ("another text" in shown.sentence) is (tokens % size > 0)
