"""The host pool: blocks in CPU memory for requests that were swapped out (chapter 09).

A host block is a saved copy of one device block. While that device block is neither written nor handed out
again, both hold the same contents (they are twins): a sibling that is swapped out later shares the host
copy, and a request that returns soon may find its device block untouched and needs no restore.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from minipaged.core.allocator import BlockAllocator
from minipaged.core.events import EventLog
from minipaged.errors import whole_number


class HostPool:
    """`num_blocks` host blocks, counted like device blocks; 0 means that nothing can be swapped."""

    def __init__(self, num_blocks: int, block_size: int, events: EventLog | None = None) -> None:
        num_blocks = whole_number("num_cpu_blocks", num_blocks, 0)
        self.allocator = BlockAllocator(num_blocks, block_size, free_order="append") if num_blocks else None
        self._events = events
        self._host_of: dict[int, int] = {}  # device block -> its twin
        self._device_of: dict[int, int] = {}  # host block -> its twin
        self._returning: list[int] = []  # host blocks that this step's plan still reads

    @property
    def free_count(self) -> int:
        return self.allocator.free_count if self.allocator else 0

    @property
    def has_twins(self) -> bool:
        return bool(self._host_of)

    def device_of(self, host_block: int) -> int | None:
        """The device block that has the same contents, if there is one."""
        return self._device_of.get(host_block)

    def can_save(self, blocks: Iterable[int]) -> bool:
        """Is there room for those of these device blocks that have no twin? (No blocks: nothing to save.)"""
        distinct = dict.fromkeys(blocks)
        return bool(distinct) and sum(block not in self._host_of for block in distinct) <= self.free_count

    def save(self, blocks: Sequence[int], request_id: str) -> tuple[tuple[int, ...], list[tuple[int, int]]]:
        """One reference to a host copy of each block: (host blocks of the table, pairs to copy)."""
        copied = []
        for block in dict.fromkeys(blocks):
            host_block = self._host_of.get(block)
            if host_block is None:
                host_block = self.allocator.allocate()
                self._host_of[block], self._device_of[host_block] = host_block, block
                copied.append((block, host_block))
            else:
                self.allocator.touch(host_block)
            if self._events is not None:
                self._events.emit("swap_out", block=block, host_block=host_block, request=request_id,
                                  copied=(block, host_block) in copied)
        return tuple(self._host_of[block] for block in blocks), copied

    def restored(self, host_block: int, block: int) -> None:
        """A device block gets the contents of a host block in this step: they are twins now."""
        self._host_of[block], self._device_of[host_block] = host_block, block

    def forget_device(self, block: int) -> None:
        """A device block is written or handed out again: it has no twin any more."""
        if block in self._host_of:
            del self._device_of[self._host_of.pop(block)]

    def free_after_step(self, host_blocks: Sequence[int]) -> None:
        """Drop one reference of each, but only when the step that reads them is over."""
        self._returning += dict.fromkeys(host_blocks)

    def end_step(self) -> None:
        returning, self._returning = self._returning, []
        for host_block in returning:
            self.free([host_block])

    def free(self, host_blocks: Sequence[int]) -> None:
        """Drop one reference of each distinct host block."""
        if host_blocks:
            self.allocator.free_many(host_blocks)
        for host_block in dict.fromkeys(host_blocks):
            if self.allocator.ref_count[host_block] == 0:
                twin = self._device_of.pop(host_block, None)
                if twin is not None:
                    del self._host_of[twin]
                if self._events is not None:
                    self._events.emit("host_free", host_block=host_block)
