"""The prefix cache: finding blocks by their contents (chapter 06).

What K and V hold at a position depends on every token before it. So a full block is known by a *chained*
key: the hash of its own tokens and of its parent's key, and so on up to a root that carries the salt. A
lookup walks down from the root, one block a step, in O(n).

A hash alone is never trusted. Equal contents are one `Node`, and a hit must have the same parent *node* and
the same tokens, so that even a hash with collisions (try `hash_fn=lambda parent, tokens: sum(tokens) % 256`)
serves nobody else's memory. Beyond vLLM, a *partly* filled last block can be shared too: such a tail has
fewer than block_size tokens, so its parent node and the tokens themselves are its key.

The cache holds no references. Blocks whose count is 0 keep their keys until the allocator hands them out
again; the order of its free queue is the eviction order (least recently used first).
"""
from __future__ import annotations

import hashlib
from array import array
from collections import deque
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from minipaged.core.events import EventLog
from minipaged.core.request import Request

HashFn = Callable[[Hashable, tuple[int, ...]], Hashable]


def sha256_key(parent_key: bytes, tokens: tuple[int, ...]) -> bytes:
    """The key of a full block: SHA-256 over its parent's key and its tokens, 8 bytes a token."""
    return hashlib.sha256(parent_key + array("q", tokens).tobytes()).digest()


def encode(value: object) -> bytes:
    """Write a salt so that different values never give the same bytes: type, length, contents.

    Takes None, bool, int, float, text, bytes, and lists or tuples of these; anything else is a TypeError
    (for a tensor or an image pass its shape, its dtype and a strong hash of its bytes).
    """
    if isinstance(value, (list, tuple)):
        body = b"".join(encode(item) for item in value)
    elif isinstance(value, bytes):
        body = value
    elif value is None or isinstance(value, (bool, int, float, str)):
        body = (value if isinstance(value, str) else repr(value)).encode("utf-8", "surrogatepass")
    else:
        raise TypeError(f"a cache salt can't hold a {type(value).__name__}; use None, numbers, text, bytes or "
                        "tuples of these")
    name = "tuple" if isinstance(value, list) else type(value).__name__
    return f"{name}:{len(body)}:".encode() + body


class Node:
    """Contents that some block holds (or held, while a child is still known).

    `blocks`: the full blocks with these contents, first published first. `tails`: tokens of a partly
    filled next block -> the blocks that hold them. `num_children`: nodes one block deeper.
    """

    __slots__ = ("key", "parent", "tokens", "salt", "blocks", "tails", "num_children")

    def __init__(self, key: Hashable, parent: Node | None, tokens: tuple[int, ...], salt: bytes) -> None:
        self.key, self.parent, self.tokens, self.salt = key, parent, tokens, salt
        self.blocks: dict[int, None] = {}
        self.tails: dict[tuple[int, ...], dict[int, None]] = {}
        self.num_children = 0


class Match(NamedTuple):
    """The result of a lookup: `nodes` and `blocks` of the full hits; `tail` is a partly used block or None."""

    nodes: list[Node]
    blocks: list[int]
    tail: int | None
    num_tokens: int


