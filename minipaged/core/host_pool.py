"""The host pool: blocks in CPU memory for requests that were swapped out (chapter 09).

A host block is a saved copy of one device block. While that device block is neither written nor handed out
again, both hold the same contents (they are twins): a sibling that is swapped out later shares the host
copy, and a request that returns soon may find its device block untouched and needs no restore.
"""
from collections.abc import Iterable, Sequence

from minipaged.core.allocator import BlockAllocator
from minipaged.core.events import NO_LOG, EventLog
from minipaged.errors import whole_number


class HostPool:
    """`num_blocks` host blocks, counted like device blocks; 0 means that nothing can be swapped.

    `tables`: swapped request -> its host blocks, in logical order. `twins`: device block -> host block.
    """

    def __init__(self, num_blocks: int, block_size: int, events: EventLog | None = None) -> None:
        num_blocks = whole_number("num_cpu_blocks", num_blocks, 0)
        self.allocator = BlockAllocator(num_blocks, block_size, free_order="append") if num_blocks else None
        self.tables: dict[str, tuple[int, ...]] = {}
        self.twins: dict[int, int] = {}
        self._events = NO_LOG if events is None else events
        self.device_of: dict[int, int] = {}  # the twins, the other way round
        self._returning: list[int] = []  # host blocks that this step's plan still reads

    @property
    def free_count(self) -> int:
        return self.allocator.free_count if self.allocator else 0

    def can_save(self, blocks: Iterable[int]) -> bool:
        """Is there room for those of these device blocks that have no twin? (No blocks: nothing to save.)"""
        distinct = set(blocks)
        return bool(distinct) and len(distinct - self.twins.keys()) <= self.free_count

    def save(self, request_id: str, blocks: Sequence[int]) -> list[tuple[int, int]]:
        """Give a request a host copy of each block; returns the pairs to copy."""
        pairs = []
        for block in dict.fromkeys(blocks):
            copied = block not in self.twins
            if copied:
                self.restored(self.allocator.allocate(), block)
                pairs.append((block, self.twins[block]))
            else:
                self.allocator.touch(self.twins[block])
            self._events.emit("swap_out", block=block, host_block=self.twins[block], request=request_id, copied=copied)
        self.tables[request_id] = tuple(self.twins[block] for block in blocks)
        return pairs

    def restored(self, host_block: int, block: int) -> None:
        """One of the two is copied to the other in this step: they are twins from now on."""
        self.twins[block], self.device_of[host_block] = host_block, block

    def forget_device(self, blocks: Iterable[int]) -> None:
        """Device blocks are written or handed out again: they have no twins any more."""
        for block in blocks if self.twins else ():
            if block in self.twins:
                del self.device_of[self.twins.pop(block)]

    def free_after_step(self, request_id: str) -> None:
        """A request is back: drop its references, but only when the step that reads its host blocks is over."""
        self._returning += dict.fromkeys(self.tables.pop(request_id))

    def end_step(self) -> None:
        returning, self._returning = self._returning, []
        for host_block in returning:
            self._drop([host_block])

    def free(self, request_id: str) -> None:
        """Drop all that a request holds, if it holds anything."""
        if request_id in self.tables:
            self._drop(self.tables.pop(request_id))

    def _drop(self, host_blocks: Sequence[int]) -> None:
        """Drop one reference of each distinct host block."""
        self.allocator.free_many(host_blocks)
        for host_block in dict.fromkeys(host_blocks):
            if self.allocator.ref_count[host_block] == 0:
                if host_block in self.device_of:
                    del self.twins[self.device_of.pop(host_block)]
                self._events.emit("host_free", host_block=host_block)
