"""Lab of chapter 11: what a step does first, and what next."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

STEP = '''\
def run_step(device, host, plan):
    device, host = [list(block) for block in device], [list(block) for block in host]
    size, seen = len(device[0]), []

    def swap_out():
        for source, target in plan["swap_outs"]:
            host[target] = list(device[source])

    def swap_in():
        for source, target in plan["swap_ins"]:
            device[target] = list(host[source])

    def copy():
        for source, target in plan["copies"]:
            device[target] = list(device[source])

    def write(request):
        for position, token in enumerate(request["tokens"], request["start"]):
            device[request["table"][position // size]][position % size] = token

    def attend(request):
        end = request["start"] + len(request["tokens"])
        seen.append([device[request["table"][position // size]][position % size] for position in range(end)])

    swap_out(); swap_in(); copy()
    for request in plan["requests"]:
        write(request)
    for request in plan["requests"]:
        attend(request)
    return device, host, seen
'''
MOVES = "swap_out(); swap_in(); copy()"
LOOPS = '''\
    for request in plan["requests"]:
        write(request)
    for request in plan["requests"]:
        attend(request)
'''


def _case(rng: random.Random) -> dict:
    num_device, num_host, size = rng.randint(2, 4), rng.randint(1, 3), rng.randint(1, 2)
    host = rng.sample(range(num_host), num_host)
    outs = rng.sample(range(num_device), min(rng.randint(0, 2), num_host))
    targets = rng.sample(range(num_device), num_device)
    ins = [[block, targets.pop()] for block in host[len(outs):][:rng.randint(0, 1)]]
    if ins and outs and rng.random() > 0.4:
        ins = [[ins[0][0], outs[0]]]  # the block that was just saved is filled again
        targets = [block for block in targets if block != outs[0]]
    copies = []
    if targets and rng.random() > 0.4:
        target = targets[0]
        copies = [[rng.choice([block for block in range(num_device) if block != target]), target]]
    requests = []
    for _ in range(rng.randint(1, 2)):
        table = rng.sample(range(num_device), rng.randint(1, 2))
        start = rng.randint(0, len(table) * size - 1)
        count = rng.randint(1, len(table) * size - start)
        requests.append({"table": table, "start": start, "tokens": [rng.randint(70, 99) for _ in range(count)]})
    return {"device": [[10 * block + offset for offset in range(size)] for block in range(num_device)],
            "host": [[40 + 10 * block + offset for offset in range(size)] for block in range(num_host)],
            "plan": {"swap_outs": [[block, target] for block, target in zip(outs, host)], "swap_ins": ins,
                     "copies": copies, "requests": requests}}


def _drive(trace: Trace, case: dict) -> None:
    plan = case["plan"]
    words = [*(f"P{source} goes to host block {target}" for source, target in plan["swap_outs"]),
             *(f"host block {source} comes into P{target}" for source, target in plan["swap_ins"]),
             *(f"P{source} is copied to P{target}" for source, target in plan["copies"]),
             *(f"table {row['table']} writes {row['tokens']} at position {row['start']}" for row in plan["requests"])]
    trace.call("run_step", case["device"], case["host"], plan,
               text=f"run_step({case['device']}, {case['host']}, plan: {', '.join(words)})")


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(STEP, *pairs))


def _plan(swap_outs: list, swap_ins: list, copies: list, *requests: tuple) -> dict:
    rows = [{"table": table, "start": start, "tokens": tokens} for table, start, tokens in requests]
    return {"swap_outs": swap_outs, "swap_ins": swap_ins, "copies": copies, "requests": rows}


STEP_EXERCISE = Exercise(
    id="engine.step",
    title="First things first",
    chapter="11_engine",
    minutes=25,
    level="hard",
    goal="Run the plan of a step on real memory, in the only order in which nothing is lost.",
    interface=("run_step(device, host, plan)",),
    hints=("A block is saved to the host, and another request's block comes back into the same place, all in one step. "
           "What is lost when the second happens first?",
           "Save (swap out), bring back (swap in), copy, then write the new tokens of all requests, and only then read "
           "what each of them attends to. Every move makes a new list: two blocks must never be the same object.",
           "host[target] = list(device[source]) for the swap-outs; device[target] = list(host[source]) for the "
           "swap-ins; device[target] = list(device[source]) for the copies; device[table[p // size]][p % size] = token "
           "for every new token of every request; then seen = [device[table[p // size]][p % size] for p in range(start "
           "+ len(tokens))] for each."),
    rule="Swap out, swap in, copy; then write the new tokens of all requests; then all attend, each to its positions "
         "from 0 to its newest token. A move copies the contents and leaves its source as it is.",
    examples=({"device": [[1, 2, 3, 4], [5, 6, 7, 8], [0, 0, 0, 0]], "host": [[0, 0, 0, 0], [21, 22, 23, 24]],
               "plan": _plan([[1, 0]], [[1, 1]], [[1, 2]], ([0, 2], 6, [90]), ([0, 1], 7, [91]))},
              {"device": [[1, 2], [3, 4]], "host": [[0, 0]],
               "plan": _plan([], [], [], ([0, 1], 2, [90]), ([1], 0, [80]))},
              {"device": [[1, 2], [3, 4]], "host": [[0, 0]], "plan": _plan([[0, 0]], [], [[0, 1]], ([0], 1, [90]))}),
    case=_case,
    drive=_drive,
    reference=lambda: from_source(STEP),
    misconceptions=(
        _wrong("swaps-in-first", "you bring blocks back before you have saved those that go: what comes in overwrites "
               "what was to be saved.", MOVES, "swap_in(); swap_out(); copy()"),
        _wrong("copies-first", "you copy before the swaps. A copy may read a block that the host has yet to bring "
               "back, or overwrite one that is to be saved.", MOVES, "copy(); swap_out(); swap_in()"),
        _wrong("copies-in-between", "you copy before blocks come back from the host: the source of a copy may be one "
               "of them.",
               MOVES, "swap_out(); copy(); swap_in()"),
        _wrong("copies-late", "you copy after the new tokens are written: the copy has a token of somebody else, or "
               "overwrites the new one.", MOVES, "swap_out(); swap_in()", LOOPS,
               LOOPS.replace("        write(request)\n", "        write(request)\n    copy()\n")),
        _wrong("saves-late", "you save blocks to the host at the end, when others have written into them.", MOVES,
               "swap_in(); copy()", "    return device, host, seen", "    swap_out()\n    return device, host, seen"),
        _wrong("attends-first", "you read before the new tokens are written: a token sees itself, too.", LOOPS,
               "    for request in plan[\"requests\"]:\n        attend(request)\n"
               "    for request in plan[\"requests\"]:\n        write(request)\n"),
        _wrong("one-by-one", "you finish one request before the next one writes. The first may share a block that the "
               "second fills in this very step: all write, then all attend.", LOOPS,
               "    for request in plan[\"requests\"]:\n        write(request)\n        attend(request)\n"),
        _wrong("same-list", "a move must copy the contents. After `device[a] = device[b]` both names mean the same "
               "list, and a write into one shows in the other.", "device[target] = list(device[source])",
               "device[target] = device[source]"),
        _wrong("empties-the-source", "a copied block stays as it is for its other readers; you empty it.",
               "device[target] = list(device[source])",
               "device[target] = list(device[source]); device[source] = [0] * size"),
        _wrong("whole-blocks", "you read to the end of the last block. Behind the newest token lie the remains of "
               "somebody else.",
               "in range(end)]", "in range(-(-end // size) * size)]"),
    ),
)
