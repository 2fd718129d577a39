"""Lab of chapter 05: blocks with several holders, and who copies what when somebody writes."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

# ---- sharing.copy-on-write

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
    rule="A block's count is the number of tables that hold it; at 0 it is free. Who writes into a block with a count "
         "above 1 gets a copy in the smallest free block, and the others keep the old one. An operation that finds too "
         "few free blocks raises OutOfBlocks and changes nothing.",
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
        _wrong_memory("copies-for-others", "you give the copy to the others and let the writer keep the block. Who "
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

# ---- sharing.savings

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
        _wrong_savings("tokens", "you count tokens in the second number; asked are blocks.",
                       "full + num_requests * (total - full)", "prefix + num_requests * own"),
    ),
)

# ---- sharing.beams

BEAMS = '''\
def next_beams(tables, parents):
    new = [list(tables[parent]) for parent in parents]
    counts = {}
    for table in new:
        for block in table:
            counts[block] = counts.get(block, 0) + 1
    freed = sorted({block for table in tables for block in table} - set(counts))
    return new, counts, freed
'''


def _beams_case(rng: random.Random) -> dict:
    width = rng.randint(1, 3)
    shared = rng.randint(0, 2)
    tables = [list(range(shared)) + [10 + 3 * beam + place for place in range(rng.randint(0, 2))]
              for beam in range(width)]
    return {"tables": tables, "parents": [rng.randint(0, width - 1) for _ in range(rng.randint(0, 3))]}


def _drive_beams(trace: Trace, case: dict) -> None:
    trace.call("next_beams", case["tables"], case["parents"])


def _wrong_beams(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(BEAMS, *pairs))


BEAMS_EXERCISE = Exercise(
    id="sharing.beams",
    title="Beams that split and die",
    chapter="05_copy_on_write",
    minutes=15,
    level="hard",
    goal="Keep the tables of a beam search: a beam may go on several times or not at all, and no block is copied for "
         "it.",
    interface=("next_beams(tables, parents)",),
    hints=("Beam 0 goes on twice and beam 1 not at all. How many tables hold beam 0's blocks afterwards?",
           "The new tables are copies of the parents' lists. A block's count is the number of new tables that hold it. "
           "Old blocks with no new holder are free.",
           "new = [list(tables[parent]) for parent in parents]; count the blocks of all new tables in a dict; freed = "
           "sorted(the set of all old blocks - the set of counted ones)."),
    rule="Each new beam holds its parent's blocks, in a list of its own. A block's count is the number of new tables "
         "that hold it. A block that no new table holds is freed; one that any holds is not.",
    examples=({"tables": [[0, 1], [0, 2]], "parents": [0, 0]},
              {"tables": [[0, 1], [0, 2]], "parents": [1, 0]},
              {"tables": [[0, 1], [0, 2], [0, 3]], "parents": [2]},
              {"tables": [[0, 1]], "parents": []}),
    case=_beams_case,
    drive=_drive_beams,
    reference=lambda: from_source(BEAMS),
    misconceptions=(
        _wrong_beams("order-lost", "the new beams come in the order of `parents`: the first new beam goes on from "
                                   "parents[0].",
                     "for parent in parents]", "for parent in sorted(parents)]"),
        _wrong_beams("each-once", "a beam that goes on twice becomes two beams.", "for parent in parents]",
                     "for parent in dict.fromkeys(parents)]"),
        _wrong_beams("frees-shared", "you free all blocks of a beam that dies; those that another beam holds must "
                     "stay.",
                     "freed = sorted({block for table in tables for block in table} - set(counts))",
                     "freed = sorted({block for beam, table in enumerate(tables) if beam not in parents\n"
                     "                    for block in table})"),
        _wrong_beams("frees-nothing", "the blocks of a beam that dies are never freed: memory leaks at every step.",
                     "freed = sorted({block for table in tables for block in table} - set(counts))", "freed = []"),
        _wrong_beams("old-counts", "you count the old tables; asked is who holds a block afterwards.",
                     "    for table in new:", "    for table in tables:"),
        _wrong_beams("adds-up", "you add the new holders to the old ones; the old tables are gone.",
                     "counts = {}\n", "counts = {}\n    for table in tables:\n        for block in table:\n"
                     "            counts[block] = counts.get(block, 0) + 1\n"),
        _wrong_beams("counts-one", "a block with several holders has a count above 1.",
                     "counts[block] = counts.get(block, 0) + 1", "counts[block] = 1"),
        _wrong_beams("freed-twice", "a block that two old beams held is freed once.",
                     "sorted({block for table in tables for block in table} - set(counts))",
                     "sorted(block for table in tables for block in table if block not in counts)"),
    ),
)

EXERCISES = (SAVINGS_EXERCISE, MEMORY_EXERCISE, BEAMS_EXERCISE)
