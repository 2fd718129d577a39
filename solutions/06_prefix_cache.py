# %% [markdown]
# # Lab 06 · The prefix cache
#
# A free block still holds what was computed in it. Whoever needs room should take the block that will be missed least,
# and whoever comes with the same prompt should get the old blocks back. The last two exercises are hard: a block that fits
# in part, and keys that nobody can forge.

# %% tags=["setup"]
from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab import check, hint, use


def block_key(parent_key, tokens):
    """The key of a block: as weak as a hash can be, so that different blocks often get the same key."""
    return (31 * parent_key + sum(tokens)) % 97

# %% [markdown]
# {{exercise prefix.match}}
#
# A new prompt arrives (prefix cache, 前缀缓存). Which of its blocks are in memory already? The cache knows full blocks by
# their keys, and `block_key` above makes them: the key of a block comes from the key of the block before it, and the first one from
# 0. That key is weak on purpose. Even a strong one must not be trusted alone.
#
# - `tokens` is the prompt. Blocks have `block_size` tokens.
# - `cache` maps a key to a list of entries `(block, before, tokens)`: the physical block, the physical block before it in its
#   text (`None` for a first block), and the tokens that it holds.
# - Return the list of physical blocks that the prompt can use, from its start without a gap. At least one token must be left
#   to compute. One pass is enough: a prompt of 4,000 blocks is among the tests.
#
# **Example.** Block size 4. P0 and P1 hold `1 2 3 4` and `5 6 7 8`, P2 holds `4 3 2 1`. The prompt `1 2 3 4 5 6 7 8 9` can use
# `[0, 1]`. The prompt `1 2 3 4 5 6 7 8` can use only `[0]`: one token of P1 would have to be computed. The prompt
# `4 3 2 1 5 6 7 8 9` can use `[2]`: its second block has the key and the tokens of P1, but P1 comes after P0.

