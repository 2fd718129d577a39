"""Lab of chapter 05: how many blocks a common beginning saves."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

SAVINGS = '''\
def blocks_needed(prefix, own, num_requests, block_size):
    total = -(-(prefix + own) // block_size)
    full = prefix // block_size
    return num_requests * total, full + num_requests * (total - full)
'''


def _savings_case(rng: random.Random) -> dict:
    return {"prefix": rng.randint(0, 20), "own": rng.randint(1, 9), "num_requests": rng.randint(1, 4),
            "block_size": rng.randint(1, 8)}


def _drive_savings(trace: Trace, case: dict) -> None:
    trace.call("blocks_needed", case["prefix"], case["own"], case["num_requests"], case["block_size"])


def _wrong_savings(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(SAVINGS, *pairs))


SAVINGS_EXERCISE = Exercise(
    id="sharing.savings",
    title="What sharing saves",
    chapter="05_copy_on_write",
    minutes=10,
    level="easy",
    goal="Count the blocks of requests with the same beginning, stored apart and shared.",
    interface=("blocks_needed(prefix, own, num_requests, block_size)",),
    hints=("The beginning has 10 tokens, a block 4. Which of its 3 blocks can several requests share while each of "
           "them writes on?",
           "A block that is full is never written again: it is stored once. The partly filled one is copied by whoever "
           "writes on. So each request has the blocks behind the full ones for itself.",
           "total = blocks for prefix + own, rounded up; full = prefix // block_size. Apart: num_requests * total. "
           "Shared: full + num_requests * (total - full)."),
    rule="Apart, each request needs the blocks for prefix + own tokens, rounded up. Shared, the full blocks of the "
         "prefix exist once. A partly filled last block of the prefix ends up once in each request: the writers copy "
         "it.",
    examples=({"prefix": 10, "own": 3, "num_requests": 2, "block_size": 4},
              {"prefix": 8, "own": 1, "num_requests": 10, "block_size": 4},
              {"prefix": 2000, "own": 16, "num_requests": 10, "block_size": 16}),
    case=_savings_case,
    drive=_drive_savings,
    reference=lambda: from_source(SAVINGS),
    misconceptions=(
        _wrong_savings("tail-shared", "you count the partly filled block of the prefix once. Every request writes on "
                                      "in it, so each ends with one of its own.", "full = prefix // block_size",
                       "full = -(-prefix // block_size) if total * block_size > prefix + block_size else prefix // "
                       "block_size"),
        _wrong_savings("separate-tails", "prefix and own tokens lie one behind the other: the own tokens begin in the "
                                         "last block of the prefix. Round their sum, not each.",
                       "-(-(prefix + own) // block_size)", "-(-prefix // block_size) + -(-own // block_size)"),
        _wrong_savings("rounds-down", "you round the blocks of a request down.", "-(-(prefix + own) // block_size)",
                       "(prefix + own) // block_size"),
        _wrong_savings("all-shared", "you share everything; the own tokens differ from request to request.",
                       "full + num_requests * (total - full)", "total"),
        _wrong_savings("prefix-free", "the shared blocks exist once: they are not gone.",
                       "full + num_requests * (total - full)", "num_requests * (total - full)"),
        _wrong_savings("one-has-none", "you let one request go without blocks of its own.",
                       "num_requests * (total - full)", "(num_requests - 1) * (total - full)"),
        _wrong_savings("saved", "the second number is what is needed with sharing, not what sharing saves.",
                       "full + num_requests * (total - full)", "(num_requests - 1) * full"),
        _wrong_savings("tokens", "you count tokens in the second number; count blocks.",
                       "full + num_requests * (total - full)", "prefix + num_requests * own"),
    ),
)
