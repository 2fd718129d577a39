"""Lab of chapter 03: the table that grows."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.core import BlockTable
from minipaged.errors import OutOfBlocks
from minipaged.formulas import blocks_for_tokens
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

GROW = '''\
from minipaged.errors import OutOfBlocks

def grow(block_table, num_tokens, num_new, block_size, free_blocks):
    needed = -(-(num_tokens + num_new) // block_size)
    missing = max(0, needed - len(block_table))
    if missing > len(free_blocks):
        raise OutOfBlocks("too few blocks are free")
    return block_table + free_blocks[:missing], free_blocks[missing:]
'''


def _grow(block_table: list[int], num_tokens: int, num_new: int, block_size: int,
          free_blocks: list[int]) -> tuple[list[int], list[int]]:
    table, free = BlockTable(block_size, block_table), list(free_blocks)
    missing = blocks_for_tokens(num_tokens + num_new, block_size) - table.num_blocks
    if missing > len(free):
        raise OutOfBlocks(f"{missing} blocks are needed; {len(free)} are free")
    for _ in range(missing):
        table.append(free.pop(0))
    return list(table.blocks), free


def _grow_case(rng: random.Random) -> dict:
    num_blocks, size = rng.randint(1, 6), rng.randint(1, 4)
    spare = rng.choice([0, 0, 0, min(2, num_blocks)])
    return {"block_size": size, "blocks": rng.sample(range(num_blocks), num_blocks), "held": spare,
            "new": [rng.choice([1, 1, rng.randint(1, 9)]) for _ in range(rng.randint(1, 8))]}


def _drive_grow(trace: Trace, case: dict) -> None:
    """A request that writes; it may begin with blocks that it does not need yet."""
    size, held = case["block_size"], case["held"]
    table, free, num_tokens = case["blocks"][:held], case["blocks"][held:], 0
    trace.event("pool", num_blocks=len(case["blocks"]), block_size=size, num_cpu_blocks=0, free_order="append")
    for num_new in case["new"]:
        old = table

        def event(index: int, block: int) -> tuple[str, dict]:
            return "allocate", {"block": block, "request": "A", "index": index, "ref_count": 1}

        value = trace.call("grow", table, num_tokens, num_new, size, free,
                           event=lambda value, old=old: event(len(old), value[0][len(old)]))
        if trace.raised:
            continue  # a smaller wish may still be granted
        if not isinstance(value, (list, tuple)):
            return
        table, free = value
        num_tokens += num_new
        for index in range(len(old) + 1, len(table)):
            kind, data = event(index, table[index])
            trace.event(kind, **data)


def _wrong_grow(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(GROW, *pairs))


GROW_EXERCISE = Exercise(
    id="blocks.grow",
    title="The table that grows",
    chapter="03_blocks",
    minutes=12,
    level="medium",
    goal="Give a request new blocks exactly when its next tokens need them, and not a token earlier.",
    interface=("grow(block_table, num_tokens, num_new, block_size, free_blocks)",),
    hints=("A request has 8 tokens in 2 blocks of 4. When does it need a third block: now, or when the ninth token "
           "comes?",
           "Count the blocks that all tokens need together, the old and the new ones, rounded up. Take away those that "
           "the table has already. If that is more than are free, refuse; else move so many from the front of the free "
           "ones to the end of the table.",
           "needed = -(-(num_tokens + num_new) // block_size); missing = max(0, needed - len(block_table)); if missing "
           "> len(free_blocks): raise OutOfBlocks; return block_table + free_blocks[:missing], free_blocks[missing:]."),
    rule="After the call the table has room for num_tokens + num_new tokens. It gets only the blocks that are missing, "
         "from the front of the free ones; when there are too few, OutOfBlocks is raised and nothing has changed.",
    examples=({"block_size": 4, "blocks": [0, 2, 1], "held": 0, "new": [6, 1, 1, 1, 4]},
              {"block_size": 4, "blocks": [0, 2, 1], "held": 0, "new": [4, 1]},
              {"block_size": 4, "blocks": [3, 1, 0, 2], "held": 2, "new": [3, 5, 9, 8]}),
    case=_grow_case,
    drive=_drive_grow,
    reference=lambda: SimpleNamespace(grow=_grow),
    misconceptions=(
        _wrong_grow("too-early", "you take the next block as soon as the last one is full. The request may end there: "
                    "a block is taken for the first token that needs it.",
                    "-(-(num_tokens + num_new) // block_size)", "(num_tokens + num_new) // block_size + 1"),
        _wrong_grow("one-a-step", "you take one block at most. A prompt of 6 tokens in blocks of 4 needs two at once.",
                    "max(0, needed - len(block_table))", "min(1, max(0, needed - len(block_table)))"),
        _wrong_grow("new-tokens-only", "you count blocks for the new tokens alone. The last block of the table may "
                    "have room for some of them.",
                    "missing = max(0, needed - len(block_table))", "missing = -(-num_new // block_size)"),
        _wrong_grow("rounds-down", "a block that is filled only in part must be there too: round up.",
                    "-(-(num_tokens + num_new) // block_size)", "(num_tokens + num_new) // block_size"),
        _wrong_grow("modulo", "num_tokens % block_size == 0 asks whether the last block is full. It does not say how "
                    "many blocks a chunk needs, nor whether the table has one to spare.",
                    "max(0, needed - len(block_table))", "1 if num_tokens % block_size == 0 else 0"),
        _wrong_grow("ignores-the-table", "you compute what the table should have held. It may hold more: subtract the "
                    "blocks that are there.", "len(block_table)", "-(-num_tokens // block_size)"),
        _wrong_grow("takes-what-there-is", "when too few blocks are free you hand out those that there are, and the "
                    "last tokens have no place. It is all or nothing: OutOfBlocks.",
                    '    if missing > len(free_blocks):\n        raise OutOfBlocks("too few blocks are free")\n', ""),
        _wrong_grow("in-place", "you change the caller's lists. Make new ones: a refused step must leave no trace.",
                    "return block_table + free_blocks[:missing], free_blocks[missing:]",
                    "for _ in range(missing):\n        block_table.append(free_blocks.pop(0))\n"
                    "    return block_table, free_blocks"),
        _wrong_grow("from-the-back", "you take blocks from the end of the free ones; the first in the line is the "
                    "next.",
                    "block_table + free_blocks[:missing], free_blocks[missing:]",
                    "block_table + free_blocks[::-1][:missing], free_blocks[:len(free_blocks) - missing]"),
    ),
)
