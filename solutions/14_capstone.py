# %% [markdown]
# # Lab 14 · Design a policy
#
# A policy has no right answer, only better and worse ones. Yours runs in our scheduler, on a simulated A100 that serves an
# 8B model, and is judged by numbers: two limits, and no simple rule keeps both. Your functions get rows, one a request:
# `request_id`, `num_tokens` (prompt and output so far), `num_computed_tokens`, `num_output_tokens`, `max_num_tokens` (the
# longest it can become), `arrival` (0, 1, 2, ... in the order of arrival), `num_preemptions`, `priority`.

# %% tags=["setup"]
from minipaged.lab import check, hint, use

# %% [markdown]
# {{exercise capstone.cheap-victim}}
#
# When no block is free one of the running requests is preempted (抢占): it loses its blocks and is computed again later.
# `choose_victim(running)` gets the rows of the running ones, the oldest seat first, and returns the `request_id` of the one
# that goes.
#
# We count the tokens that are computed again, over three small traces: at most 600, 500 and 370. The usual rule, the newest
# goes, loses 480, 612 and 653.
#
# **Example.** A has 9 tokens computed, B 6, C 3 of a prompt of 11. Preempting A costs 9 tokens of work, C only 3, though C
# has more still to do.

# %% nbgrader={"grade": false, "grade_id": "capstone_cheap-victim", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose_victim(running):
    """The id of the request that gives way."""
    ### BEGIN SOLUTION
    return min(running, key=lambda row: row["num_computed_tokens"])["request_id"]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "capstone_cheap-victim_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("capstone.cheap-victim")

# %% [markdown]
# {{exercise capstone.fair-queue}}
#
# One seat, and prompts of 200 to 12,000 tokens. `pick_next(waiting)` gets the rows of those who wait, in the order of arrival,
# and returns the `request_id` of the next one. It is asked often and must depend on the rows alone.
#
# Two traces, and for each the mean and the worst time to first token:
#
# | | trace 1: mean | worst | trace 2: mean | worst |
# |---|---:|---:|---:|---:|
# | first come, first served | 0.956 s | 1.241 s | 0.860 s | 1.117 s |
# | shortest first | 0.614 s | 1.935 s | 0.428 s | 2.243 s |
# | **limit** | **0.88 s** | **1.6 s** | **0.80 s** | **1.5 s** |
#
# **Example.** A long prompt of 8,000 tokens came as number 1; number 9 has 300 tokens. Shortest first takes number 9, and
# number 10 after it, and so on. How many of them would you let pass?

# %% nbgrader={"grade": false, "grade_id": "capstone_fair-queue", "locked": false, "schema_version": 3, "solution": true, "task": false}
def pick_next(waiting):
    """The id of the request that is served next."""
    ### BEGIN SOLUTION
    def rank(row):
        return row["num_tokens"] - row["num_computed_tokens"] + 2000 * row["arrival"]
    return min(waiting, key=rank)["request_id"]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "capstone_fair-queue_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("capstone.fair-queue")

# %% [markdown]
# Does it hold on traffic that it was not made for? The first 60 requests of a real trace on few seats, with *your* queue.

# %%
from minipaged.sim import metrics

server = {"trace": "azure-conv", "first": 60, "rate": 20.0, "max_num_seqs": 4}
with use(pick_next=pick_next) as mine:
    waits = metrics.ttft(mine.simulate(**server))
    print(f"your queue:  mean {waits.mean():.2f} s, worst {waits.max():.2f} s to the first token")
waits = metrics.ttft(use().simulate(**server))
print(f"first come:  mean {waits.mean():.2f} s, worst {waits.max():.2f} s")
