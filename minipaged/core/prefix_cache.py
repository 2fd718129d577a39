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
from collections.abc import Collection, Hashable, Iterable, Sequence

from minipaged.core.block_hash import HashFn, root_key, sha256_key, show_key
from minipaged.core.events import NO_LOG, EventLog
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
        self._events = NO_LOG if events is None else events
        self._top = Node(None)  # above the roots, one root a salt
        self._nodes: dict[Hashable, list[Node]] = {}  # key -> contents with that key (two on a collision)
        self._tails: dict[tuple[Node, int], dict[int, Tail]] = {}  # (parent, first token) -> block -> tail
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
        node = self.root(request.cache_salt)
        if node is None:
            return NO_MATCH
        blocks: list[int] = []
        for index, key in enumerate(self._keys(request, max(limit, 0) // self.block_size)):
            child = self._find(node, key, self._contents(request, index))
            if child is None or not child.blocks:
                break
            node = child
            blocks.append(next(iter(node.blocks)))
        start = len(blocks) * self.block_size
        most = min(limit - start, self.block_size - 1) if self.share_partial_blocks else 0
        tail, length = self._match_tail(node, request, start, most, unwritten)
        return Match(blocks, tail, start + length)

    def _match_tail(self, node: Node, request: Request, start: int, limit: int,
                    unwritten: Collection[int]) -> tuple[int | None, int]:
        """A block whose first tokens, at most `limit`, go on from `start`, and how many; (None, 0): there is none."""
        rest = request.token_ids[start:start + self.block_size]
        if limit == self.block_size - 1 > 0 and len(rest) == self.block_size:
            # The prompt ends where a full block ends: all of that block but its last token may be used.
            index = start // self.block_size
            full = self._find(node, self._keys(request, index + 1)[index], self._contents(request, index))
            for block in full.blocks if full else ():
                if block not in unwritten:
                    return block, limit
        tails = self._tails.get((node, rest[0]), {}) if limit > 0 else {}
        lengths = {block: tail.usable(rest, limit) for block, tail in tails.items()}
        best = max(lengths, key=lengths.get, default=None)
        return best, lengths.get(best, 0)

    def _keys(self, request: Request, count: int) -> list[Hashable]:
        """The chained keys of a request's first `count` full blocks; computed once, kept by the request."""
        keys, size, tokens = request.block_keys, self.block_size, request.packed_tokens()
        parent = keys[-1] if keys else root_key(request.cache_salt)
        for start in range(len(keys) * size, count * size, size):
            parent = self._hash_fn(parent, tokens[start:start + size])
            keys.append(parent)
        return keys[:count]

    def _contents(self, request: Request, index: int) -> bytes:
        """The tokens of one block of a request."""
        return request.packed_tokens()[index * self.block_size:(index + 1) * self.block_size].tobytes()

    def root(self, cache_salt: object) -> Node | None:
        """The parent of every first block with this salt, if there is any."""
        return self._find(self._top, root_key(cache_salt), b"")

    def _find(self, parent: Node, key: Hashable, tokens: bytes) -> Node | None:
        for node in self._nodes.get(key, ()):
            if node.parent is parent and node.tokens == tokens:
                return node
        return None

    def _find_or_make(self, parent: Node, key: Hashable, tokens: bytes) -> Node:
        node = self._find(parent, key, tokens)
        if node is None:
            node = Node(key, parent, tokens)
            self._nodes.setdefault(key, []).append(node)
            parent.num_children += 1
        return node

    # ---- publishing and withdrawing ----

    def publish(self, request: Request, table: Sequence[int], first: int, last: int) -> list[int]:
        """Full blocks first .. last - 1 of a request's table can be found from now on, as those before them.

        Returns the blocks that could not be found until now.
        """
        parent, published = self._parent(request, table, first), []
        keys, size, packed = self._keys(request, last), self.block_size, request.packed_tokens()
        for index in range(first, last):
            block, key = table[index], keys[index]
            node = self.node_of[block]
            if node is None:
                node = self._find_or_make(parent, key, packed[index * size:(index + 1) * size].tobytes())
                node.blocks[block], self.node_of[block], self.covered[block] = None, node, size
                published.append(block)
                if self._events.recording:
                    self._report_publish(block, key, parent, size)
            parent = node
        return published

    def publish_tails(self, written: Iterable[tuple[Request, Sequence[int]]]) -> None:
        """For each (request, its table): the partly filled block after its full ones, if there is one, can be
        found from now on."""
        size, covered, tail_of, recording = self.block_size, self.covered, self._tail_of, self._events.recording
        for request, table in written:
            computed = request.num_computed_tokens
            length, block = computed % size, table[computed // size] if computed % size else 0
            if covered[block] >= length:
                continue  # nothing there, or taken over from a hit and not written since
            tail = tail_of[block]
            if tail is None:
                tail = self._start_tail(request, table, computed // size)
            tokens, covered[block] = tail.tokens, length
            tokens += request.token_ids[computed - length + len(tokens):computed]
            if recording:
                self._report_publish(block, None, tail.parent, length)

    def _start_tail(self, request: Request, table: Sequence[int], index: int) -> Tail:
        parent = self._parent(request, table, index)
        tail = self._tail_of[table[index]] = Tail(parent, request.token_ids[index * self.block_size], [])
        parent.num_children += 1
        self._tails.setdefault((parent, tail.first), {})[table[index]] = tail
        return tail

    def _parent(self, request: Request, table: Sequence[int], index: int) -> Node:
        """The contents that block `index` of a request goes on from."""
        if index:
            return self.node_of[table[index - 1]]
        return self._find_or_make(self._top, root_key(request.cache_salt), b"")

    def withdraw(self, block: int, keep: int = 0, reason: str = "evict") -> None:
        """Forget what a full block is known by, and of its tail all but the first `keep` tokens."""
        node, tail = self.node_of[block], self._tail_of[block]
        self.covered[block] = min(keep, len(tail.tokens)) if tail else 0
        if node is not None:
            del node.blocks[block]
            self.node_of[block] = None
            self._report(block, node.key, self.block_size, reason)
            self._prune(node)
        if tail is not None and keep < len(tail.tokens):
            self._report(block, None, len(tail.tokens), reason)
            del tail.tokens[keep:]
            if keep:
                self._report_publish(block, None, tail.parent, keep)
            else:
                self._drop_tail(block, tail)

    def _drop_tail(self, block: int, tail: Tail) -> None:
        self._tail_of[block] = None
        same_start = self._tails[tail.parent, tail.first]
        del same_start[block]
        if not same_start:
            del self._tails[tail.parent, tail.first]
        tail.parent.num_children -= 1
        self._prune(tail.parent)

    def reset(self) -> int:
        """Forget everything; returns how many blocks had keys."""
        known = [block for block, covered in enumerate(self.covered) if covered]
        for block in known:
            self.withdraw(block, reason="reset")
        return len(known)

    def _prune(self, node: Node) -> None:
        """Drop contents that no block holds and nothing hangs on, upwards."""
        while node is not self._top and not (node.blocks or node.num_children):
            self._nodes[node.key].remove(node)
            if not self._nodes[node.key]:
                del self._nodes[node.key]
            node.parent.num_children -= 1
            node = node.parent

    def _report_publish(self, block: int, key: Hashable, parent: Node, num_tokens: int) -> None:
        self._events.emit("publish", block=block, key=show_key(key), parent=show_key(parent.key),
                          num_tokens=num_tokens, tail=key is None)

    def _report(self, block: int, key: Hashable, num_tokens: int, reason: str) -> None:
        if self._events.recording:
            self._events.emit("withdraw", block=block, key=show_key(key), num_tokens=num_tokens, reason=reason)

    # ---- the source text's names, for a cache that is used alone (no scheduler) ----

    def match_prefix(self, token_ids: Sequence[int], cache_salt: object = None) -> tuple[list[int], int]:
        """(blocks, tokens) known for a prompt, of which at least one token is left to compute."""
        request = Request("match_prefix", token_ids, cache_salt=cache_salt)
        found = self.match(request, request.num_tokens - 1)
        return found.all_blocks, found.num_tokens

    def store(self, token_ids: Sequence[int], blocks: Sequence[int], cache_salt: object = None) -> None:
        """Publish a prompt whose K and V are in these blocks (the last may be partly filled)."""
        request = Request("store", token_ids, cache_salt=cache_salt)
        request.num_computed_tokens = min(request.num_tokens, len(blocks) * self.block_size)
        parent = self.root(cache_salt)
        for index, block in enumerate(blocks):
            known = self.node_of[block]
            if known is None or known.parent is not parent or known.tokens != self._contents(request, index):
                self.withdraw(block, reason="overwrite")
            parent = self.node_of[block]
        full = request.num_computed_tokens // self.block_size
        if full:
            self.publish(request, blocks, 0, full)
        if self.share_partial_blocks:
            self.publish_tails([(request, blocks)])
