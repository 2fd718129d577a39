"""Right answers of different structure for the lab of chapter 06. Each cell is a whole answer."""

# %% prefix.eviction: a deque
from collections import deque

from minipaged.errors import BlockError, OutOfBlocks


class EvictionQueue:
    def __init__(self, num_blocks):
        self.queue = deque(range(num_blocks))

    def take(self):
        try:
            return self.queue.popleft()
        except IndexError:
            raise OutOfBlocks("none") from None

    def release(self, block):
        if block in self.queue:
            raise BlockError("free already")
        self.queue.append(block)

    def hit(self, block):
        try:
            self.queue.remove(block)
        except ValueError:
            raise BlockError("not free") from None

    def order(self):
        return list(self.queue)


# %% prefix.eviction: stamps of time, no queue at all
from minipaged.errors import BlockError, OutOfBlocks


class EvictionQueue:
    def __init__(self, num_blocks):
        self.released_at = {block: block for block in range(num_blocks)}
        self.clock = num_blocks

    def order(self):
        return sorted(self.released_at, key=self.released_at.get)

    def take(self):
        if not self.released_at:
            raise OutOfBlocks("none is free")
        oldest = self.order()[0]
        self.released_at.pop(oldest)
        return oldest

    def release(self, block):
        if block in self.released_at:
            raise BlockError(block)
        self.clock += 1
        self.released_at[block] = self.clock

    def hit(self, block):
        if self.released_at.pop(block, None) is None:
            raise BlockError(block)


# %% prefix.eviction: a linked list in two arrays
from minipaged.errors import BlockError, OutOfBlocks


class EvictionQueue:
    def __init__(self, num_blocks):
        self.end = num_blocks
        self.after = [*range(1, num_blocks + 1), 0]
        self.before = [num_blocks, *range(num_blocks)]
        self.free = [True] * num_blocks

    def _unlink(self, block):
        self.after[self.before[block]], self.before[self.after[block]] = self.after[block], self.before[block]
        self.free[block] = False

    def take(self):
        first = self.after[self.end]
        if first == self.end:
            raise OutOfBlocks("no block is free")
        self._unlink(first)
        return first

    def hit(self, block):
        if not self.free[block]:
            raise BlockError(f"{block} is in use")
        self._unlink(block)

    def release(self, block):
        if self.free[block]:
            raise BlockError(f"{block} is free")
        last = self.before[self.end]
        self.after[last] = self.before[self.end] = block
        self.before[block], self.after[block] = last, self.end
        self.free[block] = True

    def order(self):
        found, block = [], self.after[self.end]
        while block != self.end:
            found.append(block)
            block = self.after[block]
        return found


# %% prefix.match: recursion from the end of what is found
def block_key(parent_key, tokens):
    return (31 * parent_key + sum(tokens)) % 97


def match_prefix(tokens, block_size, cache):
    found, key = [None], 0
    while len(tokens) > len(found) * block_size:
        at = (len(found) - 1) * block_size
        key = block_key(key, tokens[at:at + block_size])
        fits = (block for block, before, known in cache.get(key, ())
                if (before, known) == (found[-1], tokens[at:at + block_size]))
        block = next(fits, None)
        if block is None:
            break
        found.append(block)
    return found[1:]


# %% prefix.match: what is known is cut off the prompt, which copies the rest for each block
def block_key(parent_key, tokens):
    return (31 * parent_key + sum(tokens)) % 97


def match_prefix(tokens, block_size, cache):
    blocks, key, before = [], 0, None
    while len(tokens) > block_size:
        part, tokens = tokens[:block_size], tokens[block_size:]
        key = block_key(key, part)
        before = {parent: block for block, parent, known in cache.get(key, []) if known == part}.get(before)
        if before is None:
            return blocks
        blocks = [*blocks, before]
    return blocks


