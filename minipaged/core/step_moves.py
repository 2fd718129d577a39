"""What the plan under way has promised: block moves, and blocks that only it will fill (chapter 07)."""
from __future__ import annotations

from collections.abc import Collection

from minipaged.core.plan import StepPlan


class StepMoves:
    """Pairs (source, destination) for the next plan, and `unwritten`: blocks published before they are filled."""

    def __init__(self) -> None:
        self.copies: list[tuple[int, int]] = []
        self.swap_outs: list[tuple[int, int]] = []
        self.swap_ins: list[tuple[int, int]] = []
        self.unwritten: set[int] = set()

    def hand_over(self, plan: StepPlan) -> None:
        """Put the moves into their plan."""
        plan.copies, plan.swap_outs, plan.swap_ins = self.copies, self.swap_outs, self.swap_ins
        self.copies, self.swap_outs, self.swap_ins = [], [], []

    def drop_into(self, blocks: Collection[int]) -> bool:
        """Forget the moves that fill these blocks; True when there were any."""
        before = len(self.copies) + len(self.swap_ins)
        self.copies = [pair for pair in self.copies if pair[1] not in blocks]
        self.swap_ins = [pair for pair in self.swap_ins if pair[1] not in blocks]
        return len(self.copies) + len(self.swap_ins) < before

    def copies_from(self, blocks: Collection[int]) -> bool:
        return any(source in blocks for source, _ in self.copies)
