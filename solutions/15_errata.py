# %% [markdown]
# # Lab 15 · What others got wrong
#
# A number that was printed with the wrong unit, three bugs of real engines to name from what they do, and a test of your own
# that seven of them cannot pass.

# %% tags=["setup"]
from minipaged.lab import check, hint
from minipaged import museum

# %% [markdown]
# {{exercise museum.claimed-unit}}
#
# A text says that the KV cache of ten requests and the weights of a 13B model take 57.3 GB together. It is 26,000,000,000 bytes
# and 33,554,432,000 bytes. Is that right in GB (10^9 bytes), in GiB (2^30 bytes), in both, or in neither?
#
# - `num_bytes` is the true number, `claimed` the number as text, such as `"57.3"` or `"26"`.
# - Return `"GB"`, `"GiB"`, `"both"` or `"neither"`. The claim was rounded to the nearest, to as many digits as it has.
#
# **Example.** `unit_of(59_554_432_000, "57.3")`: 59.6 GB and 55.5 GiB, so `"neither"`: the text added 26 GB to 31.25 GiB.
# `unit_of(33_554_432_000, "31.25")` is `"GiB"`.

# %% nbgrader={"grade": false, "grade_id": "museum_claimed-unit", "locked": false, "schema_version": 3, "solution": true, "task": false}
def unit_of(num_bytes, claimed):
    """In which unit the claimed number is right."""
    ### BEGIN SOLUTION
    digits = len(claimed.partition(".")[2])
    def fits(unit):
        return round(num_bytes / unit, digits) == float(claimed)
    if fits(10 ** 9) and fits(2 ** 30):
        return "both"
    return "GB" if fits(10 ** 9) else "GiB" if fits(2 ** 30) else "neither"
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "museum_claimed-unit_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("museum.claimed-unit")

# %% [markdown]
# {{exercise museum.name-it}}
#
# Three exhibits of the museum, each a run with a bug beside the same run without it. Name the bug of each one.
#
# - Return a dict: the number of the exhibit to the name of its bug.
# - `museum.names("05")` lists the bugs of chapter 05; exhibit 7893 belongs to chapter 05, 9884 to 06, 2169 to 09.
#
# **Example.** An exhibit where a prompt of 10 blocks stands at the head of the line (队列) before a pool of 8, and nobody behind
# it gets in: `never-fits-and-waits`. What is wrong is not that the others wait, but that the first one was ever let in.

# %%
for number in (7893, 9884, 2169):
    print(museum.exhibit(number), "\n")

# %% nbgrader={"grade": false, "grade_id": "museum_name-it", "locked": false, "schema_version": 3, "solution": true, "task": false}
def diagnosis():
    """The number of each exhibit -> the name of its bug."""
    ### BEGIN SOLUTION
    return {7893: "no-copy-on-write", 9884: "key-without-parent", 2169: "victim-to-the-back"}
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "museum_name-it_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("museum.name-it")

# %% [markdown]
# {{exercise museum.write-a-test}}
#
# A test is as good as the bugs that it notices (变异测试, mutation testing). Yours is a list of calls on a pool of 4 free
# blocks; blocks get names when they are taken. It must pass with our allocator and fail with each of these:
#
# 1. Freeing a block twice says nothing. 2. Freeing a block that does not exist says nothing. 3. A release that names a
# block twice counts it twice. 4. A new block starts with count 0. 5. A request's blocks are freed from its first to its
# last. 6. A refused allocation keeps the blocks that it got. 7. A block that was found again stays in the free queue.
#
# | call | what it does |
# |---|---|
# | `["take", "a", "b"]` | take two blocks at once and call them a and b |
# | `["take_fails", 9]` | taking 9 at once must be refused |
# | `["free", "a", "b"]` | one release of these blocks, in the order of a table |
# | `["free_fails", "a"]` | freeing a must be refused; `"nobody"` is a block that does not exist |
# | `["share", "a"]` | one holder more |
# | `["found", "a"]` | a prefix hit: one holder more, also for a free block |
# | `["free_count", 3]`, `["ref_count", "a", 1]` | the count must be this |
# | `["next", "a"]` | take one block: it must be the one that was called a |
#
# **Example.** `[["take", "a"], ["free", "a"], ["free_fails", "a"]]` passes with our allocator and notices two bugs: the
# first, and the fourth, where the block cannot even be freed once.

# %% nbgrader={"grade": false, "grade_id": "museum_write-a-test", "locked": false, "schema_version": 3, "solution": true, "task": false}
def my_test():
    """A list of calls, played from the first to the last."""
    ### BEGIN SOLUTION
    return [
        ["take", "a", "b"],
        ["ref_count", "a", 1],
        ["take_fails", 3],
        ["free_count", 2],
        ["free", "a", "a"],
        ["free_count", 3],
        ["free_fails", "a"],
        ["free_fails", "nobody"],
        ["found", "a"],
        ["free_count", 2],
        ["free", "a", "b"],
        ["next", "b"],
    ]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "museum_write-a-test_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("museum.write-a-test")
