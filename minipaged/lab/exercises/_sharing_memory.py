"""Lab of chapter 05: blocks with several holders, and who copies what when somebody writes."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

MEMORY = '''\
from minipaged.errors import OutOfBlocks

class SharedBlocks:
    def __init__(self, num_blocks):
        self.free_blocks = list(range(num_blocks))
        self.ref_count = [0] * num_blocks
        self.tables = {}

    def _take(self):
        block = self.free_blocks.pop(0)
        self.ref_count[block] = 1
        return block

    def _drop(self, block):
        self.ref_count[block] -= 1
        if self.ref_count[block] == 0:
            self.free_blocks.append(block)
            self.free_blocks.sort()

    def allocate(self, name, count):
        if count > len(self.free_blocks):
            raise OutOfBlocks("too few")
        self.tables[name] = [self._take() for _ in range(count)]

    def fork(self, parent, child):
        self.tables[child] = list(self.tables[parent])
        for block in self.tables[child]:
            self.ref_count[block] += 1

    def write(self, name, index):
        block = self.tables[name][index]
        if self.ref_count[block] == 1:
            return None
        if not self.free_blocks:
            raise OutOfBlocks("no block for the copy")
        copy = self._take()
        self._drop(block)
        self.tables[name][index] = copy
        return block, copy

    def free(self, name):
        for block in self.tables.pop(name):
            self._drop(block)
'''


def _memory_case(rng: random.Random) -> dict:
    calls = [[rng.choice(["write", "fork", "allocate", "write", "free"]), rng.randint(0, 3), rng.randint(0, 3)]
             for _ in range(rng.randint(1, 10))]
    return {"num_blocks": rng.randint(2, 6), "first": rng.randint(1, 2), "calls": calls}


def _drive_memory(trace: Trace, case: dict) -> None:
    """Names in order, A first; numbers choose among those that live."""
    num_blocks = case["num_blocks"]
    memory = trace.new("memory", "SharedBlocks", num_blocks)
    trace.event("pool", num_blocks=num_blocks, block_size=4, num_cpu_blocks=0, free_order="unhashed_first")
    lengths: dict[str, int] = {}
    fresh = iter("ABCDEFGHIJKLMN")

    def look() -> None:
        memory.get("tables")
        memory.get("ref_count")

    def allocate(count: int) -> None:
        name = next(fresh)
        memory.call("allocate", name, count)
        if not trace.raised:
            lengths[name] = count
        look()

    allocate(case["first"])
    for call, first, second in case["calls"]:
        names = list(lengths)
        if call == "allocate":
            allocate(first)
            continue
        if not names:
            continue
        name = names[first % len(names)]
        if call == "fork":
            child = next(fresh)
            memory.call("fork", name, child)
            lengths[child] = lengths[name]
        elif call == "free":
            memory.call("free", name)
            del lengths[name]
        elif lengths[name]:
            memory.call("write", name, second % lengths[name])
        look()


def _wrong_memory(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(MEMORY, *pairs))


MEMORY_EXERCISE = Exercise(
    id="sharing.copy-on-write",
    title="Copy on write",
    chapter="05_copy_on_write",
    minutes=25,
    level="medium",
    goal="Let requests share blocks, and copy a block only when one of several holders writes into it.",
    interface=("SharedBlocks(num_blocks)", "SharedBlocks.allocate(name, count)", "SharedBlocks.fork(parent, child)",
               "SharedBlocks.write(name, index)", "SharedBlocks.free(name)", "SharedBlocks.tables",
               "SharedBlocks.ref_count"),
    hints=("A and B hold P0. B writes into it. Whose K and V would A read afterwards? Which number tells you that "
           "there is a danger?",
           "A count for each block: the number of tables that hold it. fork adds one to each. write looks at the "
           "count: 1 means that nobody else cares; more means take a free block, put it into the writer's table, and "
           "take one from the old block's count.",
           "write: block = tables[name][index]; if ref_count[block] == 1: return None. If nothing is free raise "
           "OutOfBlocks, before you change anything. Else copy = the smallest free block, ref_count[copy] = 1, "
           "ref_count[block] -= 1, tables[name][index] = copy; return (block, copy)."),
    rule="A block's count is the number of tables that hold it; at 0 it is free. Whoever writes into a block with a "
         "count above 1 gets a copy in the smallest free block, and the others keep the old one. An operation that "
         "finds too few free blocks raises OutOfBlocks and changes nothing.",
    examples=({"num_blocks": 4, "first": 3, "calls": [["fork", 0, 0], ["write", 1, 2], ["write", 0, 2]]},
              {"num_blocks": 2, "first": 2, "calls": [["fork", 0, 0], ["write", 1, 1]]},
              {"num_blocks": 3, "first": 1, "calls": [["fork", 0, 0], ["free", 0, 0], ["write", 0, 0], ["free", 0, 0],
                                                      ["allocate", 3, 0]]},
              {"num_blocks": 3, "first": 2, "calls": [["allocate", 2, 0], ["allocate", 1, 0]]}),
    case=_memory_case,
    drive=_drive_memory,
    reference=lambda: from_source(MEMORY),
    misconceptions=(
        _wrong_memory("same-table", "parent and child have the same list as table: a copy for one of them appears in "
                                    "both. Give the child a list of its own.",
                                    "list(self.tables[parent])", "self.tables[parent]"),
        _wrong_memory("no-count", "fork does not count the new holder: the first write overwrites what the other one "
                                  "reads.",
                      "            self.ref_count[block] += 1\n", "            pass\n"),
        _wrong_memory("always-copies", "you copy at every write. With a count of 1 nobody else reads the block: write "
                                       "in place.",
                      "        if self.ref_count[block] == 1:\n            return None\n", ""),
        _wrong_memory("keeps-reference", "the writer left the old block, but its count still has the writer in it: the "
                                         "block is never free again.",
                                         "        self._drop(block)\n        self.tables[name]",
                      "        self.tables[name]"),
        _wrong_memory("copies-for-others", "you give the copy to the others and let the writer keep the block. Whoever "
                                           "writes gets the copy: it is one table to change, not many.",
                      "        self.tables[name][index] = copy\n",
                      "        for other in self.tables:\n            if other != name and block in "
                      "self.tables[other]:\n"
                      "                self.tables[other][index] = copy\n"),
        _wrong_memory("frees-for-all", "free gives the blocks back while others still hold them. Take one from the "
                                       "count; only at 0 is a block free.",
                      "        for block in self.tables.pop(name):\n            self._drop(block)\n",
                      "        for block in self.tables.pop(name):\n            self.ref_count[block] = 1\n"
                      "            self._drop(block)\n"),
        _wrong_memory("half-done", "you took some blocks before you found that there are too few: ask first, then "
                      "take.",
                      "        if count > len(self.free_blocks):\n            raise OutOfBlocks(\"too few\")\n"
                      "        self.tables[name] = [self._take() for _ in range(count)]",
                      "        table = []\n        for _ in range(count):\n            if not self.free_blocks:\n"
                      "                raise OutOfBlocks(\"too few\")\n            table.append(self._take())\n"
                      "        self.tables[name] = table"),
        _wrong_memory("drops-before-asking", "you drop the writer's reference before you know that there is a block "
                                             "for the copy: a write that is refused must change nothing.",
                      "        if not self.free_blocks:\n            raise OutOfBlocks(\"no block for the copy\")\n"
                      "        copy = self._take()\n        self._drop(block)\n",
                      "        self._drop(block)\n        if not self.free_blocks:\n"
                      "            raise OutOfBlocks(\"no block for the copy\")\n        copy = self._take()\n"),
        _wrong_memory("copies-whole-table", "you copy every shared block of the writer. Only the block that is written "
                                            "needs a copy; the rest stays shared.",
                      "        copy = self._take()\n        self._drop(block)\n        self.tables[name][index] = "
                      "copy\n",
                      "        copy = self._take()\n        self._drop(block)\n        self.tables[name][index] = "
                      "copy\n"
                      "        for other, old in enumerate(self.tables[name]):\n"
                      "            if self.ref_count[old] > 1 and self.free_blocks:\n"
                      "                self._drop(old)\n                self.tables[name][other] = self._take()\n"),
    ),
)