class PrefixCache:
    """Keys of blocks, both ways. `covered[block]` = the most tokens that any key of that block covers."""

    def __init__(self, num_blocks: int, block_size: int, *, share_partial_blocks: bool = True,
                 hash_fn: HashFn = sha256_key, events: EventLog | None = None) -> None:
        self.block_size = block_size
        self.share_partial_blocks = share_partial_blocks
        self.covered = [0] * num_blocks
        self._hash_fn = hash_fn
        self._events = events
        self._roots: dict[bytes, Node] = {}
        self._nodes: dict[Hashable, list[Node]] = {}  # key -> contents with that key (two on a collision)
        self._node_of: list[Node | None] = [None] * num_blocks
        self._tails_of: list[list[tuple[Node, tuple[int, ...]]]] = [[] for _ in range(num_blocks)]

    def __len__(self) -> int:
        """The number of blocks that can be found as full blocks."""
        return sum(node is not None for node in self._node_of)

    def root(self, salt: bytes) -> Node:
        """The parent of every first block with this (encoded) salt."""
        if salt not in self._roots:
            self._roots[salt] = Node(hashlib.sha256(b"root" + salt).digest(), None, (), salt)
        return self._roots[salt]

    def node_of(self, block: int) -> Node | None:
        """The contents under which a full block is published."""
        return self._node_of[block]

    def key(self, request: Request, index: int) -> Hashable:
        """The chained key of a request's full block `index`; computed once, kept in `request.block_keys`."""
        keys, size = request.block_keys, self.block_size
        while len(keys) <= index:
            parent = keys[-1] if keys else self.root(encode(request.cache_salt)).key
            start = len(keys) * size
            keys.append(self._hash_fn(parent, tuple(request.token_ids[start:start + size])))
        return keys[index]

    def match(self, request: Request, limit: int, unwritten: Collection[int] = ()) -> Match:
        """The longest known prefix of at most `limit` tokens. Changes nothing.

        `unwritten` blocks are filled by the very step that is being planned: they may be shared whole, for
        a step writes before it attends, but not in part, for it copies before it writes.
        """
        size, tokens = self.block_size, request.token_ids
        node = self._roots.get(encode(request.cache_salt))
        nodes: list[Node] = []
        blocks: list[int] = []
        if node is None:
            return Match(nodes, blocks, None, 0)
        while (len(nodes) + 1) * size <= limit:
            child = self._find(node, self.key(request, len(nodes)), tuple(tokens[len(nodes) * size:][:size]))
            if child is None or not child.blocks:
                break
            node = child
            nodes.append(node)
            blocks.append(next(iter(node.blocks)))
        start = len(nodes) * size
        if self.share_partial_blocks:
            tail, length = self._match_tail(node, request, start, min(limit - start, size - 1), unwritten)
            if tail is not None:
                return Match(nodes, blocks, tail, start + length)
        return Match(nodes, blocks, None, start)

    def _match_tail(self, node: Node, request: Request, start: int, limit: int,
                    unwritten: Collection[int]) -> tuple[int | None, int]:
        rest = tuple(request.token_ids[start:start + self.block_size])
        if limit == self.block_size - 1 and len(rest) == self.block_size:
            # Prompt and blocks end together: all of the block but its last token may be used.
            full = self._find(node, self.key(request, start // self.block_size), rest)
            for block in full.blocks if full else ():
                if block not in unwritten:
                    return block, limit
        for length in range(limit, 0, -1) if node.tails else ():
            found = node.tails.get(rest[:length])
            if found:
                return next(iter(found)), length
        return None, 0

    def publish(self, parent: Node, key: Hashable, tokens: tuple[int, ...], block: int) -> Node:
        """A full block can be found from now on. Returns the node of its contents."""
        node = self._find(parent, key, tokens)
        if node is None:
            node = Node(key, parent, tokens, parent.salt)
            self._nodes.setdefault(key, []).append(node)
            parent.num_children += 1
        node.blocks[block] = None
        self._node_of[block] = node
        self.covered[block] = self.block_size
        if self._events is not None:
            self._events.emit("publish", block=block, key=show_key(key), parent=show_key(parent.key),
                              num_tokens=len(tokens), tail=False)
        return node

    def publish_tail(self, parent: Node, tokens: tuple[int, ...], block: int) -> None:
        """The first tokens of a partly filled block can be found from now on."""
        if self.covered[block] >= len(tokens):
            return  # taken over from a hit and not written since
        parent.tails.setdefault(tokens, {})[block] = None
        self._tails_of[block].append((parent, tokens))
        self.covered[block] = len(tokens)
        if self._events is not None:
            self._events.emit("publish", block=block, key=None, parent=show_key(parent.key),
                              num_tokens=len(tokens), tail=True)

    def withdraw(self, block: int, keep: int = 0, reason: str = "evict") -> None:
        """Forget every key of a block that covers more than its first `keep` tokens."""
        node, tails = self._node_of[block], self._tails_of[block]
        if node is not None and self.block_size > keep:
            del node.blocks[block]
            self._node_of[block] = None
            self._report(block, node.key, self.block_size, reason)
            self._prune(node)
        while tails and len(tails[-1][1]) > keep:
            parent, tokens = tails.pop()
            del parent.tails[tokens][block]
            if not parent.tails[tokens]:
                del parent.tails[tokens]
            self._report(block, None, len(tokens), reason)
            self._prune(parent)
        if self._node_of[block] is None:
            self.covered[block] = len(tails[-1][1]) if tails else 0

    def reset(self) -> int:
        """Forget everything; returns how many keys there were."""
        count = len(self) + sum(len(tails) for tails in self._tails_of)
        for block in range(len(self.covered)):
            self.withdraw(block, reason="reset")
        return count

    def match_prefix(self, token_ids: Sequence[int], cache_salt: object = None) -> tuple[list[int], int]:
        """(blocks, tokens) known for a prompt, of which at least one token is left to compute."""
        request = Request("match_prefix", token_ids, cache_salt=cache_salt)
        found = self.match(request, request.num_tokens - 1)
        return found.blocks + ([] if found.tail is None else [found.tail]), found.num_tokens

    def store(self, token_ids: Sequence[int], blocks: Sequence[int], cache_salt: object = None) -> None:
        """Publish a prompt whose K and V are in these blocks (the last may be partly filled)."""
        request = Request("store", token_ids, cache_salt=cache_salt)
        size, node = self.block_size, self.root(encode(cache_salt))
        for index, block in enumerate(blocks):
            tokens = tuple(request.token_ids[index * size:(index + 1) * size])
            if len(tokens) == size and self._node_of[block] is None:
                node = self.publish(node, self.key(request, index), tokens, block)
            elif len(tokens) == size:
                node = self._node_of[block]
            elif tokens and self.share_partial_blocks:
                self.publish_tail(node, tokens, block)

    def _find(self, parent: Node, key: Hashable, tokens: tuple[int, ...]) -> Node | None:
        for node in self._nodes.get(key, ()):
            if node.parent is parent and node.tokens == tokens:
                return node
        return None

    def _prune(self, node: Node) -> None:
        """Drop contents that no block holds and nothing hangs on, upwards."""
        while not (node.blocks or node.tails or node.num_children):
            if node.parent is None:
                self._roots.pop(node.salt, None)
                return
            same_key = self._nodes[node.key]
            same_key.remove(node)
            if not same_key:
                del self._nodes[node.key]
            node.parent.num_children -= 1
            node = node.parent

    def _report(self, block: int, key: Hashable, num_tokens: int, reason: str) -> None:
        if self._events is not None:
            self._events.emit("withdraw", block=block, key=show_key(key), num_tokens=num_tokens, reason=reason)


def show_key(key: Hashable) -> str | None:
    """A key for the log: the first 12 hex digits of a digest."""
    return key.hex()[:12] if isinstance(key, bytes) else None if key is None else str(key)


class HitRate:
    """Prefix hit rate over about the last `max_requests` requests; updates are dropped oldest first."""

    def __init__(self, max_requests: int = 1000) -> None:
        self.max_requests = max_requests
        self._updates: deque[tuple[int, int, int]] = deque()

    def record(self, requests: int, queried_tokens: int, hit_tokens: int) -> None:
        if requests:
            self._updates.append((requests, queried_tokens, hit_tokens))
            while len(self._updates) > 1 and sum(update[0] for update in self._updates) > self.max_requests:
                self._updates.popleft()

    def reset(self) -> None:
        self._updates.clear()

    @property
    def value(self) -> float:
        queried = sum(update[1] for update in self._updates)
        return sum(update[2] for update in self._updates) / queried if queried else 0.0
