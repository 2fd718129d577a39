# %% [markdown]
# # Lab 02 · Waste
#
# Where is the memory when it is full and holds nothing? You sort its slots, count what blocks leave empty, and count
# how many readers get in.

# %% tags=["setup"]
from minipaged.lab import check, hint

# %% [markdown]
# {{exercise waste.kinds}}
#
# `holdings` says what the requests hold, a row `(current, final, capacity)` for each: the tokens that are there now, the
# tokens at the end, the slots that it holds. `holes` are the lengths of the stretches that nobody holds, and the next
# request asks for `wanted` slots in one piece. Return a dict with the numbers of slots that are `"used"`, `"reserved"`,
# `"internal"`, `"external"` and `"free"`.
#
# A request may want more in the end than it holds (`final` above `capacity`). Then it fills all that it holds.
#
# **Example.** One request has 6 tokens now, will have 10, and holds 16 slots: 6 are used, 4 reserved, 6 internal. Beside it
# is a hole of 8 slots, and the next request wants 12. The hole is too small: 8 external, 0 free.

# %% nbgrader={"grade": false, "grade_id": "waste_kinds", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kinds_of_waste(holdings, holes, wanted):
    """Slots of each kind, a dict of whole numbers."""
    ### BEGIN SOLUTION
    used = reserved = internal = 0
    for current, final, capacity in holdings:
        end = min(final, capacity)
        used += current
        reserved += end - current
        internal += capacity - end
    external = sum(hole for hole in holes if hole < wanted)
    return {"used": used, "reserved": reserved, "internal": internal, "external": external,
            "free": sum(holes) - external}
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "waste_kinds_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("waste.kinds")

# %% [markdown]
# {{exercise waste.tail}}
#
# `lengths` are the numbers of tokens of some texts. Each text lies in blocks of its own, `block_size` slots each. Return
# how many slots of all these blocks hold no token.
#
# **Example.** Texts of 6, 9 and 4 tokens in blocks of 4. The first needs 2 blocks and leaves 2 slots empty, the second
# needs 3 blocks and leaves 3 empty, the third fills its block. Together 5.

# %% nbgrader={"grade": false, "grade_id": "waste_tail", "locked": false, "schema_version": 3, "solution": true, "task": false}
def empty_slots(lengths, block_size):
    """Empty slots in the last blocks, a whole number."""
    ### BEGIN SOLUTION
    empty = 0
    for length in lengths:
        blocks = (length + block_size - 1) // block_size
        empty += blocks * block_size - length
    return empty
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "waste_tail_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("waste.tail")

# %% [markdown]
# {{exercise waste.seats}}
#
# Readers stand in a line and want texts of `lengths` tokens; the first entry is the first in the line. The memory is empty and
# has `num_slots` slots. Return two numbers: how many get in at once if everybody has `longest` slots reserved, and how many
# if everybody gets just the blocks of `block_size` slots that the text needs. Nobody overtakes: who does not fit waits, and
# all behind wait too.
#
# **Example.** 32 slots, texts of 6, 3, 9 and 2 tokens, `longest` 16, blocks of 4. With reservation 2 get in. There are 8
# blocks; the texts need 2, 1, 3 and 1 of them: all 4 get in, and a block is left.

# %% nbgrader={"grade": false, "grade_id": "waste_seats", "locked": false, "schema_version": 3, "solution": true, "task": false}
def seats(lengths, num_slots, longest, block_size):
    """Readers with reservation, readers with blocks."""
    ### BEGIN SOLUTION
    left, paged = num_slots // block_size, 0
    for length in lengths:
        blocks = -(-length // block_size)
        if blocks > left:
            break
        left -= blocks
        paged += 1
    return min(num_slots // longest, len(lengths)), paged
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "waste_seats_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("waste.seats")
