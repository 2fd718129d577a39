"""Lab of chapter 03: a pool of blocks, and a table that says where a token lives and grows when it must."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.core import BlockAllocator, BlockTable
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._blocks_grow import GROW_EXERCISE
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

CHECK = """\
    if logical >= len(block_table):
        raise BlockError(f"position {position} lies behind the table")
"""


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
                    CHECK, "    logical %= len(block_table)\n"),
        _wrong_slot("index-error", "behind the last block the error of a short list comes out; the caller waits for "
                    "BlockError.", CHECK, ""),
        _wrong_slot("position-is-slot", "you give the position itself; the table says where it really lies.",
                    CHECK, "", "block_table[logical] * block_size + offset", "position"),
        _wrong_slot("one-too-far", "a table of n blocks ends before entry n: the last entry is n - 1.",
                    "logical >= len(block_table)", "logical > len(block_table)"),
        _wrong_slot("position-as-entry", "the table has one entry a block, not one a token: divide the position first.",
                    "position // block_size, position", "position, position"),
        _wrong_slot("counts-from-one", "positions count from 0: position block_size is the first of the second block.",
                    "position // block_size, position % block_size",
                    "(position - 1) // block_size, (position - 1) % block_size"),
    ),
)

EXERCISES = (ALLOCATOR_EXERCISE, SLOT_EXERCISE, GROW_EXERCISE)
