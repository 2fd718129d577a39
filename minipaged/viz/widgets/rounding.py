"""The same sum in pieces: why a batch can change an answer (chapter 11).

A kernel that adds up a long row cuts it into pieces, and often chooses their number by the size of the batch. Here 200
made-up questions are put to a made-up model with 40 words: each word's score is a sum of products, added up
whole and in pieces, with every product and every sum rounded to the number format.
"""
from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.scene import Bar, Scene, Shape, Words, legend, stacked_bar

QUESTIONS, CANDIDATES = 200, 40
#: number format -> bits of a number's fraction that it keeps
FORMATS = {"float32": 23, "float16": 10, "bfloat16": 7}


def rounding_explorer() -> Explorer:
    """Number format, pieces and length of the sum; how many scores and how many chosen words change."""
    return Explorer("The same sum in pieces", (
        Control("form", "Numbers", tuple(FORMATS), "bfloat16", slider=False),
        Control("pieces", "Cut into", (1, 2, 4, 8, 16, 32), 4, words=(
            "1 piece", "2 pieces", "4 pieces", "8 pieces", "16 pieces", "32 pieces")),
        Control("terms", "Length of the sum", (64, 128, 256, 512), 256, "terms"),
    ), _show)


def rounder(form: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function that rounds float32 numbers to the format, to the nearest, ties to even; float32 stays."""
    if form == "float32":
        return lambda x: x
    if form == "float16":
        return lambda x: x.astype(np.float16).astype(np.float32)

    def to_bfloat16(x: np.ndarray) -> np.ndarray:
        bits = x.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return to_bfloat16


@cache
def scores(form: str, pieces: int, terms: int) -> np.ndarray:
    """The score of each word for each question, [QUESTIONS, CANDIDATES]: pieces first, then their sums in order."""
    rounded, draw = rounder(form), np.random.default_rng(11)
    questions = rounded((draw.random((terms, QUESTIONS, 1)) * 2 - 1).astype(np.float32))
    words = rounded((draw.random((terms, 1, CANDIDATES)) * 2 - 1).astype(np.float32))
    each = terms // pieces
    sums = np.zeros((pieces, QUESTIONS, CANDIDATES), np.float32)
    for at in range(each):  # all pieces side by side, as on a GPU
        rows = slice(at, None, each)
        sums = rounded(sums + rounded(questions[rows] * words[rows]))
    total = sums[0]
    for piece in sums[1:]:
        total = rounded(total + piece)
    return total


def _show(form: str, pieces: int, terms: int) -> Shown:
    whole, cut = scores(form, 1, terms), scores(form, pieces, terms)
    other_scores = int((whole != cut).sum())
    other_words = int((whole.argmax(axis=1) != cut.argmax(axis=1)).sum())
    largest = float(np.abs(whole - cut).max())
    way = f"in {pieces} pieces" if pieces > 1 else "in one piece"
    sentence = (f"{form} keeps {FORMATS[form] + 1} bits of a number. Added up {way}, "
                f"{other_scores / whole.size:.0%} of {whole.size:,} scores come out with other bits than in one piece, "
                f"by {largest:.2g} at most. For {other_words} of {QUESTIONS} questions another word is then largest.")
    return Shown(_draw(other_scores, other_words, form, pieces), sentence,
                 {"other_scores": other_scores, "scores": int(whole.size), "other_words": other_words,
                  "questions": QUESTIONS, "largest": largest})


def _draw(other_scores: int, other_words: int, form: str, pieces: int) -> Scene:
    shapes: list[Shape] = [Words(24, 28, f"{form}, {pieces} against 1", strong=True)]
    rows = (("scores", other_scores, QUESTIONS * CANDIDATES), ("chosen words", other_words, QUESTIONS))
    for index, (name, other, total) in enumerate(rows):
        y = 44 + 44 * index
        shapes.append(Words(24, y + 20, name, size=12))
        shapes += stacked_bar(130, y, 500, 30, [Bar(total - other, "used"), Bar(other, "reserved")])
        shapes.append(Words(640, y + 20, f"{other:,} differ", size=12))
    shapes += legend(130, 152, {"the same": "used", "different": "reserved"})
    return Scene(176, tuple(shapes))
