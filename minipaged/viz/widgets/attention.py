"""One query reads its blocks, one after the other, and keeps an exact softmax (chapter 04).

The scores are fixed: 16 of the text itself, and what another text has left in the slots behind it.
"""
from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf
from typing import NamedTuple

from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.scene import WIDTH, Box, Frame, Line, Scene, Shape, Words, count, legend

SCORES = (1.1, 0.4, 2.0, 1.5, 2.6, 0.9, 1.8, 3.1, 0.7, 2.4, 1.3, 3.6, 2.2, 0.5, 1.9, 2.8)
VALUES = (5.0, 1.0, 8.0, 2.0, 4.0, 9.0, 3.0, 6.0, 7.0, 1.0, 5.0, 2.0, 8.0, 4.0, 6.0, 3.0)
#: what stands in the slots behind the context: the tokens of another text
OLD_SCORES, OLD_VALUES = (3.3, 2.7, 3.9, 3.0, 2.5, 3.7, 2.9), (-9.0, -4.0, -7.0, -6.0, -8.0, -5.0, -3.0)
ORDERS = ("first block first", "last block first", "largest score first")
READS = ("up to the context", "whole blocks")
LEFT, TOP = 60.0, 62.0


class State(NamedTuple):
    """What is kept between blocks: the largest score, the sum of exp(score - largest), and that of the values."""

    largest: float = -inf
    total: float = 0.0
    mixed: float = 0.0

    def fold(self, scores: Sequence[float], values: Sequence[float]) -> State:
        """One block more."""
        largest = max(self.largest, *scores)
        shrink = exp(self.largest - largest)
        weights = [exp(score - largest) for score in scores]
        return State(largest, self.total * shrink + sum(weights),
                     self.mixed * shrink + sum(weight * value for weight, value in zip(weights, values)))


def attention_explorer() -> Explorer:
    """Tokens of the context, block size, order of reading, and whether the reader stops at the context."""
    return Explorer("One query reads its blocks", (
        Control("tokens", "Context", tuple(range(1, len(SCORES) + 1)), 10, "tokens"),
        Control("block_size", "Block size", (1, 2, 4, 8), 4, "tokens"),
        Control("order", "Order", ORDERS, ORDERS[0], slider=False),
        Control("reads", "Read", READS, READS[0], slider=False),
    ), _show)


def _show(tokens: int, block_size: int, order: str, reads: str) -> Shown:
    old = -tokens % block_size
    scores = [*SCORES[:tokens], *OLD_SCORES[:old]]
    values = [*VALUES[:tokens], *OLD_VALUES[:old]]
    end = len(scores) if reads == READS[1] else tokens
    blocks = [range(start, min(start + block_size, end)) for start in range(0, end, block_size)]
    if order == ORDERS[1]:
        blocks.reverse()
    elif order == ORDERS[2]:
        blocks.sort(key=lambda block: -max(scores[slot] for slot in block))
    states = [State()]
    for block in blocks:
        states.append(states[-1].fold([scores[slot] for slot in block], [values[slot] for slot in block]))
    rescaled = sum(one.largest < other.largest for one, other in zip(states[1:], states[2:]))
    last = states[-1]
    stolen = sum(exp(score - last.largest) for score in scores[tokens:end]) / last.total
    data = {"answer": round(last.mixed / last.total, 6), "total": last.total, "largest": last.largest,
            "rescaled": rescaled, "stolen": stolen, "read": end}
    sentence = (f"{count(end, 'score')} in {count(len(blocks), 'block')}: the largest is {last.largest:.1f}, the sum "
                f"ends at {last.total:.4f} and was scaled down {count(rescaled, 'time')}; the answer is "
                f"{data['answer']:.4f}.")
    if end > tokens:
        sentence += f" {count(end - tokens, 'slot')} of another text took {stolen:.1%} of the attention."
    return Shown(_draw(scores, tokens, end, blocks, states[1:]), sentence, data)


def _draw(scores: Sequence[float], tokens: int, end: int, blocks: Sequence[range], states: Sequence[State]) -> Scene:
    """The scores in the order of reading with the largest so far, and below them the sum after each block."""
    read = [slot for block in blocks for slot in block]
    pitch = (WIDTH - LEFT - 20) / len(scores)
    upper = Frame(LEFT, TOP, pitch * len(scores), 120, len(scores), 4)
    lower = Frame(LEFT, 236, pitch * len(scores), 100, len(scores), max(state.total for state in states) * 1.25)
    shapes: list[Shape] = [Words(24, 26, "Scores, in the order of reading", strong=True), *upper.axes("", "score")]
    for place, slot in enumerate([*read, *range(end, len(scores))]):
        look = "used" if slot < tokens else "external" if slot < end else "masked"
        x, y = upper.at(place + 0.12, scores[slot])
        shapes += [Box(x, y, round(pitch * 0.76, 2), round(TOP + 120 - y, 2), look)]
    shapes += [Words(24, 220, "Sum of exp(score - largest)", strong=True), *lower.axes("scores read", "")]
    start = 0
    for block, state in zip(blocks, states):
        stop = start + len(block)
        shapes.append(Line((upper.at(start, state.largest), upper.at(stop, state.largest)), "mark"))
        x, y = lower.at(start + 0.06, state.total)
        width = round(pitch * (len(block) - 0.12), 2)
        shapes += [Box(x, y, width, round(336 - y, 2), "decode"),
                   Words(round(x + width / 2, 2), y - 4, f"{state.total:.2f}", "middle", 11)]
        start = stop
    shapes += legend(LEFT, 390, {"the text's own": "used", "of another text": "external", "not read": "masked",
                                 "sum so far": "decode"})
    return Scene(402, tuple(shapes))
