"""Right answers of different structure for the lab of chapter 03. Each cell is a whole answer."""

# %% blocks.allocator: a deque, freed blocks go to the back
from collections import deque

from minipaged.errors import BlockError, OutOfBlocks


class BlockAllocator:
    def __init__(self, num_blocks):
        self.queue = deque(range(num_blocks))
        self.held = set()

    def allocate(self):
        try:
            block = self.queue.popleft()
        except IndexError:
            raise OutOfBlocks("none is free") from None
        self.held.add(block)
        return block

    def free(self, block):
        if block not in self.held:
            raise BlockError(f"{block} is not held")
        self.held.remove(block)
        self.queue.append(block)

    @property
    def free_count(self):
        return len(self.queue)


# %% blocks.allocator: a table of flags, the lowest free block first
from minipaged.errors import BlockError, OutOfBlocks


class BlockAllocator:
    def __init__(self, num_blocks):
        self.is_free = [True] * num_blocks

    @property
    def free_count(self):
        return sum(self.is_free)

    def allocate(self):
        for block, is_free in enumerate(self.is_free):
            if is_free:
                self.is_free[block] = False
                return block
        raise OutOfBlocks("all blocks are held")

    def free(self, block):
        known = block in range(len(self.is_free))
        if not known or self.is_free[block]:
            raise BlockError("not held")
        self.is_free[block] = True


# %% blocks.allocator: a heap of returned blocks beside a counter
import heapq

from minipaged.errors import BlockError, OutOfBlocks


class BlockAllocator:
    def __init__(self, num_blocks):
        self.num_blocks, self.fresh, self.returned = num_blocks, 0, []
        self.free_count = num_blocks

    def allocate(self):
        if self.free_count == 0:
            raise OutOfBlocks("no block is free")
        self.free_count -= 1
        if self.returned:
            return heapq.heappop(self.returned)
        self.fresh += 1
        return self.fresh - 1

    def free(self, block):
        if block < 0 or block >= self.fresh or block in self.returned:
            raise BlockError(f"block {block} is not held")
        heapq.heappush(self.returned, block)
        self.free_count += 1


# %% blocks.slot: divmod
from minipaged.errors import BlockError


def slot(block_table, position, block_size):
    logical, offset = divmod(position, block_size)
    try:
        return block_table[logical] * block_size + offset
    except IndexError:
        raise BlockError("behind the table") from None


# %% blocks.slot: walking through the blocks
from minipaged.errors import BlockError


def slot(block_table, position, block_size):
    for block in block_table:
        if position < block_size:
            return block * block_size + position
        position -= block_size
    raise BlockError("the request has no such position")


# %% blocks.slot: all slots in a row
from minipaged.errors import BlockError


def slot(block_table, position, block_size):
    slots = [block * block_size + offset for block in block_table for offset in range(block_size)]
    if position >= len(slots):
        raise BlockError(f"{position} of {len(slots)}")
    return slots[position]


# %% blocks.grow: block after block, until the tokens fit
from minipaged.errors import OutOfBlocks


def grow(block_table, num_tokens, num_new, block_size, free_blocks):
    table, free = list(block_table), list(free_blocks)
    while len(table) * block_size < num_tokens + num_new:
        if not free:
            raise OutOfBlocks("the pool is empty")
        table.append(free.pop(0))
    return table, free


# %% blocks.grow: token by token
from collections import deque

from minipaged.errors import OutOfBlocks


def grow(table, num_tokens, num_new, block_size, free):
    blocks, line = [*table], deque(free)
    for position in range(num_tokens, num_tokens + num_new):
        if position // block_size == len(blocks):
            try:
                blocks.append(line.popleft())
            except IndexError:
                raise OutOfBlocks(f"no block for position {position}") from None
    return [blocks, list(line)]


# %% blocks.grow: the empty slots first
from math import ceil

from minipaged.errors import OutOfBlocks


def grow(block_table, num_tokens, num_new, block_size, free_blocks):
    empty = len(block_table) * block_size - num_tokens
    take = ceil((num_new - empty) / block_size) if num_new > empty else 0
    new, rest = free_blocks[:take], free_blocks[take:]
    if len(new) < take:
        raise OutOfBlocks(f"{take} wanted, {len(new)} there")
    return (block_table + new, rest)
