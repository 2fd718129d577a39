# %% [markdown]
# # Lab 05 · Copy on write
#
# Requests with the same beginning can hold the same blocks, as long as nobody writes. You count what that saves, then write
# the memory that makes it safe.

# %% tags=["setup"]
from minipaged.errors import OutOfBlocks
from minipaged.lab import check, hint

# %% [markdown]
# {{exercise sharing.savings}}
#
# `num_requests` requests have the same first `prefix` tokens, and behind them each has `own` tokens that nobody else has (at
# least 1). Return two numbers of blocks of `block_size` tokens: how many are needed if each request stores everything
# itself, and how many if they share what can be shared until the end.
#
# **Example.** Two requests share 10 tokens and have 3 of their own, in blocks of 4. Apart each needs 4 blocks: 8. Shared, the
# 2 full blocks of the prefix exist once. The third block holds 2 tokens of the prefix, and both write on in it: one of them
# gets a copy. So 2 + 2 x 2 = 6. The answer is `(8, 6)`.

# %% nbgrader={"grade": false, "grade_id": "sharing_savings", "locked": false, "schema_version": 3, "solution": true, "task": false}
def blocks_needed(prefix, own, num_requests, block_size):
    """Blocks without sharing, blocks with sharing."""
    ### BEGIN SOLUTION
    total = -(-(prefix + own) // block_size)
    full = prefix // block_size
    return num_requests * total, full + num_requests * (total - full)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "sharing_savings_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("sharing.savings")

# %% [markdown]
# {{exercise sharing.copy-on-write}}
#
# A memory of `num_blocks` blocks that several requests may hold together.
#
# - `allocate(name, count)` gives a new request `count` blocks, the free ones with the smallest numbers, in their order.
# - `fork(parent, child)` makes a new request that holds the same blocks. No new block is taken.
# - `write(name, index)` is called before the request writes into block number `index` of its table. If it is the only holder
#   return `None`. If others hold the block too, the writer gets a copy: the smallest free block takes its place in the
#   writer's table. Return `(source, copy)`.
# - `free(name)` ends a request.
# - `tables` is a dict: name to list of blocks. `ref_count` is a list: for each block the number of tables that hold it.
# - Too few free blocks for `allocate` or for a copy: `OutOfBlocks`, and nothing has changed.
#
# **Example.** 4 blocks; A holds P0, P1 and P2. B is forked from A. B writes into its third block: P2 is shared, so B gets P3,
# and `write` returns `(2, 3)`. The counts are now `[2, 2, 1, 1]`. Then A writes into its third block: nobody else holds P2 any
# more, so `write` returns `None`.

# %% nbgrader={"grade": false, "grade_id": "sharing_copy-on-write", "locked": false, "schema_version": 3, "solution": true, "task": false}
class SharedBlocks:
    """Blocks with reference counts and copy on write."""

    def __init__(self, num_blocks):
        ### BEGIN SOLUTION
        self.ref_count = [0] * num_blocks
        self.tables = {}
        ### END SOLUTION

    def allocate(self, name, count):
        ### BEGIN SOLUTION
        free = [block for block, holders in enumerate(self.ref_count) if holders == 0]
        if count > len(free):
            raise OutOfBlocks(f"{name} needs {count} blocks; {len(free)} are free")
        self.tables[name] = free[:count]
        for block in free[:count]:
            self.ref_count[block] = 1
        ### END SOLUTION

    def fork(self, parent, child):
        ### BEGIN SOLUTION
        self.tables[child] = list(self.tables[parent])
        for block in self.tables[child]:
            self.ref_count[block] += 1
        ### END SOLUTION

    def write(self, name, index):
        ### BEGIN SOLUTION
        block = self.tables[name][index]
        if self.ref_count[block] == 1:
            return None
        if 0 not in self.ref_count:
            raise OutOfBlocks(f"{name} needs a block for its copy; none is free")
        copy = self.ref_count.index(0)
        self.ref_count[copy] = 1
        self.ref_count[block] -= 1
        self.tables[name][index] = copy
        return block, copy
        ### END SOLUTION

    def free(self, name):
        ### BEGIN SOLUTION
        for block in self.tables.pop(name):
            self.ref_count[block] -= 1
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "sharing_copy-on-write_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("sharing.copy-on-write")

# %% [markdown]
# {{exercise sharing.beams}}
#
# A beam search keeps several texts and goes on with the best ones at each step. `tables` has the block table of each beam.
# `parents` says from which beam each new beam goes on: beam 0 may be there twice, another one not at all. Return three
# things: the new tables, each a list of its own; a dict with the count of each block that is held now; and the sorted list of
# blocks that are free now. Blocks are not copied here: that is left to copy on write, when the beams differ.
#
# **Example.** Tables `[[0, 1], [0, 2]]`, parents `[0, 0]`. Both new beams go on from beam 0: `[[0, 1], [0, 1]]`. The counts are
# `{0: 2, 1: 2}`, and block 2 is free: `[2]`.

# %% nbgrader={"grade": false, "grade_id": "sharing_beams", "locked": false, "schema_version": 3, "solution": true, "task": false}
def next_beams(tables, parents):
    """New tables, counts of the held blocks, blocks that got free."""
    ### BEGIN SOLUTION
    new = [list(tables[parent]) for parent in parents]
    counts = {}
    for table in new:
        for block in table:
            counts[block] = counts.get(block, 0) + 1
    held_before = {block for table in tables for block in table}
    return new, counts, sorted(held_before - set(counts))
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "sharing_beams_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("sharing.beams")
