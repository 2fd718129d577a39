"""The block allocator: a free queue and a reference count for each block (chapter 03).

All blocks have the same size, so any free block serves any request and nothing is ever merged. The free
queue is a doubly linked list kept in two arrays: taking from the front, giving back at either end and
taking out of the middle (a prefix hit on a free block) are all O(1), which a plain list can't do.

A block with count 0 is in the free queue, any other is not. Its contents stay until it is allocated again:
freed is not evicted. Source: Kwon et al., "Efficient Memory Management for Large Language Model Serving
with PagedAttention", SOSP 2023, section 4.
"""
from collections.abc import Iterable, Sequence

from minipaged.core.events import NO_LOG, EventLog
from minipaged.errors import BlockError, OutOfBlocks, whole_number

FREE_ORDERS = ("unhashed_first", "append")


class BlockAllocator:
    """Hands out blocks 0 .. num_blocks - 1 and counts who holds them.

    `free_order` says where a released block goes. "unhashed_first" (vLLM 0.32): blocks that nothing can
    find go to the front, to be used again at once; the others to the back, so that the least recently
    used is evicted first. "append" (vLLM 0.19, nano-vllm): all go to the back.
    """

    def __init__(self, num_blocks: int, block_size: int = 16, *, free_order: str = "unhashed_first",
                 events: EventLog | None = None) -> None:
        if free_order not in FREE_ORDERS:
            raise ValueError(f"free_order is {free_order!r}; it must be one of {', '.join(FREE_ORDERS)}")
        self.num_blocks = num_blocks = whole_number("num_blocks", num_blocks, 1)
        self.block_size = whole_number("block_size", block_size, 1)
        self.free_order = free_order
        self.ref_count = [0] * num_blocks
        self.free_count = num_blocks  # blocks in the free queue
        self._events = NO_LOG if events is None else events
        # Node num_blocks is the sentinel: its next is the front of the queue, its previous the back.
        self._next = [*range(1, num_blocks + 1), 0]
        self._previous = [num_blocks, *range(num_blocks)]

    @property
    def utilization(self) -> float:
        """Share of the pool that requests hold, 0.0 to 1.0."""
        return 1 - self.free_count / self.num_blocks

    def free_blocks(self) -> list[int]:
        """The free queue, front first."""
        order, block = [], self._next[self.num_blocks]
        while block != self.num_blocks:
            order.append(block)
            block = self._next[block]
        return order

    def allocate(self, request_id: str | None = None, index: int | None = None) -> int:
        """Take the block at the front; its count becomes 1. Raises OutOfBlocks when none is free."""
        return self.allocate_many(1, request_id, index)[0]

    def allocate_many(self, count: int, request_id: str | None = None, index: int | None = None) -> list[int]:
        """Take `count` blocks from the front, or raise OutOfBlocks and change nothing.

        `request_id` and `index` (of the first one in its table) are only for the event log.
        """
        if count > self.free_count:
            raise OutOfBlocks(f"{count} block(s) of {self.block_size} tokens are needed, {self.free_count} of "
                              f"{self.num_blocks} are free; free some, or make a pool with more blocks")
        blocks, block = [], self._next[self.num_blocks]
        for _ in range(count):
            blocks.append(block)
            self.ref_count[block] = 1
            block = self._next[block]
        self._next[self.num_blocks], self._previous[block] = block, self.num_blocks  # cut them off as one
        self.free_count -= count
        if self._events.recording:
            for position, block in enumerate(blocks, index or 0):
                self._events.emit("allocate", block=block, request=request_id,
                                  index=None if index is None else position, ref_count=1)
        return blocks

    def increment_ref(self, block: int) -> None:
        """One more holder of a block that somebody holds. Raises BlockError for a free or unknown block."""
        self._check(block)
        if self.ref_count[block] == 0:
            raise BlockError(f"block {block} is free; a free block can't be shared (allocate it, or use touch)")
        self.ref_count[block] += 1

    def touch(self, block: int) -> None:
        """One more holder, also of a free block whose contents are still wanted (a prefix hit)."""
        self._check(block)
        if self.ref_count[block] == 0:
            self._unlink(block)
        self.ref_count[block] += 1

    def free(self, block: int) -> None:
        """Drop one reference. At 0 the block goes back to the free queue. Raises BlockError (double free)."""
        self.free_many([block])

    def free_many(self, blocks: Iterable[int], keep: Sequence[int] | None = None,
                  request_id: str | None = None) -> None:
        """Drop one reference of each distinct block of a table, given in table order.

        A block that a table holds twice is dropped once. `keep[block]` is true for blocks that can still
        be found by their contents. Blocks that reach 0 go back tail first, so that of one request the
        start, which others are most likely to share, is evicted last. An error changes nothing.
        """
        blocks = list(dict.fromkeys(blocks))
        for block in blocks:
            self._check(block)
            if self.ref_count[block] == 0:
                raise BlockError(f"block {block} is already free; it can't be freed twice")
        to_front, to_back = [], []
        for block in blocks:
            self.ref_count[block] -= 1
            if self.ref_count[block]:
                self._events.emit("release", block=block, request=request_id, ref_count=self.ref_count[block])
            elif self.free_order == "append" or (keep is not None and keep[block]):
                to_back.append(block)
            else:
                to_front.append(block)
        self._link(to_front[::-1], self.num_blocks, self._next[self.num_blocks])
        self._link(to_back[::-1], self._previous[self.num_blocks], self.num_blocks)
        if self._events.recording:
            places = [*((block, "front") for block in to_front), *((block, "back") for block in to_back[::-1])]
            for block, end in places:
                self._events.emit("free", block=block, request=request_id, end=end,
                                  cached=bool(keep is not None and keep[block]))

    def _link(self, blocks: Sequence[int], before: int, after: int) -> None:
        """Put blocks into the queue, in this order, between two that are side by side."""
        for block in blocks:
            self._previous[block], self._next[before] = before, block
            before = block
        self._next[before], self._previous[after] = after, before
        self.free_count += len(blocks)

    def _unlink(self, block: int) -> None:
        before, after = self._previous[block], self._next[block]
        self._next[before], self._previous[after] = after, before
        self.free_count -= 1

    def _check(self, block: int) -> None:
        if not (isinstance(block, int) and 0 <= block < self.num_blocks):
            raise BlockError(f"there is no block {block!r}; the pool has blocks 0 to {self.num_blocks - 1}")
