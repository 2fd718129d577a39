"""Right answers of different structure for the lab of chapter 06. Each cell is a whole answer."""

# %% prefix.eviction: a deque
from collections import deque

from minipaged.errors import BlockError, OutOfBlocks


class EvictionQueue:
    def __init__(self, num_blocks):
        self.queue = deque(range(num_blocks))

    def take(self):
        try:
            return self.queue.popleft()
        except IndexError:
            raise OutOfBlocks("none") from None

    def release(self, block):
        if block in self.queue:
            raise BlockError("free already")
        self.queue.append(block)

    def hit(self, block):
        try:
            self.queue.remove(block)
        except ValueError:
            raise BlockError("not free") from None

    def order(self):
        return list(self.queue)


# %% prefix.eviction: stamps of time, no queue at all
from minipaged.errors import BlockError, OutOfBlocks


class EvictionQueue:
    def __init__(self, num_blocks):
        self.released_at = {block: block for block in range(num_blocks)}
        self.clock = num_blocks

    def order(self):
        return sorted(self.released_at, key=self.released_at.get)

    def take(self):
        if not self.released_at:
            raise OutOfBlocks("none is free")
        oldest = self.order()[0]
        self.released_at.pop(oldest)
        return oldest

    def release(self, block):
        if block in self.released_at:
            raise BlockError(block)
        self.clock += 1
        self.released_at[block] = self.clock

    def hit(self, block):
        if self.released_at.pop(block, None) is None:
            raise BlockError(block)


# %% prefix.eviction: a linked list in two arrays
from minipaged.errors import BlockError, OutOfBlocks


class EvictionQueue:
    def __init__(self, num_blocks):
        self.end = num_blocks
        self.after = [*range(1, num_blocks + 1), 0]
        self.before = [num_blocks, *range(num_blocks)]
        self.free = [True] * num_blocks

    def _unlink(self, block):
        self.after[self.before[block]], self.before[self.after[block]] = self.after[block], self.before[block]
        self.free[block] = False

    def take(self):
        first = self.after[self.end]
        if first == self.end:
            raise OutOfBlocks("no block is free")
        self._unlink(first)
        return first

    def hit(self, block):
        if not self.free[block]:
            raise BlockError(f"{block} is in use")
        self._unlink(block)

    def release(self, block):
        if self.free[block]:
            raise BlockError(f"{block} is free")
        last = self.before[self.end]
        self.after[last] = self.before[self.end] = block
        self.before[block], self.after[block] = last, self.end
        self.free[block] = True

    def order(self):
        found, block = [], self.after[self.end]
        while block != self.end:
            found.append(block)
            block = self.after[block]
        return found
