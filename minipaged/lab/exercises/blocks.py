"""Lab of chapter 03: a pool of blocks, and a table that says where a token lives and grows when it must."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.core import BlockAllocator, BlockTable
from minipaged.errors import OutOfBlocks
from minipaged.formulas import blocks_for_tokens
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.plain import Said
from minipaged.lab.trace import Trace

# ---- blocks.allocator

ALLOCATOR = '''\
from minipaged.errors import BlockError, OutOfBlocks

class BlockAllocator:
    def __init__(self, num_blocks):
        self.num_blocks = num_blocks
        self.free_list = list(range(num_blocks))

    def allocate(self):
        if not self.free_list:
            raise OutOfBlocks("no block is free")
        return self.free_list.pop()

    def free(self, block):
        if block in self.free_list or not 0 <= block < self.num_blocks:
            raise BlockError(f"block {block} is not held")
        self.free_list.append(block)

    @property
    def free_count(self):
        return len(self.free_list)
'''


def _allocator_case(rng: random.Random) -> dict:
    calls = [(rng.choice(["allocate", "free", "allocate", "free_again", "free_unknown"]), rng.randint(0, 3))
             for _ in range(rng.randint(1, 12))]
    return {"num_blocks": rng.randint(1, 4), "calls": [list(call) for call in calls]}


def _drive_allocator(trace: Trace, case: dict) -> None:
    num_blocks = case["num_blocks"]
    pool = trace.new("pool", "BlockAllocator", num_blocks)
    trace.event("pool", num_blocks=num_blocks, block_size=4, num_cpu_blocks=0, free_order="unhashed_first")
    held: dict[int, str] = {}  # block -> the request that the film shows
    count = 0

    def kind(block: object) -> Said:
        if type(block) is not int or not 0 <= block < num_blocks:
            return Said(f"{block!r:.40}, which is none of the blocks 0 to {num_blocks - 1}")
        return Said(f"block {block}, which is still held" if block in held else "a block that was free")

    for name, number in case["calls"]:
        if name == "allocate":
            who = "ABCDEFGHIJKL"[count]
            block = pool.call("allocate", view=kind, event=lambda block, who=who: (
                "allocate", {"block": block, "request": who, "index": 0, "ref_count": 1}))
            if not trace.raised:
                held[block] = who
                count += 1
        elif name == "free" and held:
            block = list(held)[number % len(held)]
            pool.call("free", block, event=lambda _, block=block: (
                "free", {"block": block, "request": held[block], "end": "front", "cached": False}))
            del held[block]
        elif name == "free_again" and len(held) < num_blocks:
            block = [block for block in range(num_blocks) if block not in held][0]
            pool.call("free", block, event=lambda _, block=block: (
                "free", {"block": block, "request": "A", "end": "front", "cached": False}))
        elif name == "free_unknown":
            pool.call("free", num_blocks + number if number % 2 else -1 - number)
        pool.get("free_count")


def _allocator(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(ALLOCATOR, *pairs))


ALLOCATOR_EXERCISE = Exercise(
    id="blocks.allocator",
    title="A pool of blocks",
    chapter="03_blocks",
    minutes=15,
    level="easy",
    goal="Write the allocator that hands out blocks and takes them back, and let it serve the engine.",
    interface=("BlockAllocator(num_blocks)", "BlockAllocator.allocate()", "BlockAllocator.free(block)",
               "BlockAllocator.free_count"),
    hints=("What must you remember to know which blocks you can hand out: those that are free, those that are held, or "
           "both?",
           "Keep the free blocks in a list or a deque. allocate takes one out, free puts one in, free_count is its "
           "length. Before each, ask whether the call is allowed.",
           "__init__: self.free_list = list(range(num_blocks)). allocate: if the list is empty, raise OutOfBlocks, "
           "else pop one. free: if the block is in the list, or not in range(num_blocks), raise BlockError, else "
           "append it."),
    rule="A block is free or held. allocate gives any free block and raises OutOfBlocks when there is none; free "
         "takes a held block back and raises BlockError for any other; free_count is the number of free blocks.",
    examples=({"num_blocks": 3, "calls": [["allocate", 0], ["allocate", 0], ["free", 0], ["allocate", 0],
                                          ["allocate", 0], ["allocate", 0]]},
              {"num_blocks": 2, "calls": [["allocate", 0], ["free", 0], ["free_again", 0]]},
              {"num_blocks": 2, "calls": [["free_unknown", 0], ["free_unknown", 1]]}),
    case=_allocator_case,
    drive=_drive_allocator,
    reference=lambda: SimpleNamespace(BlockAllocator=BlockAllocator),
    misconceptions=(
        _allocator("double-free", "you take a block back without asking whether it is held: a block that is freed "
                   "twice is soon handed out twice.",
                   "block in self.free_list or not 0 <= block", "not 0 <= block"),
        _allocator("unknown-block", "you take back a block that the pool does not have; check the range, below 0 too.",
                   "block in self.free_list or not 0 <= block < self.num_blocks", "block in self.free_list"),
        _allocator("none-when-empty", "when nothing is free you return None; the caller would use it as a block "
                   "number. Raise OutOfBlocks.",
                   'raise OutOfBlocks("no block is free")', "return None"),
        _allocator("index-error", "when nothing is free the error of an empty list comes out; the caller waits for "
                   "OutOfBlocks.",
                   '        if not self.free_list:\n            raise OutOfBlocks("no block is free")\n', ""),
        _allocator("never-reused", "you only count upwards: blocks that came back are never handed out again.",
                   "        if not self.free_list:", "        if getattr(self, 'next', 0) >= self.num_blocks:",
                   "return self.free_list.pop()",
                   "self.next = getattr(self, 'next', 0) + 1; self.free_list.remove(self.next - 1); "
                   "return self.next - 1"),
        _allocator("peeked", "you look at a free block but leave it in the list: the next call gives the same block.",
                   "self.free_list.pop()", "self.free_list[-1]"),
        _allocator("one-based", "your blocks are numbered from 1; they are 0 to num_blocks - 1.",
                   "list(range(num_blocks))", "list(range(1, num_blocks + 1))"),
        _allocator("counts-held", "free_count is the number of blocks that are free, not of those that are held.",
                   "return len(self.free_list)", "return self.num_blocks - len(self.free_list)"),
        _allocator("negative-index", "a negative number is no block: Python would count it from the end of a list.",
                   "not 0 <= block < self.num_blocks", "block >= self.num_blocks"),
    ),
)

# ---- blocks.slot

SLOT = '''\
from minipaged.errors import BlockError

def slot(block_table, position, block_size):
    logical, offset = position // block_size, position % block_size
    if logical >= len(block_table):
        raise BlockError(f"position {position} lies behind the table")
    return block_table[logical] * block_size + offset
'''


def _slot_case(rng: random.Random) -> dict:
    size = rng.randint(1, 5)
    table = [rng.randint(0, 9) for _ in range(rng.randint(1, 4))]
    return {"block_table": table, "block_size": size, "position": rng.randint(0, size * len(table) + 1)}


def _drive_slot(trace: Trace, case: dict) -> None:
    trace.call("slot", case["block_table"], case["position"], case["block_size"])


def _slot(block_table: list[int], position: int, block_size: int) -> int:
    return BlockTable(block_size, block_table).slot(position)


def _wrong_slot(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(SLOT, *pairs))


SLOT_EXERCISE = Exercise(
    id="blocks.slot",
    title="Where does a token live?",
    chapter="03_blocks",
    minutes=8,
    level="easy",
    goal="Translate a token's position into its slot, the way a page table translates an address.",
    interface=("slot(block_table, position, block_size)",),
    hints=("Position 6, block size 4: in which of the request's blocks is it, the first or the second, and how far "
           "inside?",
           "Divide: the quotient says which entry of the table, the remainder how far into that block. The entry is "
           "the physical block; its first slot is block x block_size.",
           "logical, offset = divmod(position, block_size); past the end of the table raise BlockError; the slot is "
           "block_table[logical] * block_size + offset."),
    rule="Position p lies in logical block p // block_size at offset p % block_size; its slot is physical block x "
         "block_size + offset. A position behind the last block raises BlockError.",
    examples=({"block_table": [0, 2], "block_size": 4, "position": 6},
              {"block_table": [7], "block_size": 4, "position": 0},
              {"block_table": [1, 0], "block_size": 4, "position": 8}),
    case=_slot_case,
    drive=_drive_slot,
    reference=lambda: SimpleNamespace(slot=_slot),
    misconceptions=(
        _wrong_slot("no-table", "you use the logical block as if it were the physical one; look it up in the table.",
                    "return block_table[logical] * block_size", "return logical * block_size"),
        _wrong_slot("no-offset", "you give the first slot of the block; add the offset inside it.", " + offset", ""),
        _wrong_slot("block-only", "you give the number of the block; a slot counts tokens: multiply by block_size.",
                    "block_table[logical] * block_size + offset", "block_table[logical] + offset"),
        _wrong_slot("swapped", "you took the remainder for the block and the quotient for the offset.",
                    "logical, offset = position // block_size, position % block_size",
                    "logical, offset = position % block_size, position // block_size"),
        _wrong_slot("wraps", "behind the last block you begin again at the first; that is another token's place.",
                    "    if logical >= len(block_table):\n        raise BlockError"
                    '(f"position {position} lies behind the table")\n', "    logical %= len(block_table)\n"),
        _wrong_slot("one-too-far", "a table of n blocks ends before entry n: the last entry is n - 1.",
                    "logical >= len(block_table)", "logical > len(block_table)"),
        _wrong_slot("position-as-entry", "the table has one entry a block, not one a token: divide the position first.",
                    "position // block_size, position", "position, position"),
        _wrong_slot("counts-from-one", "positions count from 0: position block_size is the first of the second block.",
                    "position // block_size, position % block_size",
                    "(position - 1) // block_size, (position - 1) % block_size"),
    ),
)

# ---- blocks.grow

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

EXERCISES = (ALLOCATOR_EXERCISE, SLOT_EXERCISE, GROW_EXERCISE)
