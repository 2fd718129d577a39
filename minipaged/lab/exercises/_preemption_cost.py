"""Lab of chapter 09: what it costs to save a request, and what to compute it again."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

COST = '''\
def cheaper_way(num_tokens, block_size, block_bytes, link, speed):
    blocks = -(-num_tokens // block_size)
    swap = 2 * blocks * block_bytes / link
    recompute = num_tokens / speed
    return ("swap" if swap < recompute else "recompute"), swap, recompute
'''


def _cost_case(rng: random.Random) -> dict:
    return {"num_tokens": rng.randint(1, 40), "block_size": rng.randint(1, 8), "block_bytes": 100 * rng.randint(1, 9),
            "link": 1000 * rng.randint(1, 4), "speed": 5 * rng.randint(1, 8)}


def _drive_cost(trace: Trace, case: dict) -> None:
    trace.call("cheaper_way", case["num_tokens"], case["block_size"], case["block_bytes"], case["link"], case["speed"])


def _wrong_cost(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(COST, *pairs))


COST_EXERCISE = Exercise(
    id="preemption.swap-or-recompute",
    title="Save it or compute it again?",
    chapter="09_preemption",
    minutes=12,
    level="medium",
    goal="Say what it costs to swap a request out and in, what it costs to compute it again, and which is cheaper.",
    interface=("cheaper_way(num_tokens, block_size, block_bytes, link, speed)",),
    hints=("How often do the bytes of a swapped request go over the link until it runs again?",
           "Whole blocks are moved, out and later in. Recomputing costs the time to compute all its tokens once more.",
           "blocks = -(-num_tokens // block_size); swap = 2 * blocks * block_bytes / link; recompute = num_tokens / "
           "speed; the smaller one wins, and of equals recompute."),
    rule="Swapping moves every block twice, out and in, at `link` bytes a second; a block that is partly filled is "
         "moved whole. Recomputing takes num_tokens / speed seconds. Of equals, recompute: it needs no host memory.",
    examples=({"num_tokens": 10, "block_size": 4, "block_bytes": 500, "link": 1000, "speed": 5},
              {"num_tokens": 8, "block_size": 4, "block_bytes": 100, "link": 4000, "speed": 5},
              {"num_tokens": 8, "block_size": 8, "block_bytes": 400, "link": 1000, "speed": 10}),
    case=_cost_case,
    drive=_drive_cost,
    reference=lambda: from_source(COST),
    misconceptions=(
        _wrong_cost("one-way", "you move the blocks out and never in again. They cross the link twice.",
                    "2 * blocks", "blocks"),
        _wrong_cost("part-blocks", "you move a part of a block; blocks are moved whole.",
                    "-(-num_tokens // block_size)", "num_tokens / block_size"),
        _wrong_cost("rounds-down", "you leave the last, partly filled block behind.",
                    "-(-num_tokens // block_size)", "num_tokens // block_size"),
        _wrong_cost("token-bytes", "block_bytes are the bytes of a whole block, not of a token.",
                    "2 * blocks * block_bytes", "2 * num_tokens * block_bytes"),
        _wrong_cost("times-speed", "speed is tokens a second: time is tokens divided by speed.",
                    "num_tokens / speed", "num_tokens * speed"),
        _wrong_cost("dearer", "you name the dearer way.", "swap < recompute", "swap > recompute"),
        _wrong_cost("ties-swap", "of equals, recompute: it takes no memory on the host.", "swap < recompute",
                    "swap <= recompute"),
        _wrong_cost("recompute-blocks", "only the tokens that are there are computed again, not the empty rest of the "
                                        "block.",
                    "num_tokens / speed", "blocks * block_size / speed"),
    ),
)
