"""Lab of chapter 08: who may come in, and who never will."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

ADMIT = '''\
from minipaged.errors import RequestError

def admit(ref_count, hits, num_tokens, block_size):
    needed = -(-num_tokens // block_size)
    if needed > len(ref_count):
        raise RequestError(f"{needed} blocks are needed; the pool has {len(ref_count)}")
    free = [block for block, count in enumerate(ref_count) if count == 0 and block not in hits]
    missing = needed - len(hits)
    if missing > len(free):
        return None
    table = hits + free[:missing]
    return table, [count + (block in table) for block, count in enumerate(ref_count)]
'''


def _case(rng: random.Random) -> dict:
    blocks, size = rng.randint(1, 6), rng.randint(1, 4)
    counts = [rng.choice([0, 0, 1, 2]) for _ in range(blocks)]
    hits = rng.sample(range(blocks), rng.choice([0, 0, min(1, blocks), min(2, blocks)]))
    return {"ref_count": counts, "hits": hits, "block_size": size,
            "num_tokens": rng.randint(max(1, len(hits) * size + 1), (blocks + 2) * size)}


def _drive(trace: Trace, case: dict) -> None:
    counts, hits, size, num_tokens = case["ref_count"], case["hits"], case["block_size"], case["num_tokens"]
    trace.call("admit", counts, hits, num_tokens, size)
    if trace.raised:
        words = trace.steps[-1].outcome.message
        trace.result("the message names the blocks that are needed, and those that there are",
                     all(str(number) in words for number in (-(-num_tokens // size), len(counts))))


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(ADMIT, *pairs))


ADMISSION_EXERCISE = Exercise(
    id="scheduling.admission",
    title="Now, later or never",
    chapter="08_scheduling",
    minutes=18,
    level="medium",
    goal="Let a request in, make it wait, or refuse it for good, and leave no trace of an attempt that failed.",
    interface=("admit(ref_count, hits, num_tokens, block_size)",),
    hints=("A prompt needs 10 blocks and the pool has 8. What happens if it is told to wait?",
           "First compare with the whole pool: what can never fit is an error with both numbers. Then count the free "
           "blocks that are no hits, and compare with the blocks that the hits do not cover. Only when all is well "
           "make new counts.",
           "needed = -(-num_tokens // block_size); if needed > len(ref_count): raise RequestError with both numbers; "
           "free = blocks with count 0 that are not in hits; if needed - len(hits) > len(free): return None; table = "
           "hits + free[:needed - len(hits)]; the new counts are 1 higher for the blocks of the table."),
    rule="More blocks than the pool has: RequestError that names both numbers. More than are free now, hits not "
         "counted as free: None. Else the hits and the lowest free blocks, each with a count one higher. ref_count "
         "itself never changes.",
    examples=({"ref_count": [1, 1, 0, 0, 2], "hits": [0, 2], "num_tokens": 11, "block_size": 4},
              {"ref_count": [1, 1, 0, 0, 2], "hits": [0, 2], "num_tokens": 15, "block_size": 4},
              {"ref_count": [0, 0, 0, 0, 0, 0, 0, 0], "hits": [], "num_tokens": 40, "block_size": 4},
              {"ref_count": [0, 1, 0], "hits": [], "num_tokens": 12, "block_size": 4}),
    case=_case,
    drive=_drive,
    reference=lambda: from_source(ADMIT),
    misconceptions=(
        _wrong("waits-for-ever", "you let a request wait that can never run: it needs more blocks than the whole pool "
               "has, and it blocks the line for everybody behind it. Refuse it at once.",
               "        raise RequestError(f\"{needed} blocks are needed; the pool has {len(ref_count)}\")",
               "        return None"),
        _wrong("refuses-too-soon", "you refuse for good what only has to wait. RequestError is for a request that "
               "would not fit into the empty pool.", "if needed > len(ref_count)",
               "if needed - len(hits) > sum(count == 0 and b not in hits for b, count in enumerate(ref_count))"),
        _wrong("no-numbers", "your refusal does not say how many blocks are needed and how many there are. Whoever "
               "reads it wants to know by how much to shorten the prompt.",
               "f\"{needed} blocks are needed; the pool has {len(ref_count)}\"", "\"too long\""),
        _wrong("hits-are-free", "a hit that nobody holds is free now, but this very request is about to take it: it "
               "can't be used as an empty block too.", " and block not in hits", ""),
        _wrong("forgets-hits", "you ask for new blocks for the whole prompt; what the hits cover is there already.",
               "missing = needed - len(hits)", "missing = needed", "hits + free[:missing]",
               "hits + free[:missing - len(hits)]"),
        _wrong("leaks", "you raise the counts of the hits before you know whether the request comes in. When it is "
               "sent away, nobody lowers them again: these blocks are never free. Work on a copy, at the very end.",
               "    missing = needed - len(hits)\n", "    missing = needed - len(hits)\n    for block in hits:\n"
               "        ref_count[block] += 1\n", "count + (block in table)", "count + (block in free[:missing])"),
        _wrong("takes-what-there-is", "you let the request in with fewer blocks than its prompt needs. It is all or "
               "nothing.",
               "    if missing > len(free):\n        return None\n", ""),
        _wrong("rounds-down", "the last tokens need a block too, though they do not fill it: round up.",
               "-(-num_tokens // block_size)", "num_tokens // block_size"),
        _wrong("counts-set-to-one", "a shared block has one holder more than before, not one in all.",
               "count + (block in table) for", "max(count, 1) if block not in table else 1 for"),
        _wrong("counts-only-new", "the hits have a new holder as well: raise their counts too.",
               "(block in table)", "(block in free[:missing])"),
    ),
)
