# %% [markdown]
# # Lab 06 · The prefix cache
#
# A free block still holds what was computed in it. Whoever needs room should take the block that will be missed least,
# and whoever comes with the same prompt should get the old blocks back.

# %% tags=["setup"]
from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab import check, hint, use

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
