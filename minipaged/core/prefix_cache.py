"""The prefix cache: finding blocks by their contents (chapter 06).

What K and V hold at a position depends on every token before it. So a full block is known by a *chained*
key: the hash of its own tokens and of its parent's key, and so on up to a root that carries the salt. A
lookup walks down from the root, one block a step, in O(n).

A hash alone is never trusted. Equal contents are one `Node`, and a hit must have the same parent *node* and
the same tokens, so that even a hash with collisions (try `hash_fn=lambda parent, tokens: sum(tokens) % 256`)
serves nobody else's memory. Beyond vLLM, a *partly* filled last block can be shared too: such a tail has
fewer than block_size tokens, so its parent node and the tokens themselves are its key, and its first tokens
serve whoever has the same ones.

The cache holds no references. Blocks whose count is 0 keep their keys until the allocator hands them out
again; the order of its free queue is the eviction order (least recently used first).
"""
from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Sequence

from minipaged.core.block_hash import HashFn, root_key, sha256_key, show_key
from minipaged.core.events import EventLog
from minipaged.core.prefix_tree import NO_MATCH, Match, Node, Tail
from minipaged.core.request import Request


class PrefixCache:
    """Keys of blocks, both ways.

    `covered[block]` is the most tokens that any key of that block covers, `node_of[block]` the contents under
    which it is published as a full block.
    """

    def __init__(self, num_blocks: int, block_size: int, *, share_partial_blocks: bool = True,
                 hash_fn: HashFn = sha256_key, events: EventLog | None = None) -> None:
        self.block_size = block_size
        self.share_partial_blocks = share_partial_blocks
        self.covered = [0] * num_blocks
        self.node_of: list[Node | None] = [None] * num_blocks
        self._hash_fn = hash_fn
        self._events = events
        self._roots: dict[Hashable, Node] = {}
        self._nodes: dict[Hashable, list[Node]] = {}  # key -> contents with that key (two on a collision)
        self._tail_of: list[Tail | None] = [None] * num_blocks

    def __len__(self) -> int:
        """The number of blocks that can be found as full blocks."""
        return sum(node is not None for node in self.node_of)

    # ---- looking up ----

    def match(self, request: Request, limit: int, unwritten: Collection[int] = ()) -> Match:
        """The longest known prefix of at most `limit` tokens. Changes nothing.

        `unwritten` blocks are filled by the very step that is being planned: they may be shared whole, for
        a step writes before it attends, but not in part, for it copies before it writes.
        """
        size, tokens = self.block_size, request.packed_tokens()
        nodes: list[Node] = []
        blocks: list[int] = []
        node = self._roots.get(root_key(request.cache_salt))
        if node is None:
            return NO_MATCH
        start = 0
        for key in self._keys(request, max(limit, 0) // size):
            child = self._find(node, key, tokens[start:start + size])
            if child is None or not child.blocks:
                break
            node = child
            nodes.append(node)
            blocks.append(next(iter(node.blocks)))
            start += size
        if self.share_partial_blocks:
            tail, length = self._match_tail(node, request, start, min(limit - start, size - 1), unwritten)
            return Match(nodes, blocks, tail, start + length)
        return Match(nodes, blocks, None, start)

    def _match_tail(self, node: Node, request: Request, start: int, limit: int,
                    unwritten: Collection[int]) -> tuple[int | None, int]:
        rest = request.packed_tokens()[start:start + self.block_size]
        if limit == self.block_size - 1 > 0 and len(rest) == self.block_size:
            # The prompt ends where a full block ends: all of that block but its last token may be used.
            index = start // self.block_size
            full = self._find(node, self._keys(request, index + 1)[index], rest)
            for block in full.blocks if full else ():
                if block not in unwritten:
                    return block, limit
        best, best_length = None, 0
        for block, tail in node.tails.get(rest[0], {}).items() if limit > 0 else ():
            length = tail.usable(rest, limit)
            if length > best_length:
                best, best_length = block, length
                if length == limit:
                    break
        return best, best_length

    def _keys(self, request: Request, count: int) -> list[Hashable]:
        """The chained keys of a request's first `count` full blocks; computed once, kept by the request."""
        keys, size, tokens = request.block_keys, self.block_size, request.packed_tokens()
        parent = keys[-1] if keys else root_key(request.cache_salt)
        for start in range(len(keys) * size, count * size, size):
            parent = self._hash_fn(parent, tokens[start:start + size])
            keys.append(parent)
        return keys[:count]

    def root(self, cache_salt: object) -> Node:
        """The parent of every first block with this salt."""
        key = root_key(cache_salt)
        if key not in self._roots:
            self._roots[key] = Node(key)
        return self._roots[key]

    def _find(self, parent: Node, key: Hashable, tokens: array) -> Node | None:
        for node in self._nodes.get(key, ()):
            if node.parent is parent and node.tokens == tokens:
                return node
        return None

    # ---- publishing and withdrawing ----

    def publish(self, request: Request, parent: Node, first: int, blocks: Sequence[int],
                published: set[int] | None = None) -> list[Node]:
        """Full blocks `first`, first + 1, ... of a request can be found from now on. `parent` is the node of
        the block before. Returns the blocks' nodes; adds those that were not known before to `published`."""
        size, tokens, nodes = self.block_size, request.packed_tokens(), []
        keys = self._keys(request, first + len(blocks))
        for index, block in enumerate(blocks, first):
            node = self.node_of[block]
            if node is None:
                contents = tokens[index * size:(index + 1) * size]
                node = self._find(parent, keys[index], contents)
                if node is None:
                    node = Node(keys[index], parent, contents)
                    self._nodes.setdefault(node.key, []).append(node)
                    parent.num_children += 1
                node.blocks[block] = None
                self.node_of[block] = node
                self.covered[block] = size
                if published is not None:
                    published.add(block)
                if self._events is not None:
                    self._events.emit("publish", block=block, key=show_key(node.key), parent=show_key(parent.key),
                                      num_tokens=size, tail=False)
            nodes.append(node)
            parent = node
        return nodes

    def publish_tail(self, parent: Node, token_ids: Sequence[int], start: int, length: int, block: int) -> None:
        """The first `length` tokens of a partly filled block, token_ids[start:], can be found from now on."""
        if self.covered[block] >= length:
            return  # taken over from a hit and not written since
        tail = self._tail_of[block]
        if tail is None:
            tail = self._tail_of[block] = Tail(parent)
            parent.tails.setdefault(token_ids[start], {})[block] = tail
        tail.tokens += token_ids[start + len(tail.tokens):start + length]
        self.covered[block] = length
        if self._events is not None:
            self._report_tail(block, tail)

    def withdraw(self, block: int, keep: int = 0, reason: str = "evict") -> None:
        """Forget every key of a block that covers more than its first `keep` tokens."""
        node, tail = self.node_of[block], self._tail_of[block]
        if node is not None and keep < self.block_size:
            del node.blocks[block]
            self.node_of[block] = None
            self.covered[block] = len(tail.tokens) if tail else 0
            self._report(block, node.key, self.block_size, reason)
            self._prune(node)
        if tail is not None and keep < len(tail.tokens):
            self._cut_tail(block, tail, keep, reason)

    def _cut_tail(self, block: int, tail: Tail, keep: int, reason: str) -> None:
        self._report(block, None, len(tail.tokens), reason)
        self.covered[block] = keep
        if keep:
            del tail.tokens[keep:]
            if self._events is not None:
                self._report_tail(block, tail)
            return
        self._tail_of[block] = None
        same_start = tail.parent.tails[tail.tokens[0]]
        del same_start[block]
        if not same_start:
            del tail.parent.tails[tail.tokens[0]]
        self._prune(tail.parent)

    def reset(self) -> int:
        """Forget everything; returns how many blocks had keys."""
        known = [block for block, covered in enumerate(self.covered) if covered]
        for block in known:
            self.withdraw(block, reason="reset")
        return len(known)

    def _prune(self, node: Node) -> None:
        """Drop contents that no block holds and nothing hangs on, upwards."""
        while not (node.blocks or node.tails or node.num_children):
            if node.parent is None:
                self._roots.pop(node.key, None)
                return
            same_key = self._nodes[node.key]
            same_key.remove(node)
            if not same_key:
                del self._nodes[node.key]
            node.parent.num_children -= 1
            node = node.parent

    def _report_tail(self, block: int, tail: Tail) -> None:
        self._events.emit("publish", block=block, key=None, parent=show_key(tail.parent.key),
                          num_tokens=len(tail.tokens), tail=True)

    def _report(self, block: int, key: Hashable, num_tokens: int, reason: str) -> None:
        if self._events is not None:
            self._events.emit("withdraw", block=block, key=show_key(key), num_tokens=num_tokens, reason=reason)

    # ---- the source text's names, for a cache that is used alone (no scheduler) ----

    def match_prefix(self, token_ids: Sequence[int], cache_salt: object = None) -> tuple[list[int], int]:
        """(blocks, tokens) known for a prompt, of which at least one token is left to compute."""
        request = Request("match_prefix", token_ids, cache_salt=cache_salt)
        found = self.match(request, request.num_tokens - 1)
        return found.blocks + ([] if found.tail is None else [found.tail]), found.num_tokens

    def store(self, token_ids: Sequence[int], blocks: Sequence[int], cache_salt: object = None) -> None:
        """Publish a prompt whose K and V are in these blocks (the last may be partly filled)."""
        request = Request("store", token_ids, cache_salt=cache_salt)
        size, node = self.block_size, None  # the node of the block before; None stands for the root
        for index, block in enumerate(blocks):
            tokens = request.packed_tokens()[index * size:(index + 1) * size]
            known, parent = self.node_of[block], node or self._roots.get(root_key(cache_salt))
            if known and known.parent is parent and known.tokens == tokens:
                node = known
                continue
            self.withdraw(block, reason="overwrite")  # may drop the root: ask for it only now
            if len(tokens) == size:
                node = self.publish(request, node or self.root(cache_salt), index, [block])[0]
            elif tokens and self.share_partial_blocks:
                self.publish_tail(node or self.root(cache_salt), tokens, 0, len(tokens), block)
