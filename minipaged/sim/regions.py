"""Allocators of contiguous regions, as before paging: buddy and first fit (chapter 02).

Slots are numbered 0 .. size - 1; a region is a `range`. Source of the buddy system: Knuth, "The Art of
Computer Programming", volume 1, section 2.5.
"""
from __future__ import annotations

from bisect import bisect_left, insort


class BuddyAllocator:
    """Regions of 2^k slots, each at a multiple of its size inside its arena; freed twins merge.

    A size that is no power of two is cut into arenas that are, largest first.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._free: dict[int, list[int]] = {}  # region size -> starts, ascending
        self._arena: list[tuple[int, int]] = []  # (start, size)
        start = 0
        while size:
            piece = 1 << (size.bit_length() - 1)
            self._arena.append((start, piece))
            self._free.setdefault(piece, []).append(start)
            start, size = start + piece, size - piece

    def rounded(self, count: int) -> int:
        """Slots that a request for `count` really takes."""
        return 1 << (count - 1).bit_length()

    def allocate(self, count: int) -> range | None:
        """A region with room for `count` slots from the smallest free one that is large enough, or None."""
        wanted = self.rounded(count)
        found = min((size for size, starts in self._free.items() if size >= wanted and starts), default=None)
        if found is None:
            return None
        start = self._free[found].pop(0)
        while found > wanted:
            found //= 2
            insort(self._free.setdefault(found, []), start + found)
        return range(start, start + wanted)

    def free(self, region: range) -> None:
        """Give a region back; it merges with its twin as often as that is free."""
        start, size = region.start, len(region)
        base, limit = next((base, length) for base, length in self._arena if base <= start < base + length)
        while size < limit:
            twin = base + ((start - base) ^ size)
            starts = self._free.get(size, [])
            at = bisect_left(starts, twin)
            if at == len(starts) or starts[at] != twin:
                break
            del starts[at]
            start, size = min(start, twin), 2 * size
        insort(self._free.setdefault(size, []), start)

    def holes(self) -> list[int]:
        """Sizes of the free regions."""
        return [size for size, starts in sorted(self._free.items()) for _ in starts]


class FirstFitAllocator:
    """Regions of any size from the first hole that is large enough; neighbouring holes merge."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._holes: list[tuple[int, int]] = [(0, size)]  # (start, end), ascending

    def rounded(self, count: int) -> int:
        return count

    def allocate(self, count: int) -> range | None:
        """The first hole that is long enough; None where there is none."""
        for at, (start, end) in enumerate(self._holes):
            if end - start >= count:
                self._holes[at:at + 1] = [(start + count, end)] if end - start > count else []
                return range(start, start + count)
        return None

    def free(self, region: range) -> None:
        """Give back a region; it joins the holes beside it."""
        start, end = region.start, region.stop
        at = bisect_left(self._holes, (start, end))
        if at < len(self._holes) and self._holes[at][0] == end:
            end = self._holes.pop(at)[1]
        if at and self._holes[at - 1][1] == start:
            at -= 1
            start = self._holes.pop(at)[0]
        self._holes.insert(at, (start, end))

    def holes(self) -> list[int]:
        return [end - start for start, end in self._holes]


ALLOCATORS = {"buddy": BuddyAllocator, "first_fit": FirstFitAllocator}
