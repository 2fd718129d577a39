"""Right answers of different structure for the lab of chapter 11. Each cell is a whole answer."""

# %% engine.catch-up: a list of tokens that are computed
def steps_of(num_prompt, num_cached, num_output, chunk, preempted_before):
    done = [index < min(num_cached, num_prompt - 1) for index in range(num_prompt)]
    steps = []
    while len(done) < num_prompt + num_output:
        if preempted_before is not None and len(steps) == preempted_before:
            done = [False] * len(done)
        start = done.index(False)
        end = min(start + chunk, len(done))
        done[start:end] = [True] * (end - start)
        steps.append([start, end - start, all(done)])
        if all(done):
            done.append(False)
    return steps


# %% engine.catch-up: a generator of chunks, told of the preemption
def steps_of(num_prompt, num_cached, num_output, chunk, preempted_before):
    def life():
        computed, length = max(0, min(num_cached, num_prompt - 1)), num_prompt
        while True:
            count = min(chunk, length - computed)
            sampled = computed + count == length
            lost = yield computed, count, sampled
            computed, length = 0 if lost else computed + count, length + sampled

    request, steps = life(), []
    step = next(request)
    if preempted_before == 0:
        num_cached, request = 0, life()
        step = next(request)
    while True:
        steps.append(step)
        if sum(sampled for _, _, sampled in steps) == num_output:
            return steps
        step = request.send(len(steps) == preempted_before)


# %% engine.catch-up: recursion
def steps_of(num_prompt, num_cached, num_output, chunk, preempted_before):
    def go(computed, length, number):
        if length == num_prompt + num_output:
            return []
        if number == preempted_before:
            computed = 0
        missing = length - computed
        if missing > chunk:
            return [(computed, chunk, False)] + go(computed + chunk, length, number + 1)
        return [(computed, missing, True)] + go(length, length + 1, number + 1)

    return go(num_cached - (num_cached == num_prompt), num_prompt, 0)


# %% engine.step: flat memory
def run_step(device, host, plan):
    size = len(device[0])
    memory = [value for block in device for value in block]
    saved = [value for block in host for value in block]

    def move(pairs, source, target):
        for a, b in pairs:
            target[b * size:(b + 1) * size] = source[a * size:(a + 1) * size]

    def slot(request, position):
        return request["table"][position // size] * size + position % size

    move(plan["swap_outs"], memory, saved)
    move(plan["swap_ins"], saved, memory)
    move(plan["copies"], memory, memory)
    for request in plan["requests"]:
        for index, token in enumerate(request["tokens"], request["start"]):
            memory[slot(request, index)] = token
    seen = [[memory[slot(request, p)] for p in range(request["start"] + len(request["tokens"]))]
            for request in plan["requests"]]
    return tuple([flat[at:at + size] for at in range(0, len(flat), size)] for flat in (memory, saved)) + (seen,)


# %% engine.step: deep copies, one list of moves
from copy import deepcopy


def run_step(device, host, plan):
    pools = {"device": deepcopy(device), "host": deepcopy(host)}
    for kind, source, target in (("swap_outs", "device", "host"), ("swap_ins", "host", "device"),
                                 ("copies", "device", "device")):
        for a, b in plan[kind]:
            pools[target][b] = deepcopy(pools[source][a])
    blocks, size = pools["device"], len(device[0])
    writes = [(request["table"][(request["start"] + i) // size], (request["start"] + i) % size, token)
              for request in plan["requests"] for i, token in enumerate(request["tokens"])]
    for block, offset, token in writes:
        blocks[block][offset] = token
    seen = []
    for request in plan["requests"]:
        seen.append([])
        for position in range(request["start"] + len(request["tokens"])):
            seen[-1].append(blocks[request["table"][position // size]][position % size])
    return blocks, pools["host"], seen


# %% engine.step: in place of each block, in the old list
def run_step(device, host, plan):
    new_host = {target: device[source] for source, target in plan["swap_outs"]}
    host = [list(new_host.get(block, old)) for block, old in enumerate(host)]
    back = {target: host[source] for source, target in plan["swap_ins"]}
    device = [list(back.get(block, old)) for block, old in enumerate(device)]
    copied = {target: device[source] for source, target in plan["copies"]}
    device = [list(copied.get(block, old)) for block, old in enumerate(device)]
    for request in plan["requests"]:
        position = request["start"]
        for token in request["tokens"]:
            block, offset = divmod(position, len(device[0]))
            device[request["table"][block]][offset] = token
            position += 1
    rows = [sum((device[block] for block in request["table"]), []) for request in plan["requests"]]
    return [device, host, [row[:request["start"] + len(request["tokens"])]
                           for row, request in zip(rows, plan["requests"])]]


# %% engine.sampling: accumulate and bisect
from bisect import bisect_right
from hashlib import blake2b
from itertools import accumulate


def uniform(seed, position):
    digest = blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2 ** 53


def draw_tokens(rows):
    found = []
    for row in rows:
        sums = list(accumulate(row["weights"]))
        found.append(bisect_right(sums, uniform(row["seed"], len(row["output"])) * sums[-1]))
    return found


# %% engine.sampling: probabilities, subtracted one by one
from hashlib import blake2b


def uniform(seed, position):
    digest = blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2 ** 53


def draw_tokens(rows):
    def one(seed, position, weights):
        rest = uniform(seed, position)
        for token, weight in enumerate(weights):
            rest -= weight / sum(weights)
            if rest < 0:
                return token
        return max(token for token, weight in enumerate(weights) if weight)

    return [one(row["seed"], len(row["output"]), row["weights"]) for row in rows]


# %% engine.sampling: tickets in an urn
from hashlib import blake2b


def uniform(seed, position):
    digest = blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2 ** 53


def draw_tokens(rows):
    tokens = []
    for row in rows:
        urn = [token for token, weight in enumerate(row["weights"]) for _ in range(weight)]
        tokens.append(urn[int(uniform(row["seed"], len(row["output"])) * len(urn))])
    return tokens