# %% prefix.match: a tree made of the cache first
def match_prefix(tokens, block_size, cache):
    tree = {(before, tuple(known)): block for entries in cache.values() for block, before, known in entries}
    blocks = []
    for start in range(0, len(tokens), block_size):
        part = tuple(tokens[start:start + block_size])
        block = tree.get((blocks[-1] if blocks else None, part))
        if block is None or start + block_size >= len(tokens):
            return blocks
        blocks.append(block)
    return blocks


# %% prefix.match: a generator
from itertools import accumulate, takewhile


def block_key(parent_key, tokens):
    return (31 * parent_key + sum(tokens)) % 97


def match_prefix(tokens, block_size, cache):
    parts = [tokens[at:at + block_size] for at in range(0, len(tokens) - block_size, block_size)]
    keys = list(accumulate(parts, block_key, initial=0))[1:]

    def walk():
        before = None
        for key, part in zip(keys, parts):
            choices = {entry[0] for entry in cache.get(key, []) if entry[1] == before and entry[2] == part}
            before = min(choices, default=None)
            yield before

    return list(takewhile(lambda block: block is not None, walk()))


# %% prefix.tail: takewhile and max
from itertools import takewhile


def share_tail(rest, known):
    def usable(row):
        pairs = zip(row["tokens"], rest[:len(rest) - 1])
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))

    rows = [row for row in known if row["written"]]
    best = max(rows, key=usable, default=None)
    if best is None or usable(best) == 0:
        return None, 0, False
    return best["block"], usable(best), best["holders"] >= 1


# %% prefix.tail: from the longest down
def share_tail(rest, known):
    for count in range(len(rest) - 1, 0, -1):
        for row in known:
            if row["written"] and row["tokens"][:count] == rest[:count]:
                return [row["block"], count, bool(row["holders"])]
    return [None, 0, False]


# %% prefix.tail: position by position, all blocks at once
def share_tail(rest, known):
    alive = [row for row in known if row["written"]]
    count, last = 0, []
    while alive and count < len(rest) - 1:
        alive = [row for row in alive if len(row["tokens"]) > count and row["tokens"][count] == rest[count]]
        if alive:
            count, last = count + 1, alive
    if not last:
        return (None, 0, False)
    return (last[0]["block"], count, last[0]["holders"] != 0)


# %% prefix.keys: one running hash, hex keys
import hashlib
import json


def forge(tokens, block_size):
    forged = list(tokens)
    for start in range(0, len(tokens), block_size):
        forged[start] = (forged[start] + 97) % 1000 if forged[start] + 97 < 1000 else forged[start] - 97
    return forged


def block_keys(tokens, block_size, salt):
    running = hashlib.blake2b(json.dumps(["salt", salt]).encode())
    keys = []
    for index in range(len(tokens) // block_size):
        for token in tokens[index * block_size:(index + 1) * block_size]:
            running.update(token.to_bytes(8, "little"))
        keys.append(running.copy().hexdigest())
    return keys


# %% prefix.keys: the whole text is the key
def forge(tokens, block_size):
    return [token - 97 if token >= 97 else token + 97 for token in tokens]


def block_keys(tokens, block_size, salt):
    ends = range(block_size, len(tokens) + 1, block_size)
    return [f"{type(salt).__name__} {salt!r} {tokens[:end]}" for end in ends]


# %% prefix.keys: whole numbers
from array import array
from hashlib import sha512


def forge(tokens, block_size):
    return [(token + 194) if index % 2 else (token + 97) for index, token in enumerate(tokens)] if max(
        tokens) < 800 else [token + 97 for token in tokens]


def block_keys(tokens, block_size, salt):
    numbers, parent = [], f"{type(salt)}:{salt}".encode()
    while len(tokens) >= block_size:
        parent = sha512(parent + array("q", tokens[:block_size]).tobytes()).digest()
        numbers.append(int.from_bytes(parent, "big"))
        tokens = tokens[block_size:]
    return numbers
