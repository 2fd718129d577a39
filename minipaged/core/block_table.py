"""The block table: logical block -> physical block, position -> slot (chapter 03).

Like the page table of a process: a request sees one contiguous row of positions, memory sees blocks
anywhere. Source: SOSP 2023 paper, section 4.2.
"""
from collections.abc import Iterable

from minipaged.errors import BlockError, whole_number


class BlockTable:
    """`blocks[i]` is the physical block of positions i x block_size .. (i + 1) x block_size - 1.

    `blocks` is a tuple that is replaced, never changed: a plan that took it keeps the table of its moment.
    """

    __slots__ = ("block_size", "blocks")

    def __init__(self, block_size: int = 16, blocks: Iterable[int] = ()) -> None:
        self.block_size = whole_number("block_size", block_size, 1)
        self.blocks = tuple(blocks)

    @property
    def num_blocks(self) -> int:
        return len(self.blocks)

    def append(self, block: int) -> None:
        """Add a physical block at the end."""
        self.blocks += (block,)

    def extend(self, blocks: Iterable[int]) -> None:
        self.blocks += tuple(blocks)

    def replace(self, logical: int, block: int) -> int:
        """Point a logical block elsewhere (copy-on-write); returns the physical block that was there."""
        old = self.get_physical(logical)
        self.blocks = self.blocks[:logical] + (block,) + self.blocks[logical + 1:]
        return old

    def get_physical(self, logical: int) -> int:
        """The physical block of a logical block. Raises BlockError when the table has no such entry."""
        if not 0 <= logical < len(self.blocks):
            raise BlockError(f"logical block {logical} is not in the table; it has {len(self.blocks)} block(s)")
        return self.blocks[logical]

    def slot(self, position: int) -> int:
        """Where the K and V of a token position live: block x block_size + offset."""
        logical, offset = divmod(position, self.block_size)
        return self.get_physical(logical) * self.block_size + offset

    def slots(self, start: int, count: int) -> list[int]:
        """The slots of positions start .. start + count - 1 (the `slot_mapping` of a chunk)."""
        return [self.slot(position) for position in range(start, start + count)]

    def __repr__(self) -> str:
        return f"BlockTable(block_size={self.block_size}, blocks={list(self.blocks)})"
