"""Right answers of different structure for the lab of chapter 10. Each cell is a whole answer."""

# %% chunks.sizes: division
def chunk_sizes(prompt, budget, decodes):
    full, rest = divmod(prompt, budget - decodes)
    return [budget - decodes] * full + [rest] * (rest > 0)


# %% chunks.sizes: a range
def chunk_sizes(prompt, budget, decodes):
    room = budget - decodes
    return [min(room, prompt - first) for first in range(0, prompt, room)]


# %% chunks.sizes: recursion
def chunk_sizes(prompt, budget, decodes):
    if prompt <= budget - decodes:
        return [prompt]
    return [budget - decodes, *chunk_sizes(prompt - budget + decodes, budget, decodes)]


# %% chunks.plan: what was given so far
def plan_step(requests, budget, limit):
    plan = {}
    for name, num_tokens, num_computed in requests:
        left = budget - sum(plan.values())
        if left > 0:
            plan[name] = min(left, limit, num_tokens - num_computed)
    return plan


# %% chunks.plan: all wishes, then cut
from itertools import accumulate


def plan_step(requests, budget, limit):
    wishes = [min(limit, total - done) for _, total, done in requests]
    before = [0, *accumulate(wishes)]
    given = [min(wish, budget - taken) for wish, taken in zip(wishes, before)]
    return {row[0]: count for row, count in zip(requests, given) if count > 0}


# %% chunks.plan: token by token
def plan_step(requests, budget, limit):
    plan, queue = {}, [(name, min(limit, total - done)) for name, total, done in requests]
    while budget and queue:
        name, wish = queue[0]
        plan[name] = plan.get(name, 0) + 1
        budget -= 1
        if plan[name] == wish:
            queue.pop(0)
    return plan


# %% chunks.latency: division
def latency(prompt, budget, decodes, fixed, per_token):
    room = prompt if budget is None else budget - decodes
    sizes = [min(room, prompt - first) for first in range(0, prompt, room)]
    steps = [fixed + per_token * (size + decodes) for size in sizes]
    return max(steps), sum(steps)


# %% chunks.latency: a formula
def latency(prompt, budget, decodes, fixed, per_token):
    largest = min(prompt, (budget or prompt + decodes) - decodes)
    num_steps = -(-prompt // largest)
    pause = fixed + per_token * (largest + decodes)
    return pause, num_steps * (fixed + per_token * decodes) + per_token * prompt


# %% chunks.latency: a clock
def latency(prompt, budget, decodes, fixed, per_token):
    clock, last, pause = 0, 0, 0
    while prompt:
        chunk = prompt
        if budget is not None and chunk + decodes > budget:
            chunk = budget - decodes
        prompt = prompt - chunk
        clock = clock + fixed + (chunk + decodes) * per_token
        pause, last = max(pause, clock - last), clock
    return pause, clock
