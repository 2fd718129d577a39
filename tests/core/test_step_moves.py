"""The moves of a step: handed over once, and dropped by the block that they would fill."""
from __future__ import annotations

from minipaged.core import StepPlan
from minipaged.core.step_moves import StepMoves


def moves() -> StepMoves:
    made = StepMoves()
    made.copies += [(1, 2), (2, 3)]
    made.swap_ins += [(0, 5), (5, 6)]  # (host block, block)
    made.swap_outs += [(3, 0)]
    return made


def test_moves_into_given_blocks_are_dropped_and_no_others() -> None:
    made = moves()
    assert made.drop_into([3, 5, 0])
    assert (made.copies, made.swap_ins, made.swap_outs) == ([(1, 2)], [(5, 6)], [(3, 0)])
    assert not made.drop_into([3, 5, 0, 1])
    assert made.drop_into([6])
    assert made.drop_into([2])
    assert (made.copies, made.swap_ins, made.swap_outs) == ([], [], [(3, 0)])


def test_only_the_sources_of_copies_feed_copies() -> None:
    made = moves()
    assert [block for block in range(8) if made.copies_from([block])] == [1, 2]


def test_moves_are_handed_over_once() -> None:
    made, first, second = moves(), StepPlan(0, 4), StepPlan(1, 4)
    made.hand_over(first)
    made.hand_over(second)
    assert (first.copies, first.swap_ins, first.swap_outs) == ([(1, 2), (2, 3)], [(0, 5), (5, 6)], [(3, 0)])
    assert (second.copies, second.swap_ins, second.swap_outs) == ([], [], [])
