"""Where the slots of a memory are: used, reserved, never filled, lost in holes, free. Chapter 02."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from minipaged.formulas.units import check_not_negative, check_positive


@dataclass(frozen=True)
class Reservation:
    """Token slots that one request holds: ``capacity`` of them, ``current`` filled, ``final`` at its end."""

    current: int
    final: int
    capacity: int

    def __post_init__(self) -> None:
        check_not_negative(current=self.current, final=self.final, capacity=self.capacity)
        if not self.current <= min(self.final, self.capacity):
            raise ValueError(
                f"current {self.current} is more than final {self.final} or capacity {self.capacity}"
            )


@dataclass(frozen=True)
class WasteSplit:
    """Where the slots of a memory are, by the terms of the PagedAttention paper (section 3.1). In slots.

    used        hold a token now
    reserved    held now and filled later by the same request
    internal    held and never filled
    external    free, but in holes too small for the next request
    free        free and usable
    """

    used: int = 0
    reserved: int = 0
    internal: int = 0
    external: int = 0
    free: int = 0

    @property
    def total(self) -> int:
        return self.used + self.reserved + self.internal + self.external + self.free

    @property
    def utilization(self) -> float:
        """Used part of all slots, 0 to 1 (0 for an empty memory)."""
        return self.used / self.total if self.total else 0.0


def split_waste(
    reservations: Iterable[Reservation], holes: Iterable[int] = (), next_capacity: int = 1
) -> WasteSplit:
    """Split a memory into used, reserved, internal, external and free slots.

    ``holes`` are the lengths of its free stretches, in slots; one that is shorter than ``next_capacity``,
    the reservation that the next request asks for, is lost to external fragmentation. Blocks of one size
    never lose a hole: pass ``next_capacity=block_size``.
    """
    used = reserved = internal = 0
    for r in reservations:
        will_fill = min(r.final, r.capacity)
        used += r.current
        reserved += will_fill - r.current
        internal += r.capacity - will_fill
    holes = list(holes)
    for hole in holes:
        check_not_negative(hole=hole)
    external = sum(hole for hole in holes if hole < next_capacity)
    return WasteSplit(used, reserved, internal, external, free=sum(holes) - external)


def expected_tail_waste(block_size: int) -> Fraction:
    """Mean empty slots of a last block, all remainders being equally likely: ``(block_size - 1) / 2``."""
    check_positive(block_size=block_size)
    return Fraction(block_size - 1, 2)
