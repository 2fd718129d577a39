"""Right answers of different structure for the lab of chapter 05. Each cell is a whole answer."""

# %% sharing.savings: blocks that sharing saves, taken away
def blocks_needed(prefix, own, num_requests, block_size):
    apart = num_requests * ((prefix + own + block_size - 1) // block_size)
    return apart, apart - (num_requests - 1) * (prefix // block_size)


# %% sharing.savings: the blocks as a set
def blocks_needed(prefix, own, num_requests, block_size):
    apart, shared = [], set()
    for request in range(num_requests):
        for first in range(0, prefix + own, block_size):
            full_prefix = first + block_size <= prefix
            apart.append(first)
            shared.add((first, None if full_prefix else request))
    return len(apart), len(shared)


# %% sharing.savings: what each has alone
import math


def blocks_needed(prefix, own, num_requests, block_size):
    common, rest = divmod(prefix, block_size)
    alone = math.ceil((rest + own) / block_size)
    return num_requests * (common + alone), common + num_requests * alone


# %% sharing.copy-on-write: a heap of free blocks
import heapq

from minipaged.errors import OutOfBlocks


class SharedBlocks:
    def __init__(self, num_blocks):
        self.heap = list(range(num_blocks))
        self.ref_count, self.tables = [0] * num_blocks, {}

    def _drop(self, block):
        self.ref_count[block] -= 1
        if not self.ref_count[block]:
            heapq.heappush(self.heap, block)

    def _take(self):
        if not self.heap:
            raise OutOfBlocks("none")
        block = heapq.heappop(self.heap)
        self.ref_count[block] += 1
        return block

    def allocate(self, name, count):
        if len(self.heap) < count:
            raise OutOfBlocks("few")
        self.tables[name] = [self._take() for _ in range(count)]

    def fork(self, parent, child):
        self.tables[child] = self.tables[parent][:]
        for block in self.tables[parent]:
            self.ref_count[block] += 1

    def write(self, name, index):
        old = self.tables[name][index]
        if self.ref_count[old] > 1:
            new = self._take()
            self._drop(old)
            self.tables[name][index] = new
            return old, new

    def free(self, name):
        for block in self.tables[name]:
            self._drop(block)
        del self.tables[name]


# %% sharing.copy-on-write: counts made from the tables
from minipaged.errors import OutOfBlocks


class SharedBlocks:
    def __init__(self, num_blocks):
        self.num_blocks, self.tables = num_blocks, {}

    @property
    def ref_count(self):
        held = [block for table in self.tables.values() for block in table]
        return [held.count(block) for block in range(self.num_blocks)]

    def _free_blocks(self):
        return [block for block, count in enumerate(self.ref_count) if count == 0]

    def allocate(self, name, count):
        free = self._free_blocks()
        if len(free) < count:
            raise OutOfBlocks(f"{len(free)} free")
        self.tables[name] = free[:count]

    def fork(self, parent, child):
        self.tables[child] = self.tables[parent].copy()

    def write(self, name, index):
        table = self.tables[name]
        if self.ref_count[table[index]] < 2:
            return None
        try:
            copy = self._free_blocks()[0]
        except IndexError:
            raise OutOfBlocks("no room for a copy") from None
        source, table[index] = table[index], copy
        return source, copy

    def free(self, name):
        del self.tables[name]


# %% sharing.copy-on-write: the holders of each block
from minipaged.errors import OutOfBlocks


class SharedBlocks:
    def __init__(self, num_blocks):
        self.holders = [set() for _ in range(num_blocks)]
        self.tables = {}

    @property
    def ref_count(self):
        return [len(names) for names in self.holders]

    def allocate(self, name, count):
        free = [block for block, names in enumerate(self.holders) if not names]
        if len(free) < count:
            raise OutOfBlocks("not enough")
        self.tables[name] = []
        for block in free[:count]:
            self.holders[block].add(name)
            self.tables[name].append(block)

    def fork(self, parent, child):
        self.tables[child] = [block for block in self.tables[parent]]
        for names in self.holders:
            if parent in names:
                names.add(child)

    def write(self, name, index):
        block = self.tables[name][index]
        if self.holders[block] == {name}:
            return None
        copy = next((free for free, names in enumerate(self.holders) if not names), None)
        if copy is None:
            raise OutOfBlocks("not one")
        self.holders[copy].add(name)
        self.holders[block].discard(name)
        self.tables[name][index] = copy
        return [block, copy]

    def free(self, name):
        self.tables.pop(name)
        for names in self.holders:
            names.discard(name)


# %% sharing.beams: a counter
from collections import Counter


def next_beams(tables, parents):
    new = [tables[parent][:] for parent in parents]
    counts = Counter(block for table in new for block in table)
    old = Counter(block for table in tables for block in table)
    return new, dict(counts), sorted(block for block in old if block not in counts)


# %% sharing.beams: old beams one after the other
def next_beams(tables, parents):
    children = [parents.count(beam) for beam in range(len(tables))]
    counts, gone = {}, []
    for table, times in zip(tables, children):
        for block in table:
            counts[block] = counts.get(block, 0) + times
    for block in [block for block, count in counts.items() if not count]:
        gone.append(block)
        counts.pop(block)
    return [tables[parent].copy() for parent in parents], counts, sorted(gone)


# %% sharing.beams: references up, then down
def next_beams(tables, parents):
    counts = {}
    for table in tables:
        for block in table:
            counts[block] = counts.get(block, 0) + 1
    new = []
    for parent in parents:
        new.append(list(tables[parent]))
        for block in new[-1]:
            counts[block] += 1
    for table in tables:
        for block in table:
            counts[block] -= 1
    return new, {block: n for block, n in counts.items() if n}, sorted(block for block, n in counts.items() if n == 0)
