# %% [markdown]
# # Lab 09 · Preemption
#
# The memory is full and a running request needs one more block. Somebody has to give way, and must come back later as if
# nothing had happened.

# %% tags=["setup"]
from minipaged.lab import check, hint

# %% [markdown]
# {{exercise preemption.victim}}
#
# `running` is a list of dictionaries in the order in which the requests got their seats, with `name`, `generated` (tokens so
# far) and `priority` (0 is the most important). `rule` is `"newest"`, `"most_generated"` or `"lowest_priority"`. Return the name
# of the request that gives up its blocks.
#
# **Example.** A has generated 9 tokens and has priority 0, B 4 and 2, C 1 and 1; they sat down in this order. newest: C.
# most_generated: A. lowest_priority: B.

# %% nbgrader={"grade": false, "grade_id": "preemption_victim", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose_victim(running, rule):
    """The name of the request that has to go."""
    ### BEGIN SOLUTION
    if rule == "newest":
        return running[-1]["name"]
    field = "generated" if rule == "most_generated" else "priority"
    victim = running[0]
    for row in running:
        if row[field] >= victim[field]:
            victim = row
    return victim["name"]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "preemption_victim_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("preemption.victim")

# %% [markdown]
# {{exercise preemption.make-room}}
#
# `running` is a list of `[name, blocks]`, oldest seat first: who runs, and how many blocks each holds (nobody else holds
# them). The request `asker`, one of them, needs `need` free blocks, and `free` are free. Return two things: the list of names
# that are preempted, in their order, and whether the asker can run in this step.
#
# **Example.** A holds 3 blocks, B 2 and C 1; nothing is free. A asks for 2 blocks. C goes first: 1 block is free. B goes
# too: 3 are free. `(["C", "B"], True)`. If C asks for one block instead, C is the newest and goes itself: `(["C"], False)`.

# %% nbgrader={"grade": false, "grade_id": "preemption_make-room", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_room(running, asker, need, free):
    """Names of the victims in order, and whether the asker runs."""
    ### BEGIN SOLUTION
    victims = []
    for name, blocks in reversed(running):
        if free >= need:
            break
        victims.append(name)
        free += blocks
        if name == asker:
            break
    return victims, asker not in victims
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "preemption_make-room_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("preemption.make-room")

# %% [markdown]
# {{exercise preemption.swap-or-recompute}}
#
# A request with `num_tokens` computed tokens must give up its memory. Its blocks hold `block_size` tokens and `block_bytes`
# bytes each. The link to the host moves `link` bytes a second; the model computes `speed` tokens of a prompt a second. Return
# `"swap"` or `"recompute"`, whichever takes less time in all, then the seconds of swapping and the seconds of recomputing.
#
# **Example.** 10 tokens in blocks of 4 are 3 blocks. With 500 bytes each over a link of 1,000 bytes a second, out and in takes 3
# seconds. At 5 tokens a second recomputing takes 2. So `("recompute", 3.0, 2.0)`.

# %% nbgrader={"grade": false, "grade_id": "preemption_swap-or-recompute", "locked": false, "schema_version": 3, "solution": true, "task": false}
def cheaper_way(num_tokens, block_size, block_bytes, link, speed):
    """The cheaper way, seconds of swapping, seconds of recomputing."""
    ### BEGIN SOLUTION
    blocks = -(-num_tokens // block_size)
    swap = 2 * blocks * block_bytes / link
    recompute = num_tokens / speed
    return ("swap" if swap < recompute else "recompute"), swap, recompute
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "preemption_swap-or-recompute_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("preemption.swap-or-recompute")

# %% [markdown]
# {{exercise preemption.resume}}
#
# A request is a dictionary: `prompt` and `output` are lists of token ids, `num_computed_tokens` says how many of both
# together have K and V in memory, `blocks` lists its blocks, and `status` is `"running"` or `"waiting"`. Write two functions.
#
# - `preempt(request)` returns a new dictionary for the request after its memory was taken, with `status` `"waiting"`. Leave
#   the old one as it is.
# - `next_chunk(request, budget)` returns the token ids that the next step computes for this request, at most `budget`, and
#   whether a new token is sampled at the end of that step.
#
# **Example.** 5 prompt tokens, 2 generated. After a preemption all 7 must be computed again. With a budget of 4 the first
# chunk has 4 tokens and samples nothing. The second has 3 tokens and samples the token that comes next.

# %% nbgrader={"grade": false, "grade_id": "preemption_resume", "locked": false, "schema_version": 3, "solution": true, "task": false}
def preempt(request):
    """The request without its memory."""
    ### BEGIN SOLUTION
    return {**request, "num_computed_tokens": 0, "blocks": [], "status": "waiting"}
    ### END SOLUTION


def next_chunk(request, budget):
    """Token ids to compute now, and whether a new token comes of it."""
    ### BEGIN SOLUTION
    tokens = request["prompt"] + request["output"]
    start = request["num_computed_tokens"]
    chunk = tokens[start:start + budget]
    return chunk, start + len(chunk) == len(tokens)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "preemption_resume_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("preemption.resume")
