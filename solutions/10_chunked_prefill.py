# %% [markdown]
# # Lab 10 · Chunked prefill
#
# A long prompt comes while others read their answers word by word. If it is computed at once they all see a pause. You cut it
# into chunks, and measure who waits for whom.

# %% tags=["setup"]
from minipaged.lab import check, hint

# %% [markdown]
# {{exercise chunks.sizes}}
#
# A step computes at most `budget` tokens. `decodes` running requests make one token each in every step (fewer than
# `budget`). A new prompt has `prompt` tokens. Return the list of its chunks: how many of its tokens are computed in each step.
#
# **Example.** 12 tokens, a budget of 8, 3 requests run. Each step has 5 tokens left for the prompt: `[5, 5, 2]`.

# %% nbgrader={"grade": false, "grade_id": "chunks_sizes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def chunk_sizes(prompt, budget, decodes):
    """Sizes of the chunks, a list."""
    ### BEGIN SOLUTION
    sizes = []
    while prompt > 0:
        size = min(prompt, budget - decodes)
        sizes.append(size)
        prompt -= size
    return sizes
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "chunks_sizes_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("chunks.sizes")

# %% [markdown]
# {{exercise chunks.plan}}
#
# `requests` is a list of `[name, num_tokens, num_computed]`, most important first. A request that makes its next token misses
# one; a request that reads its prompt misses many. Both are the same thing: catching up. A step computes at most `budget`
# tokens, and at most `limit` of one request. Return a dict with the number of tokens for each request that gets any.
#
# **Example.** A has 7 tokens of which 6 are computed, B has 10 and 9, C is new with 12. With a budget of 8 and a limit of 8
# the plan is `{"A": 1, "B": 1, "C": 6}`.

# %% nbgrader={"grade": false, "grade_id": "chunks_plan", "locked": false, "schema_version": 3, "solution": true, "task": false}
def plan_step(requests, budget, limit):
    """Tokens that each request computes in this step."""
    ### BEGIN SOLUTION
    plan = {}
    for name, num_tokens, num_computed in requests:
        count = min(num_tokens - num_computed, limit, budget)
        if count == 0:
            break
        plan[name] = count
        budget -= count
    return plan
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "chunks_plan_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("chunks.plan")

# %% [markdown]
# {{exercise chunks.latency}}
#
# A step takes `fixed` milliseconds, and `per_token` more for each of its tokens. `decodes` requests run and get a token at the
# end of every step. A prompt of `prompt` tokens comes. With `budget` it is cut as above; with `budget` `None` it is computed in
# one step, beside the running requests. Return two times: the longest pause of the running requests while the prompt is
# computed, and the time until the new request has its first token.
#
# **Example.** 12 tokens, 3 requests run, a step takes 4 ms and 1 ms a token. At once: one step of 4 + 15 = 19 ms, `(19, 19)`. With
# a budget of 8: steps of 12, 12 and 9 ms, `(12, 33)`. The others wait less, and the new one waits longer.

# %% nbgrader={"grade": false, "grade_id": "chunks_latency", "locked": false, "schema_version": 3, "solution": true, "task": false}
def latency(prompt, budget, decodes, fixed, per_token):
    """Longest pause of the others, time to the first token."""
    ### BEGIN SOLUTION
    steps = []
    while prompt > 0:
        size = prompt if budget is None else min(prompt, budget - decodes)
        steps.append(fixed + per_token * (size + decodes))
        prompt -= size
    return max(steps), sum(steps)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "chunks_latency_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("chunks.latency")
