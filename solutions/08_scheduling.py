# %% [markdown]
# # Lab 08 · Scheduling
#
# When a seat is free, somebody has to get it. The rule decides how long everybody waits.

# %% tags=["setup"]
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
