"""Lab of chapter 06: a block of which only the first tokens fit."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

TAIL = '''\
def share_tail(rest, known):
    best, most, copy = None, 0, False
    for row in known:
        if not row["written"]:
            continue
        same = 0
        while same < min(len(row["tokens"]), len(rest) - 1) and row["tokens"][same] == rest[same]:
            same += 1
        if same > most:
            best, most, copy = row["block"], same, row["holders"] > 0
    return best, most, copy
'''


def _row(block: int, tokens: list[int], holders: int = 0, written: bool = True) -> dict:
    return {"block": block, "tokens": tokens, "holders": holders, "written": written}


def _case(rng: random.Random) -> dict:
    rest = [rng.randint(1, 3) for _ in range(rng.randint(1, 4))]
    known = []
    for block in rng.sample(range(8), rng.randint(0, 4)):
        tokens = rest[:rng.randint(0, len(rest))] + [rng.randint(1, 3) for _ in range(rng.randint(0, 2))]
        known.append(_row(block, tokens[:4] or [rng.randint(1, 3)], rng.choice([0, 0, 1, 2]), rng.random() < 0.8))
    return {"rest": rest, "known": known}


def _drive(trace: Trace, case: dict) -> None:
    rows = ", ".join(f"P{row['block']}: {row['tokens']}, {row['holders']} holder(s)"
                     f"{'' if row['written'] else ', not written yet'}" for row in case["known"])
    trace.call("share_tail", case["rest"], case["known"], text=f"share_tail({case['rest']}, [{rows}])")


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(TAIL, *pairs))


TAIL_EXERCISE = Exercise(
    id="prefix.tail",
    title="A part of a block",
    chapter="06_prefix_cache",
    minutes=18,
    level="hard",
    goal="Use the first tokens of a block that goes on differently, and say whether it has to be copied first.",
    interface=("share_tail(rest, known)",),
    hints=("A block holds 5 6 7 8, and your prompt goes on with 5 6 9. How many of its slots hold what you need, and "
           "who else reads the block that you are about to write 9 into?",
           "For each block that is written, count the equal tokens from the start, at most len(rest) - 1. Keep the "
           "first block with the largest count above 0. It is copied when somebody holds it.",
           "same = 0; while same < min(len(row['tokens']), len(rest) - 1) and row['tokens'][same] == rest[same]: same "
           "+= 1. If same > most: best, most, copy = row['block'], same, row['holders'] > 0; at first None, 0, False."),
    rule="Usable are the tokens that are equal from the start of the block, as long as one token of the prompt is left "
         "to compute, and only in a block that is written already. The longest wins, of equals the first; if "
         "others hold it, it is copied before anybody writes.",
    examples=({"rest": [5, 6, 9], "known": [_row(1, [5, 7]), _row(2, [5, 6, 7, 8], 1), _row(0, [5, 6])]},
              {"rest": [5, 6, 7], "known": [_row(2, [5, 6, 7], 1)]},
              {"rest": [5, 6, 7], "known": [_row(0, [5, 6, 7, 8], 1, False), _row(1, [5])]},
              {"rest": [5], "known": [_row(0, [5])]}),
    case=_case,
    drive=_drive,
    reference=lambda: from_source(TAIL),
    misconceptions=(
        _wrong("whole-or-nothing", "you use a block only when all of its tokens fit. Its first tokens are right as "
               "long as they agree: of 5 6 7 8 a prompt with 5 6 9 can use two.",
               "        if same > most:", "        if same == len(row[\"tokens\"]) and same > most:"),
        _wrong("uses-everything", "you use the rest of the prompt down to its last token. One must be computed, or "
               "there are no logits.", "len(rest) - 1", "len(rest)"),
        _wrong("not-written", "this block is filled in the same step. A step copies before it writes, so you would "
               "copy what is not there yet.", "        if not row[\"written\"]:\n            continue\n", ""),
        _wrong("not-from-the-start", "you count equal tokens anywhere in the block. Behind the first that differs "
               "nothing can be used: K and V depend on all tokens before.",
               "        while same < min(len(row[\"tokens\"]), len(rest) - 1) and row[\"tokens\"][same] == "
               "rest[same]:\n            same += 1\n",
               "        same = sum(a == b for a, b in zip(row[\"tokens\"], rest[:-1]))\n"),
        _wrong("first-that-fits", "you take the first block with an equal token; another one may have more.",
               "same > most", "same and best is None"),
        _wrong("last-of-equals", "of two that are equally long the first in the list wins.", "same > most",
               "same and same >= most"),
        _wrong("never-copies", "you write into a block that somebody else reads. If there is a holder, you need a copy "
               "(copy on write).", "row[\"holders\"] > 0", "False"),
        _wrong("always-copies", "you copy a block that nobody holds. It becomes yours; a copy would cost a block for "
               "nothing.", "row[\"holders\"] > 0", "True"),
        _wrong("one-holder-is-me", "the holders are others: you do not hold the block yet. One holder is enough for a "
               "copy.",
               "row[\"holders\"] > 0", "row[\"holders\"] > 1"),
    ),
)
