"""What the prefix cache knows: a tree of block contents (chapter 06).

A `Node` stands for "these tokens after that parent", whoever holds them. Equal contents are one node, so a
path from the root is the whole text before a block, and no two texts can be taken for each other.
"""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Node:
    """Contents that some block holds (or held, while something deeper is still known).

    `tokens`: 8 bytes each. `blocks`: the full blocks with these contents, first published first.
    `num_children`: nodes and tails one block deeper.
    """

    __slots__ = ("key", "parent", "tokens", "blocks", "num_children")

    def __init__(self, key: Hashable, parent: Node | None = None, tokens: bytes = b"") -> None:
        self.key, self.parent, self.tokens = key, parent, tokens
        self.blocks: dict[int, None] = {}
        self.num_children = 0


class Tail(NamedTuple):
    """The first tokens of one block, known though the block is not full."""

    parent: Node
    first: int
    tokens: list[int]

    def usable(self, rest: Sequence[int], limit: int) -> int:
        """How many tokens, at most `limit`, are the same as at the start of `rest`."""
        same = 0
        for own, other in zip(self.tokens, rest[:limit]):
            if own != other:
                break
            same += 1
        return same


class Match(NamedTuple):
    """The result of a lookup: `blocks` that are hit whole, and `tail`, a block of which a part is used, or None."""

    blocks: list[int]
    tail: int | None
    num_tokens: int

    @property
    def all_blocks(self) -> list[int]:
        """Every block of the hit, in logical order."""
        return self.blocks if self.tail is None else [*self.blocks, self.tail]


NO_MATCH = Match([], None, 0)
