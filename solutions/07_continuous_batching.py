# %% [markdown]
# # Lab 07 · Continuous batching
#
# A model makes one token for each request in a step. Who sits in the batch decides how much of each step is wasted.

# %% tags=["setup"]
from minipaged.errors import RequestError
from minipaged.lab import check, hint

# %% [markdown]
# {{exercise batching.static}}
#
# `lengths` are the numbers of tokens that the requests of a line will generate, the first entry first. A static batch takes
# the next `seats` of them, and nobody else gets in before all of them are done. Return three whole numbers: how many
# steps it takes until all are served; how often a seat makes a token, over all these steps; how often a seat is idle.
#
# **Example.** A, B, C and D want 100, 50, 200 and 30 tokens, and there are 4 seats. The batch takes 200 steps. 380 times a
# seat makes a token, and 420 times a seat is idle: (200, 380, 420). So the seats are used to 47.5%.

# %% nbgrader={"grade": false, "grade_id": "batching_static", "locked": false, "schema_version": 3, "solution": true, "task": false}
def static_batches(lengths, seats):
    """(steps, used seats, idle seats)"""
    ### BEGIN SOLUTION
    steps = 0
    for first in range(0, len(lengths), seats):
        steps += max(lengths[first:first + seats])
    used = sum(lengths)
    return steps, used, steps * seats - used
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "batching_static_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("batching.static")

# %% [markdown]
# {{exercise batching.finish}}
#
# The same line, but now a seat is given to the next in the line as soon as it is free. Return a list: the step in which each
# request makes its last token, in the order of the line. Steps count from 1. (The prompt is read in the step of the first
# token.)
#
# **Example.** A to G want 100, 50, 200, 30, 120, 80 and 60 tokens; there are 4 seats. D is done in step 30, so E joins in step
# 31 and is done in step 150. B is done in step 50 and F joins in 51. A is done in step 100 and G joins in 101:
# `[100, 50, 200, 30, 150, 130, 160]`.

# %% nbgrader={"grade": false, "grade_id": "batching_finish", "locked": false, "schema_version": 3, "solution": true, "task": false}
def finish_steps(lengths, seats):
    """The last step of each request, a list in the order of the line."""
    ### BEGIN SOLUTION
    free_after = [0] * seats
    finished = []
    for length in lengths:
        seat = free_after.index(min(free_after))
        free_after[seat] += length
        finished.append(free_after[seat])
    return finished
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "batching_finish_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("batching.finish")

# %% [markdown]
# {{exercise batching.loop}}
#
# Now the server does not know the future: requests come while others run. Write the class that keeps the batch.
#
# - `add_request(name, num_tokens)` puts a request at the end of the line. A `name` that waits or runs already, or
#   `num_tokens` below 1, raises `RequestError`.
# - `step()` gives the free seats to those who wait, then makes one token for each running request. Return the names of those
#   who made their last token in this step, in the order in which they sat down. They leave at once.
# - `abort(name)` removes a request that waits or runs and returns `True`; for any other name it returns `False`.
# - `running` and `waiting` are lists of names: in the order in which they sat down, and in the order of the line.
#
# **Example.** Two seats. A wants 2 tokens, B 1, C 1. The first step seats A and B and returns `["B"]`. The second seats C and
# returns `["A", "C"]`.

# %% nbgrader={"grade": false, "grade_id": "batching_loop", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ContinuousBatch:
    """Requests that join and leave at every step; max_num_seqs is the number of seats."""

    def __init__(self, max_num_seqs):
        ### BEGIN SOLUTION
        self.max_num_seqs = max_num_seqs
        self.waiting, self.running = [], []
        self.left = {}
        ### END SOLUTION

    def add_request(self, name, num_tokens):
        ### BEGIN SOLUTION
        if name in self.left:
            raise RequestError(f"request {name} waits or runs already")
        if num_tokens < 1:
            raise RequestError(f"request {name} wants {num_tokens} tokens; it needs at least 1")
        self.left[name] = num_tokens
        self.waiting.append(name)
        ### END SOLUTION

    def abort(self, name):
        ### BEGIN SOLUTION
        if name not in self.left:
            return False
        del self.left[name]
        queue = self.running if name in self.running else self.waiting
        queue.remove(name)
        return True
        ### END SOLUTION

    def step(self):
        ### BEGIN SOLUTION
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.pop(0))
        for name in self.running:
            self.left[name] -= 1
        finished = [name for name in self.running if self.left[name] == 0]
        self.running = [name for name in self.running if self.left[name] > 0]
        for name in finished:
            del self.left[name]
        return finished
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "batching_loop_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("batching.loop")
