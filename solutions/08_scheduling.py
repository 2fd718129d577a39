# %% [markdown]
# # Lab 08 · Scheduling
#
# When a seat is free, somebody has to get it. The rule decides how long everybody waits. Three questions: who is next, for how
# long, and who can be served at all?

# %% tags=["setup"]
from minipaged.errors import RequestError
from minipaged.lab import check, hint, use

# %% [markdown]
# {{exercise scheduling.shortest-first}}
#
# `pick_next` gets the waiting requests as a list of dictionaries in the order of their arrival, with `request_id`, `arrival`,
# `priority`, `num_tokens` (so far: the prompt, and what was generated before a preemption), `num_computed_tokens`,
# `num_output_tokens`, `max_num_tokens` and `num_preemptions`. It gives the `request_id` of the one that goes next.
#
# **Example.** A waits with 9 tokens, B with 2, C with 5; nothing is computed yet. `pick_next` gives `"B"`. When B has
# its seat, it is asked again and gives `"C"`.

# %% nbgrader={"grade": false, "grade_id": "scheduling_shortest-first", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pick_next(waiting):
    """The id of the waiting request with the fewest tokens left to compute; of equals, the earliest."""
    ### BEGIN SOLUTION
    shortest = min(waiting, key=lambda row: (row["num_tokens"] - row["num_computed_tokens"], row["arrival"]))
    return shortest["request_id"]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "scheduling_shortest-first_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("scheduling.shortest-first")

# %% [markdown]
# What does your rule do to a server? Replay the first 200 requests of a trace on a simulated GPU with few seats, once first
# come, first served, and once with your rule. TTFT is the time to the first token. Look at both columns: who wins, and
# who pays for it?

# %%
from minipaged.sim import metrics

server = dict(trace="azure-conv", first=200, rate=20, max_num_seqs=16)
def report(name, run):
    ttft = metrics.summary(run.simulate(**server))["ttft"]
    print(f"{name:<15} TTFT: median {ttft['p50']:.3f} s, longest {ttft['max']:.3f} s")

report("first come", use())
with use(pick_next=pick_next) as mine:
    report("shortest first", mine)

# %% [markdown]
# {{exercise scheduling.round-robin}}
#
# Requests take turns (round-robin, 轮转调度): each may sit for `quantum` steps, then the next one in line has its seat. Memory plays no
# part here: who gets up keeps its blocks.
#
# - `RoundRobin(seats, quantum)`; `add(name)` puts a request at the end of the line; `finish(name)` takes a running one away.
# - `step()` runs one step and returns the names that run in it, the oldest seat first. Before it runs:
#   1. Requests that have run for `quantum` steps in their seat get up, the oldest seat first, but only as many as wait without a free
#      seat. They go to the end of the line.
#   2. Free seats are filled from the front of the line. Whoever sits down has a new turn.
#
# **Example.** 2 seats, a quantum of 2, and A, B and C are added. Steps 1 and 2 run A and B. Then one waits and no seat is
# free, so one gets up: A. Step 3 runs B and C. B has run 3 steps by now and A waits, so step 4 runs C and A.

# %% nbgrader={"grade": false, "grade_id": "scheduling_round-robin", "locked": false, "schema_version": 3, "solution": true, "task": false}
class RoundRobin:
    """Seats for `quantum` steps at a time."""

    def __init__(self, seats, quantum):
        ### BEGIN SOLUTION
        self.seats, self.quantum = seats, quantum
        self.line = []
        self.turns = {}  # name -> steps in its seat, the oldest seat first
        ### END SOLUTION

    def add(self, name):
        ### BEGIN SOLUTION
        self.line.append(name)
        ### END SOLUTION

    def finish(self, name):
        ### BEGIN SOLUTION
        del self.turns[name]
        ### END SOLUTION

    def step(self):
        ### BEGIN SOLUTION
        without_seat = len(self.line) - (self.seats - len(self.turns))
        expired = [name for name, steps in self.turns.items() if steps >= self.quantum]
        for name in expired[:max(0, without_seat)]:
            del self.turns[name]
            self.line.append(name)
        while self.line and len(self.turns) < self.seats:
            self.turns[self.line.pop(0)] = 0
        for name in self.turns:
            self.turns[name] += 1
        return list(self.turns)
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "scheduling_round-robin_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("scheduling.round-robin")

# %% [markdown]
# {{exercise scheduling.admission}}
#
# A request asks to come in (admission control, 准入控制). There are three answers: now, later, never.
#
# - `ref_count[b]` says how many requests hold block `b`; a block with 0 is free.
# - `hits` are the blocks that the prefix cache has found for the start of the prompt. Others may hold them, or nobody. They are
#   full, and they do not cover the whole prompt.
# - The prompt has `num_tokens` tokens, the hits included. It needs whole blocks of `block_size`.
# - **Never**: it needs more blocks than the pool has. Raise `RequestError`; the text names the blocks that are needed and
#   the blocks that there are.
# - **Later**: too few blocks are free now. Return `None`.
# - **Now**: return `(table, counts)`: the hits and then the new blocks, the lowest free ones first, and the new reference counts (引用计数)
#   of all blocks.
#
# Never change `ref_count` itself: a count that was raised for a request that did not come in is never lowered.
#
# **Example.** Block size 4, counts `[1, 1, 0, 0, 2]`, hits `[0, 2]`. A prompt of 11 tokens needs 3 blocks, the third is P3:
# `([0, 2, 3], [2, 1, 1, 1, 2])`. A prompt of 15 tokens needs 4 blocks and must wait: P2 is free, but it is a hit. 40 tokens
# in a pool of 8 blocks are an error, with the numbers 10 and 8.

# %% nbgrader={"grade": false, "grade_id": "scheduling_admission", "locked": false, "schema_version": 3, "solution": true, "task": false}
def admit(ref_count, hits, num_tokens, block_size):
    """The table and the new counts; None for later; RequestError for never."""
    ### BEGIN SOLUTION
    needed = -(-num_tokens // block_size)
    if needed > len(ref_count):
        raise RequestError(f"the prompt needs {needed} blocks; the pool has {len(ref_count)}")
    free = [block for block, count in enumerate(ref_count) if count == 0 and block not in hits]
    missing = needed - len(hits)
    if missing > len(free):
        return None
    table, counts = hits + free[:missing], list(ref_count)
    for block in table:
        counts[block] += 1
    return table, counts
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "scheduling_admission_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("scheduling.admission")
