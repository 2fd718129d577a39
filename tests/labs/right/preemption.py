"""Right answers of different structure for the lab of chapter 09. Each cell is a whole answer."""

# %% preemption.victim: sorted by the rule
def choose_victim(running, rule):
    order = sorted(range(len(running)), key=lambda place: (
        0 if rule == "newest" else running[place]["generated" if rule == "most_generated" else "priority"], place))
    return running[order[-1]]["name"]


# %% preemption.victim: backwards, only a larger number replaces
def choose_victim(running, rule):
    rules = {"newest": lambda row: 0, "most_generated": lambda row: row["generated"],
             "lowest_priority": lambda row: row["priority"]}
    return max(reversed(running), key=rules[rule])["name"]


# %% preemption.victim: the largest number first, then its last holder
def choose_victim(running, rule):
    if rule == "newest":
        *_, last = running
        return last["name"]
    field = {"most_generated": "generated", "lowest_priority": "priority"}[rule]
    most = max(row[field] for row in running)
    return [row["name"] for row in running if row[field] == most][-1]


# %% preemption.make-room: a stack
def make_room(running, asker, need, free):
    stack, victims = [tuple(row) for row in running], []
    while need > free and asker not in victims:
        name, blocks = stack.pop()
        victims.append(name)
        free = free + blocks
    return victims, asker not in victims


# %% preemption.make-room: recursion
def make_room(running, asker, need, free):
    if free >= need:
        return [], True
    *others, (name, blocks) = running
    if name == asker:
        return [name], False
    more, runs = make_room(others, asker, need, free + blocks)
    return [name] + more, runs


# %% preemption.make-room: how many from the back
def make_room(running, asker, need, free):
    names = [name for name, _ in running]
    count = 0
    while free + sum(blocks for _, blocks in running[len(running) - count:]) < need:
        count += 1
        if names[-count] == asker:
            break
    gone = names[len(names) - count:][::-1]
    return gone, asker not in gone


# %% preemption.swap-or-recompute: math.ceil and a dict
import math


def cheaper_way(num_tokens, block_size, block_bytes, link, speed):
    seconds = {"recompute": num_tokens / speed,
               "swap": math.ceil(num_tokens / block_size) * block_bytes / link * 2}
    return min(seconds, key=seconds.get), seconds["swap"], seconds["recompute"]


# %% preemption.swap-or-recompute: out, then in
def cheaper_way(num_tokens, block_size, block_bytes, link, speed):
    blocks = (num_tokens + block_size - 1) // block_size
    out = blocks * block_bytes / link
    back = out
    again = num_tokens / speed
    if out + back < again:
        return "swap", out + back, again
    return "recompute", out + back, again


# %% preemption.swap-or-recompute: blocks counted one by one
def cheaper_way(num_tokens, block_size, block_bytes, link, speed):
    moved = sum(block_bytes for _ in range(0, num_tokens, block_size))
    times = (2 * moved / link, num_tokens / speed)
    return ["swap", "recompute"][times[0] >= times[1]], *times


# %% preemption.resume: copies what stays
def preempt(request):
    after = dict(request)
    after.update(num_computed_tokens=0, blocks=[], status="waiting")
    return after


def next_chunk(request, budget):
    missing = (request["prompt"] + request["output"])[request["num_computed_tokens"]:]
    return missing[:budget], len(missing) <= budget


# %% preemption.resume: token by token
def preempt(request):
    return {"prompt": request["prompt"], "output": request["output"], "num_computed_tokens": 0,
            "blocks": list(), "status": "waiting"}


def next_chunk(request, budget):
    tokens = [*request["prompt"], *request["output"]]
    chunk, position = [], request["num_computed_tokens"]
    while position < len(tokens) and len(chunk) < budget:
        chunk.append(tokens[position])
        position += 1
    return chunk, position == len(tokens)


# %% preemption.resume: a chain
from itertools import chain, islice


def preempt(request):
    lost = {"num_computed_tokens": 0, "blocks": [], "status": "waiting"}
    return {field: lost.get(field, value) for field, value in request.items()}


def next_chunk(request, budget):
    start = request["num_computed_tokens"]
    chunk = list(islice(chain(request["prompt"], request["output"]), start, start + budget))
    return chunk, len(request["prompt"]) + len(request["output"]) - start == len(chunk)
