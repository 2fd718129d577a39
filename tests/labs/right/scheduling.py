"""Right answers of different structure for the lab of chapter 08. Each cell is a whole answer."""

# %% scheduling.shortest-first: a loop
def pick_next(waiting):
    name, fewest = None, None
    for row in waiting:
        left = row["num_tokens"] - row["num_computed_tokens"]
        if fewest is None or left < fewest:
            name, fewest = row["request_id"], left
    return name


# %% scheduling.shortest-first: a stable sort
def pick_next(waiting):
    by_arrival = sorted(waiting, key=lambda row: row["arrival"])
    return sorted(by_arrival, key=lambda row: row["num_tokens"] - row["num_computed_tokens"])[0]["request_id"]


# %% scheduling.shortest-first: a heap
import heapq


def pick_next(waiting):
    heap = [(row["num_tokens"] - row["num_computed_tokens"], row["arrival"], row["request_id"]) for row in waiting]
    heapq.heapify(heap)
    return heapq.heappop(heap)[-1]
