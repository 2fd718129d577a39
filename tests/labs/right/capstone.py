"""Right answers of different structure for the lab of chapter 14. Each cell is a whole answer."""

# %% capstone.cheap-victim: a loop
def choose_victim(running):
    cheapest = running[0]
    for row in running[1:]:
        if row["num_computed_tokens"] <= cheapest["num_computed_tokens"]:
            cheapest = row
    return cheapest["request_id"]


# %% capstone.cheap-victim: the shortest prompt
def choose_victim(running):
    prompts = {row["request_id"]: row["num_tokens"] - row["num_output_tokens"] for row in running}
    return min(prompts, key=prompts.get)


# %% capstone.cheap-victim: sorted, with a little patience for those who were preempted
def choose_victim(running):
    order = sorted(running, key=lambda row: row["num_computed_tokens"] + 200 * row["num_preemptions"])
    return order[0]["request_id"]


# %% capstone.fair-queue: six at a time, the shortest of them first
def pick_next(waiting):
    return min(waiting, key=lambda row: (row["arrival"] // 6, row["num_tokens"]))["request_id"]


# %% capstone.fair-queue: who was overtaken six times goes first
def pick_next(waiting):
    newest = max(row["arrival"] for row in waiting)
    for row in waiting:
        if newest - row["arrival"] >= 6:
            return row["request_id"]
    shortest = waiting[0]
    for row in waiting:
        if row["num_tokens"] < shortest["num_tokens"]:
            shortest = row
    return shortest["request_id"]


# %% capstone.fair-queue: sorted by work and a penalty for coming late
def pick_next(waiting):
    order = sorted((row["num_tokens"] / 1500 + row["arrival"], row["request_id"]) for row in waiting)
    return order[0][1]
