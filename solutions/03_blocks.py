# %% [markdown]
# # Lab 03 · Blocks
#
# Two small pieces carry all of PagedAttention: a pool that hands out blocks, and a table that says where a token is.
# You write both, and both serve the engine. Then you let the table grow, one block at a time.

# %% tags=["setup"]
from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab import check, hint, use

# %% [markdown]
# {{exercise blocks.allocator}}
#
# A pool has `num_blocks` blocks, numbered from 0. All have the same size, so any free block is as good as another.
#
# - `allocate()` gives a free block, whichever you like; it raises `OutOfBlocks` when none is free.
# - `free(block)` takes a block back. A block that is not held (freed twice, or no block of this pool) raises `BlockError`.
# - `free_count` is the number of free blocks (a property: it is read without parentheses).
#
# **Example.** A pool of 3 blocks. Request A takes one, request B takes one: one is left. A gives its block back, and
# two are free again. Then C, D and somebody else ask: the third of them is told `OutOfBlocks`.

# %% nbgrader={"grade": false, "grade_id": "blocks_allocator", "locked": false, "schema_version": 3, "solution": true, "task": false}
class BlockAllocator:
    """Hands out the blocks 0 to num_blocks - 1."""

    def __init__(self, num_blocks):
        ### BEGIN SOLUTION
        self.num_blocks = num_blocks
        self.free_list = list(range(num_blocks))
        ### END SOLUTION

    def allocate(self):
        ### BEGIN SOLUTION
        if not self.free_list:
            raise OutOfBlocks("no block is free")
        return self.free_list.pop()
        ### END SOLUTION

    def free(self, block):
        ### BEGIN SOLUTION
        if block in self.free_list or not 0 <= block < self.num_blocks:
            raise BlockError(f"block {block} is not held")
        self.free_list.append(block)
        ### END SOLUTION

    @property
    def free_count(self):
        ### BEGIN SOLUTION
        return len(self.free_list)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "blocks_allocator_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("blocks.allocator")

# %% [markdown]
# Now let *your* allocator serve the engine. It has no way yet to give a free block back to the prefix cache, so that
# is turned off.

# %%
with use(BlockAllocator=BlockAllocator) as mine:
    llm = mine.llm(num_blocks=24, block_size=4)
    print(llm.generate(["Once upon a time"])[0].outputs[0].text)

# %% [markdown]
# {{exercise blocks.slot}}
#
# A request sees one row of positions, 0, 1, 2, ...; memory sees slots, numbered through all blocks: block `b` has the
# slots `b x block_size` to `b x block_size + block_size - 1`. The block table of a request lists its physical blocks in
# order.
#
# **Example.** Block size 4, and request A has the table `[0, 2]`. Its position 6 is in its second block, at offset 2. The
# second block is physical block 2, which begins at slot 8: so `slot([0, 2], 6, 4)` is 10. Position 8 lies behind
# the table: `BlockError`.

# %% nbgrader={"grade": false, "grade_id": "blocks_slot", "locked": false, "schema_version": 3, "solution": true, "task": false}
def slot(block_table, position, block_size):
    """The slot of a token position; BlockError when the table has no block for it."""
    ### BEGIN SOLUTION
    logical, offset = divmod(position, block_size)
    if logical >= len(block_table):
        raise BlockError(f"position {position} lies behind the {len(block_table)} blocks of the table")
    return block_table[logical] * block_size + offset
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "blocks_slot_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("blocks.slot")

# %% [markdown]
# With your `slot`, the engine writes every key and value where you say.

# %%
with use(slot=slot) as mine:
    llm = mine.llm(num_blocks=24, block_size=4)
    print(llm.generate(["Once upon a time"])[0].outputs[0].text)

# %% [markdown]
# {{exercise blocks.grow}}
#
# A request writes its tokens, and its block table (块表) has to keep pace. `grow` is asked before each step.
#
# - `block_table` lists the request's blocks; `num_tokens` tokens are written already. The table may have more room than
#   they need.
# - `num_new` tokens are to be written next: a whole prompt, a chunk, or one token.
# - `free_blocks` lists the free blocks. The first one is taken first.
# - Return the new table and the new list of free blocks. Leave the old lists as they are.
# - When too few blocks are free, raise `OutOfBlocks`. The request keeps what it had.
#
# **Example.** Block size 4, the free blocks are `[0, 2, 1]`. A comes with 6 tokens: `grow([], 0, 6, 4, [0, 2, 1])` is
# `([0, 2], [1])`. Two more tokens fill its second block: `grow([0, 2], 6, 2, 4, [1])` is `([0, 2], [1])`, for no block is
# missing. Only the ninth token takes P1: `grow([0, 2], 8, 1, 4, [1])` is `([0, 2, 1], [])`.

# %% nbgrader={"grade": false, "grade_id": "blocks_grow", "locked": false, "schema_version": 3, "solution": true, "task": false}
def grow(block_table, num_tokens, num_new, block_size, free_blocks):
    """The new table, the blocks that are still free; OutOfBlocks when there are too few."""
    ### BEGIN SOLUTION
    needed = -(-(num_tokens + num_new) // block_size)
    missing = max(0, needed - len(block_table))
    if missing > len(free_blocks):
        raise OutOfBlocks(f"{missing} blocks are missing, {len(free_blocks)} are free")
    return block_table + free_blocks[:missing], free_blocks[missing:]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "blocks_grow_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("blocks.grow")
