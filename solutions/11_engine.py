# %% [markdown]
# # Lab 11 · The engine
#
# All parts are there; now they run together. You write the loop that lets a request catch up, a step on real memory, and the dice
# that give the same answer whatever happens around it.

# %% tags=["setup"]
from hashlib import blake2b

from minipaged.lab import check, hint


def uniform(seed, position):
    """A number from 0 to 1, 1 excluded, that depends on nothing but its arguments. The engine has the same one."""
    digest = blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2 ** 53

# %% [markdown]
# {{exercise engine.catch-up}}
#
# An engine knows no prefill phase (预填充) and no decode phase (解码). A request has a length, and a part of it is computed; each step
# it catches up. Write down all steps of one request that runs in every step.
#
# - The prompt has `num_prompt` tokens; the prefix cache knows the first `num_cached` of them, perhaps all.
# - A step computes at most `chunk` tokens. When it has computed the newest token, the next one is sampled, and the request
#   is one token longer.
# - The request ends when `num_output` tokens are sampled.
# - Before step number `preempted_before` (counted from 0) the request loses all its memory, its hits too (抢占). `None`: never.
# - Return a list of `(start, count, sampled)`, one for each step: the first position computed, how many, and whether a token was
#   sampled.
#
# **Example.** A prompt of 6 with a chunk of 4 and 3 tokens to generate: `steps_of(6, 0, 3, 4, None)` is `[(0, 4, False), (4, 2, True),
# (6, 1, True), (7, 1, True)]`. A prompt of 8 that is known whole: `steps_of(8, 8, 2, 4, None)` is `[(7, 1, True), (8, 1, True)]`.

# %% nbgrader={"grade": false, "grade_id": "engine_catch-up", "locked": false, "schema_version": 3, "solution": true, "task": false}
def steps_of(num_prompt, num_cached, num_output, chunk, preempted_before):
    """A list of (start, count, sampled)."""
    ### BEGIN SOLUTION
    steps, end = [], num_prompt
    start = min(num_cached, num_prompt - 1)
    while end < num_prompt + num_output:
        if len(steps) == preempted_before:
            start = 0
        count = min(chunk, end - start)
        sampled = start + count == end
        steps.append((start, count, sampled))
        start += count
        end += sampled
    return steps
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "engine_catch-up_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("engine.catch-up")

# %% [markdown]
# {{exercise engine.step}}
#
# A plan moves blocks and writes tokens, many at once. Run it on memory, with numbers in place of keys and values.
#
# - `device` and `host` are lists of blocks; a block is a list of slots, all of the same size.
# - `plan["swap_outs"]` has pairs `(device block, host block)`, `plan["swap_ins"]` pairs `(host block, device block)` (换出, 换入),
#   `plan["copies"]` pairs `(device block, device block)`: the source first. No two moves have the same target, and no copy reads
#   the target of another copy.
# - `plan["requests"]` is a list of dictionaries: `table`, the block table; `tokens`, the new tokens; `start`, the position of
#   the first of them.
# - Return `(device, host, seen)`: the memory after the step, and for each request the list of what it attends to, from position
#   0 to its newest token. Leave the arguments as they are.
#
# The moves belong to one step, and nobody sorts them for you. What must come first, so that nothing is lost? Requests may share
# blocks, and one may attend to what another writes in this step.
#
# **Example.** Block size 4. P1 goes to host block 0, host block 1 comes back into P1, and P1 is copied to P2. With `device` `[[1, 2, 3, 4],
# [5, 6, 7, 8], [0, 0, 0, 0]]` and `host` `[[0, 0, 0, 0], [21, 22, 23, 24]]`, host block 0 gets `5 6 7 8`, and then P1 and P2 both hold
# `21 22 23 24`. A request with the table `[0, 2]` writes 90 at position 6, and attends to `1 2 3 4 21 22 90`.

# %% nbgrader={"grade": false, "grade_id": "engine_step", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_step(device, host, plan):
    """The memory after the step, and what each request attends to."""
    ### BEGIN SOLUTION
    device, host = [block[:] for block in device], [block[:] for block in host]
    for source, target in plan["swap_outs"]:
        host[target] = device[source][:]
    for source, target in plan["swap_ins"]:
        device[target] = host[source][:]
    for source, target in plan["copies"]:
        device[target] = device[source][:]
    size = len(device[0])
    for request in plan["requests"]:
        for index, token in enumerate(request["tokens"]):
            block, offset = divmod(request["start"] + index, size)
            device[request["table"][block]][offset] = token
    seen = []
    for request in plan["requests"]:
        row = [token for block in request["table"] for token in device[block]]
        seen.append(row[:request["start"] + len(request["tokens"])])
    return device, host, seen
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "engine_step_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("engine.step")

# %% [markdown]
# {{exercise engine.sampling}}
#
# A request with a seed (种子) should say the same thing every time: alone or in a batch, preempted or not. So the engine keeps no
# random generator. It asks `uniform(seed, position)`, where `position` counts the request's output: 0 for its first token.
#
# `draw_tokens(rows)` gets the requests that sample in this step, a list of dictionaries, and returns a token for each, in order. A row
# has `name`, `seed`, `output` (the tokens so far), `step` (the engine's count of steps), `num_tokens` (prompt and output),
# `num_computed_tokens` (before this step; 0 after a preemption) and `weights`: how likely each token is, whole numbers, one for each
# token id. Draw the first token, in order of ids, at which the summed weights exceed the draw times the sum of all weights.
#
# **Example.** A has the seed 7 and no output yet: `uniform(7, 0)` is 0.8658. With the weights `[2, 3, 5]` the target is 0.8658 x 10 =
# 8.66. The sums are 2, 5 and 10, so token 2 is drawn. A week later, on a full server, it is token 2 again.

# %% nbgrader={"grade": false, "grade_id": "engine_sampling", "locked": false, "schema_version": 3, "solution": true, "task": false}
def draw_tokens(rows):
    """A token id for each row."""
    ### BEGIN SOLUTION
    tokens = []
    for row in rows:
        target = uniform(row["seed"], len(row["output"])) * sum(row["weights"])
        token, summed = 0, row["weights"][0]
        while summed <= target:
            token += 1
            summed += row["weights"][token]
        tokens.append(token)
    return tokens
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "engine_sampling_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("engine.sampling")

# %% [markdown]
# The engine does the same. Three requests with seeds, once with plenty of memory and once with so little that they preempt one another:
# not a letter changes.

# %%
from minipaged import LLM, SamplingParams

prompts = ["Once upon a time", "The little dog", "Lily had a red"]
params = [SamplingParams(temperature=0.8, seed=seed, max_tokens=24) for seed in (1, 2, 3)]
for num_blocks in (64, 16):
    llm = LLM(model="tiny", num_blocks=num_blocks, block_size=4, enable_prefix_caching=False)
    texts = [output.outputs[0].text for output in llm.generate(prompts, params)]
    preemptions = len(llm.engine.events.select("preempt"))
    print(f"{num_blocks} blocks, {preemptions} preemption(s):", texts)