# %% nbgrader={"grade": false, "grade_id": "prefix_match", "locked": false, "schema_version": 3, "solution": true, "task": false}
def match_prefix(tokens, block_size, cache):
    """The physical blocks of the longest known prefix."""
    ### BEGIN SOLUTION
    blocks, key, before = [], 0, None
    for index in range((len(tokens) - 1) // block_size):
        part = tokens[index * block_size:(index + 1) * block_size]
        key = block_key(key, part)
        hits = [entry[0] for entry in cache.get(key, []) if entry[1] == before and entry[2] == part]
        if not hits:
            break
        before = hits[0]
        blocks.append(before)
    return blocks
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "prefix_match_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("prefix.match")

# %% [markdown]
# {{exercise prefix.eviction}}
#
# - `EvictionQueue(num_blocks)`: at first all blocks are free, block 0 is the first to go.
# - `take()` gives the free block that was released longest ago, and it is not free any more; `OutOfBlocks` when none is.
# - `release(block)` makes a block free; `BlockError` if it is free already.
# - `hit(block)`: a request found its prompt in a free block. It is in use again; `BlockError` if it is not free.
# - `order()` lists the free blocks, the next one to be taken first.
#
# **Example.** Three blocks. A takes P0 and P1; it releases P0, then P1. The order is `[2, 0, 1]`. Somebody comes with
# the prompt that is in P0: after `hit(0)` the order is `[2, 1]`, and the next two calls of `take()` give 2 and 1.

# %% nbgrader={"grade": false, "grade_id": "prefix_eviction", "locked": false, "schema_version": 3, "solution": true, "task": false}
class EvictionQueue:
    """Free blocks, the least recently used one first."""

    def __init__(self, num_blocks):
        ### BEGIN SOLUTION
        self.queue = dict.fromkeys(range(num_blocks))  # in order of insertion, and any key is found at once
        ### END SOLUTION

    def take(self):
        ### BEGIN SOLUTION
        if not self.queue:
            raise OutOfBlocks("no block is free")
        block = next(iter(self.queue))
        del self.queue[block]
        return block
        ### END SOLUTION

    def release(self, block):
        ### BEGIN SOLUTION
        if block in self.queue:
            raise BlockError(f"block {block} is free already")
        self.queue[block] = None
        ### END SOLUTION

    def hit(self, block):
        ### BEGIN SOLUTION
        if block not in self.queue:
            raise BlockError(f"block {block} is not free")
        del self.queue[block]
        ### END SOLUTION

    def order(self):
        ### BEGIN SOLUTION
        return list(self.queue)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "prefix_eviction_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("prefix.eviction")

# %% [markdown]
# {{exercise prefix.tail}}
#
# After the full hits a prompt goes on in the middle of somebody's block. Its first tokens may be the same. They can be
# shared as well, although the block goes on differently.
#
# - `rest` is what is left of the prompt, at least one token.
# - `known` lists blocks that come after the same full blocks, each a dictionary: `block`, its number; `tokens`, what is known of it;
#   `holders`, how many requests hold it now; `written`, false when the very step that is being planned will fill it. Such
#   a block can't be used: a step copies before it writes.
# - Return `(block, count, copy)`: the block with the most usable tokens (of equals the first), how many they are, and
#   whether the block must be copied before the prompt writes into it (copy on write, 写时复制). When no block has a usable
#   token: `(None, 0, False)`.
#
# **Example.** The prompt goes on with `5 6 9`. P1 has `5 7`, P2 has `5 6 7 8` and one holder, P0 has `5 6`. P2 and P0 have two usable
# tokens; P2 stands first: `(2, 2, True)`. If the rest is `5 6 7` and P2 has `5 6 7`, only two can be used: one token is
# left to compute.

# %% nbgrader={"grade": false, "grade_id": "prefix_tail", "locked": false, "schema_version": 3, "solution": true, "task": false}
def share_tail(rest, known):
    """The block to share in part, how many of its tokens, and whether it has to be copied."""
    ### BEGIN SOLUTION
    best, most, copy = None, 0, False
    for row in known:
        count = 0
        for mine, theirs in zip(rest[:-1], row["tokens"]):
            if mine != theirs:
                break
            count += 1
        if row["written"] and count > most:
            best, most, copy = row["block"], count, row["holders"] > 0
    return best, most, copy
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "prefix_tail_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("prefix.tail")

# %% [markdown]
# {{exercise prefix.keys}}
#
# First the attack (collision attack, 碰撞攻击). A server that trusts keys alone and uses `block_key` serves a forged prompt from
# the victim's memory. Write `forge(tokens, block_size)`: another prompt of as many token ids, each from 0 to 999, that has the
# same key in every block. `tokens` are full blocks of ids from 0 to 800.
#
# Then the defence. Write `block_keys(tokens, block_size, salt)`: a list with one key for each full block, as `bytes`, text or whole
# numbers. Two keys, of any two prompts, are equal only when the salt and all tokens up to the end of the block are equal. The salt
# (盐) keeps users apart. It is `None`, a whole number or text; `1` and `"1"` are different salts.
#
# **Example.** The victim's prompt is `1 2 3 4`. `4 3 2 1` has the same key, 10. But `7 7 7 7` has only one order: there you need
# another idea. With good keys, `block_keys([9, 9, 1, 2], 2, None)` and `block_keys([9, 8, 1, 2], 2, None)` have nothing in common:
# the second blocks hold the same tokens, but after another text.

# %% nbgrader={"grade": false, "grade_id": "prefix_keys", "locked": false, "schema_version": 3, "solution": true, "task": false}
from hashlib import sha256


def forge(tokens, block_size):
    """Another prompt with the same weak keys."""
    ### BEGIN SOLUTION
    return [token + 97 for token in tokens]
    ### END SOLUTION


def block_keys(tokens, block_size, salt):
    """A key for each full block."""
    ### BEGIN SOLUTION
    key, keys = sha256(repr(salt).encode()).digest(), []
    for end in range(block_size, len(tokens) + 1, block_size):
        block = tokens[end - block_size:end]
        key = sha256(key + repr(block).encode()).digest()
        keys.append(key)
    return keys
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "prefix_keys_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("prefix.keys")
