"""Lab of chapter 06: which block is forgotten first; what is known, in whole blocks and in part; keys that hold."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.core import BlockAllocator
from minipaged.errors import BlockError
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._prefix_keys import KEYS_EXERCISE
from minipaged.lab.exercises._prefix_match import MATCH_EXERCISE
from minipaged.lab.exercises._prefix_tail import TAIL_EXERCISE
from minipaged.lab.trace import Trace

# ---- prefix.eviction

EVICTION = '''\
from minipaged.errors import BlockError, OutOfBlocks

class EvictionQueue:
    def __init__(self, num_blocks):
        self.num_blocks = num_blocks
        self.queue = list(range(num_blocks))

    def take(self):
        if not self.queue:
            raise OutOfBlocks("no block is free")
        return self.queue.pop(0)

    def release(self, block):
        if block in self.queue:
            raise BlockError(f"block {block} is free already")
        self.queue.append(block)

    def hit(self, block):
        if block not in self.queue:
            raise BlockError(f"block {block} is not free")
        self.queue.remove(block)

    def order(self):
        return list(self.queue)
'''


class _Queue:
    """core's allocator under the exercise's names."""

    def __init__(self, num_blocks: int) -> None:
        self._blocks = BlockAllocator(num_blocks, free_order="append")

    def take(self) -> int:
        return self._blocks.allocate()

    def release(self, block: int) -> None:
        self._blocks.free(block)

    def hit(self, block: int) -> None:
        if self._blocks.ref_count[block]:
            raise BlockError(f"block {block} is not free")
        self._blocks.touch(block)

    def order(self) -> list[int]:
        return self._blocks.free_blocks()


def _case(rng: random.Random) -> dict:
    calls = [[rng.choice(["take", "release", "hit", "take"]), rng.randint(0, 3)] for _ in range(rng.randint(1, 12))]
    return {"num_blocks": rng.randint(1, 4), "calls": calls}


def _drive(trace: Trace, case: dict) -> None:
    count = case["num_blocks"]
    queue = trace.new("queue", "EvictionQueue", count)
    trace.event("pool", num_blocks=count, block_size=4, num_cpu_blocks=0, free_order="append")
    for name, number in case["calls"]:
        if name == "take":
            queue.call("take", event=lambda block: (
                "allocate", {"block": block, "request": "A", "index": None, "ref_count": 1}))
        elif name == "release":
            queue.call("release", number % count, event=lambda _, block=number % count: (
                "free", {"block": block, "request": "A", "end": "back", "cached": True}))
        else:
            queue.call("hit", number % count, event=lambda _, block=number % count: (
                "share", {"block": block, "request": "A", "index": None, "ref_count": 1, "num_tokens": 4}))
        queue.call("order")


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(EVICTION, *pairs))


EVICTION_EXERCISE = Exercise(
    id="prefix.eviction",
    title="Forgotten last, used last",
    chapter="06_prefix_cache",
    minutes=12,
    level="medium",
    goal="Keep free blocks in an order that evicts the least recently used one, and give one back on a hit.",
    interface=("EvictionQueue(num_blocks)", "EvictionQueue.take()", "EvictionQueue.release(block)",
               "EvictionQueue.hit(block)", "EvictionQueue.order()"),
    hints=("A free block still holds what was computed. Which of the free blocks is the one that is missed least?",
           "Keep a queue: release puts a block at the back, take evicts the one at the front. A hit takes a block "
           "out of the middle.",
           "take: pop(0) or popleft(), OutOfBlocks when empty. release: append, BlockError if it is in the queue. "
           "hit: remove(block), BlockError if it is not in the queue. order: list(queue)."),
    rule="Free blocks wait in the order in which they were released; take gives the one that was released longest "
         "ago; a hit takes a free block out wherever it stands.",
    examples=({"num_blocks": 3, "calls": [["take", 0], ["take", 0], ["release", 0], ["release", 1], ["hit", 0],
                                          ["take", 0], ["take", 0], ["take", 0]]},
              {"num_blocks": 2, "calls": [["release", 1], ["hit", 0], ["hit", 0]]}),
    case=_case,
    drive=_drive,
    reference=lambda: SimpleNamespace(EvictionQueue=_Queue),
    misconceptions=(
        _wrong("stack", "the block that was released last is evicted first: that is the one most likely to be "
               "wanted again.", "self.queue.pop(0)", "self.queue.pop()"),
        _wrong("front", "a released block goes to the front, and is evicted next.",
               "self.queue.append(block)", "self.queue.insert(0, block)"),
        _wrong("hit-stays", "after a hit the block is still in the queue: it would be evicted while a request "
               "uses it.", "self.queue.remove(block)", "pass"),
        _wrong("hit-to-back", "a hit moves the block to the back, but a block in use is not free at all.",
               "self.queue.remove(block)", "self.queue.remove(block); self.queue.append(block)"),
        _wrong("sorted", "the queue is kept in the order of the numbers; what counts is when a block was released.",
               "self.queue.append(block)", "self.queue.append(block); self.queue.sort()"),
        _wrong("double-release", "a block is released that is free already: it would stand in the queue twice.",
               '        if block in self.queue:\n            raise BlockError(f"block {block} is free already")\n',
               ""),
        _wrong("order-reversed", "order lists the next block to be evicted first, not last.",
               "return list(self.queue)", "return list(reversed(self.queue))"),
        _wrong("value-error", "a hit on a block that is not free raises the list's ValueError; BlockError is "
               "asked for.",
               '        if block not in self.queue:\n            raise BlockError(f"block {block} is not free")\n',
               ""),
    ),
)

EXERCISES = (MATCH_EXERCISE, EVICTION_EXERCISE, TAIL_EXERCISE, KEYS_EXERCISE)
