"""Lab of chapter 09: who gives up its blocks, what that costs, and how the request comes back."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

# ---- preemption.victim

VICTIM = '''\
def choose_victim(running, rule):
    rows = list(enumerate(running))
    if rule == "newest":
        best = rows[-1]
    elif rule == "most_generated":
        best = max(rows, key=lambda row: (row[1]["generated"], row[0]))
    else:
        best = max(rows, key=lambda row: (row[1]["priority"], row[0]))
    return best[1]["name"]
'''


def _victim_case(rng: random.Random) -> dict:
    names = list("ABCD")[:rng.randint(1, 4)]
    rng.shuffle(names)
    return {"running": [{"name": name, "generated": rng.randint(0, 3), "priority": rng.randint(0, 2)}
                        for name in names],
            "rule": rng.choice(["newest", "most_generated", "lowest_priority"])}


def _drive_victim(trace: Trace, case: dict) -> None:
    trace.call("choose_victim", case["running"], case["rule"])


def _wrong_victim(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(VICTIM, *pairs))


def _row(name: str, generated: int, priority: int) -> dict:
    return {"name": name, "generated": generated, "priority": priority}


VICTIM_EXERCISE = Exercise(
    id="preemption.victim",
    title="Who has to go?",
    chapter="09_preemption",
    minutes=10,
    level="easy",
    goal="Choose the running request that gives up its blocks, by three rules.",
    interface=("choose_victim(running, rule)",),
    hints=("Who has waited the shortest time for its seat? Where does it stand in the list?",
           "newest: the last of the list. The other two: the largest number wins, and of equals the one that stands "
           "further back. Mind what a large priority number means.",
           "Number the rows with enumerate and take max(..., key=lambda row: (row[1][\"generated\"], row[0])), or with "
           "\"priority\"; return the name."),
    rule="newest: the request that got its seat last. most_generated: the one with the most generated tokens. "
         "lowest_priority: the one with the largest number, since 0 is the most important. Of equals the newer one "
         "goes.",
    examples=({"running": [_row("A", 9, 0), _row("B", 4, 2), _row("C", 1, 1)], "rule": "newest"},
              {"running": [_row("A", 9, 0), _row("B", 4, 2), _row("C", 1, 1)], "rule": "most_generated"},
              {"running": [_row("A", 9, 0), _row("B", 4, 2), _row("C", 1, 1)], "rule": "lowest_priority"},
              {"running": [_row("A", 3, 1), _row("B", 3, 1), _row("C", 2, 0)], "rule": "most_generated"}),
    case=_victim_case,
    drive=_drive_victim,
    reference=lambda: from_source(VICTIM),
    misconceptions=(
        _wrong_victim("oldest", "you take the request that has been there longest. The newest has computed least, and "
                                "would have waited anyway.", "rows[-1]", "rows[0]"),
        _wrong_victim("older-of-equals", "of two equals you take the older one; the newer one goes.",
                      'row[1]["generated"], row[0])', 'row[1]["generated"], -row[0])',
                      'row[1]["priority"], row[0])', 'row[1]["priority"], -row[0])'),
        _wrong_victim("large-is-important", "you take the smallest priority number. 0 is the most important request: "
                                            "the largest number goes.",
                                            'row[1]["priority"], row[0])', '-row[1]["priority"], row[0])'),
        _wrong_victim("least-generated", "you take the one with the fewest tokens; this rule wants the one with the "
                                         "most.",
                      'row[1]["generated"], row[0])', '-row[1]["generated"], row[0])'),
        _wrong_victim("always-newest", "you ignore the rule and always take the newest.",
                      'rule == "newest"', 'rule'),
        _wrong_victim("by-name", "you go by the names; names say nothing about the order of seats.",
                      "best = rows[-1]", "best = max(rows, key=lambda row: row[1]['name'])"),
        _wrong_victim("whole-row", "you return the whole row; asked is its name.", 'best[1]["name"]', "best[1]"),
        _wrong_victim("place", "you return the place in the list; asked is the name.", 'best[1]["name"]', "best[0]"),
    ),
)

# ---- preemption.make-room

ROOM = '''\
def make_room(running, asker, need, free):
    line = list(running)
    victims = []
    while free < need:
        name, blocks = line.pop()
        victims.append(name)
        free += blocks
        if name == asker:
            return victims, False
    return victims, True
'''


def _room_case(rng: random.Random) -> dict:
    running = [["ABCD"[index], rng.randint(1, 3)] for index in range(rng.randint(1, 4))]
    return {"running": running, "asker": rng.choice([name for name, _ in running]), "need": rng.randint(0, 5),
            "free": rng.randint(0, 2)}


def _drive_room(trace: Trace, case: dict) -> None:
    trace.call("make_room", case["running"], case["asker"], case["need"], case["free"])


def _wrong_room(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(ROOM, *pairs))


ROOM_EXERCISE = Exercise(
    id="preemption.make-room",
    title="Make room",
    chapter="09_preemption",
    minutes=15,
    level="medium",
    goal="Preempt running requests until the one that asks finds its blocks, or has to go itself.",
    interface=("make_room(running, asker, need, free)",),
    hints=("The newest request asks for a block and none is free. Who is the newest victim?",
           "While too few blocks are free: take the last of the running ones, note its name, and add its blocks to the "
           "free ones. If it was the asker itself, stop: it does not run in this step.",
           "line = list(running); victims = []; while free < need: name, blocks = line.pop(); victims.append(name); "
           "free += blocks; if name == asker: return victims, False. Behind the loop: return victims, True."),
    rule="Victims go newest first, one at a time, until enough blocks are free. The asker can be a victim like any "
         "other: then it is the last one, and it does not run. Nobody is preempted without need.",
    examples=({"running": [["A", 3], ["B", 2], ["C", 1]], "asker": "A", "need": 2, "free": 0},
              {"running": [["A", 3], ["B", 2]], "asker": "B", "need": 1, "free": 0},
              {"running": [["A", 3], ["B", 2]], "asker": "A", "need": 1, "free": 1},
              {"running": [["A", 1], ["B", 1], ["C", 3]], "asker": "B", "need": 3, "free": 0}),
    case=_room_case,
    drive=_drive_room,
    reference=lambda: from_source(ROOM),
    misconceptions=(
        _wrong_room("never-the-asker", "you spare the asker and take somebody older in its place. If the asker is the "
                                       "newest it goes itself.", "        name, blocks = line.pop()",
                    "        if len(line) == 1:\n            return victims, False\n"
                    "        name, blocks = line.pop(-2 if line[-1][0] == asker else -1)"),
        _wrong_room("one-is-enough", "you preempt one request and hope. Count the free blocks again: one victim may "
                                     "not be enough.", "while free < need:", "if free < need:"),
        _wrong_room("one-too-many", "exactly as many free blocks as needed are enough.", "while free < need:",
                    "while free <= need and line:"),
        _wrong_room("oldest-first", "you take the oldest first; it has the most work to lose.",
                    "line.pop()", "line.pop(0)"),
        _wrong_room("asker-runs", "a request that lost its own blocks can't run in this step.",
                    "            return victims, False", "            return victims, True"),
        _wrong_room("goes-on", "when the asker itself is a victim, stop: its need is gone.",
                    "        if name == asker:\n            return victims, False\n    return victims, True",
                    "        if not line:\n            break\n    return victims, asker not in victims"),
        _wrong_room("always-a-victim", "you preempt somebody though enough blocks are free.",
                    "    while free < need:", "    while free < need or not victims:"),
        _wrong_room("changes-list", "you take the victims out of the caller's list. Work on a copy.",
                    "list(running)", "running"),
        _wrong_room("forgets-blocks", "you do not count the blocks that the victims give up: everybody is preempted.",
                    "free += blocks", "free += 0"),
    ),
)

# ---- preemption.swap-or-recompute

COST = '''\
def cheaper_way(num_tokens, block_size, block_bytes, link, speed):
    blocks = -(-num_tokens // block_size)
    swap = 2 * blocks * block_bytes / link
    recompute = num_tokens / speed
    return ("swap" if swap < recompute else "recompute"), swap, recompute
'''


def _cost_case(rng: random.Random) -> dict:
    return {"num_tokens": rng.randint(1, 40), "block_size": rng.randint(1, 8), "block_bytes": 100 * rng.randint(1, 9),
            "link": 1000 * rng.randint(1, 4), "speed": 5 * rng.randint(1, 8)}


def _drive_cost(trace: Trace, case: dict) -> None:
    trace.call("cheaper_way", case["num_tokens"], case["block_size"], case["block_bytes"], case["link"], case["speed"])


def _wrong_cost(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(COST, *pairs))


COST_EXERCISE = Exercise(
    id="preemption.swap-or-recompute",
    title="Save it or compute it again?",
    chapter="09_preemption",
    minutes=12,
    level="medium",
    goal="Say what it costs to swap a request out and in, what it costs to compute it again, and which is cheaper.",
    interface=("cheaper_way(num_tokens, block_size, block_bytes, link, speed)",),
    hints=("How often do the bytes of a swapped request go over the link until it runs again?",
           "Whole blocks are moved, out and later in. Recomputing costs the time to compute all its tokens once more.",
           "blocks = -(-num_tokens // block_size); swap = 2 * blocks * block_bytes / link; recompute = num_tokens / "
           "speed; the smaller one wins, and of equals recompute."),
    rule="Swapping moves every block twice, out and in, at `link` bytes a second; a block that is partly filled is "
         "moved whole. Recomputing takes num_tokens / speed seconds. Of equals, recompute: it needs no host memory.",
    examples=({"num_tokens": 10, "block_size": 4, "block_bytes": 500, "link": 1000, "speed": 5},
              {"num_tokens": 8, "block_size": 4, "block_bytes": 100, "link": 4000, "speed": 5},
              {"num_tokens": 8, "block_size": 8, "block_bytes": 400, "link": 1000, "speed": 10}),
    case=_cost_case,
    drive=_drive_cost,
    reference=lambda: from_source(COST),
    misconceptions=(
        _wrong_cost("one-way", "you move the blocks out and never in again. They cross the link twice.",
                    "2 * blocks", "blocks"),
        _wrong_cost("part-blocks", "you move a part of a block; blocks are moved whole.",
                    "-(-num_tokens // block_size)", "num_tokens / block_size"),
        _wrong_cost("rounds-down", "you leave the last, partly filled block behind.",
                    "-(-num_tokens // block_size)", "num_tokens // block_size"),
        _wrong_cost("token-bytes", "block_bytes are the bytes of a whole block, not of a token.",
                    "2 * blocks * block_bytes", "2 * num_tokens * block_bytes"),
        _wrong_cost("times-speed", "speed is tokens a second: time is tokens divided by speed.",
                    "num_tokens / speed", "num_tokens * speed"),
        _wrong_cost("dearer", "you name the dearer way.", "swap < recompute", "swap > recompute"),
        _wrong_cost("ties-swap", "of equals, recompute: it takes no memory on the host.", "swap < recompute",
                    "swap <= recompute"),
        _wrong_cost("recompute-blocks", "only the tokens that are there are computed again, not the empty rest of the "
                                        "block.",
                    "num_tokens / speed", "blocks * block_size / speed"),
    ),
)

# ---- preemption.resume

RESUME = '''\
def preempt(request):
    kept = {"prompt": list(request["prompt"]), "output": list(request["output"])}
    return {**kept, "num_computed_tokens": 0, "blocks": [], "status": "waiting"}

def next_chunk(request, budget):
    tokens = request["prompt"] + request["output"]
    start = request["num_computed_tokens"]
    end = min(len(tokens), start + budget)
    return tokens[start:end], end == len(tokens)
'''


def _resume_case(rng: random.Random) -> dict:
    prompt = [rng.randint(10, 99) for _ in range(rng.randint(1, 5))]
    output = [rng.randint(10, 99) for _ in range(rng.randint(0, 4))]
    return {"prompt": prompt, "output": output, "done": rng.randint(0, len(prompt) + len(output) - 1),
            "budgets": [rng.randint(1, 4) for _ in range(rng.randint(1, 4))]}


def _drive_resume(trace: Trace, case: dict) -> None:
    request = {"prompt": case["prompt"], "output": case["output"], "num_computed_tokens": case["done"],
               "blocks": [5, 2], "status": "running"}
    trace.call("next_chunk", request, case["budgets"][0])
    state = trace.call("preempt", request)
    if not isinstance(state, dict) or trace.raised:
        return
    for budget in case["budgets"]:
        chunk = trace.call("next_chunk", state, budget)
        if trace.raised or not chunk or chunk[1]:
            return
        state = {**state, "num_computed_tokens": state["num_computed_tokens"] + len(chunk[0])}


def _wrong_resume(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(RESUME, *pairs))


RESUME_EXERCISE = Exercise(
    id="preemption.resume",
    title="Catch up",
    chapter="09_preemption",
    minutes=15,
    level="hard",
    goal="Take a request's memory away, and let it catch up so that its answer goes on as if nothing had happened.",
    interface=("preempt(request)", "next_chunk(request, budget)"),
    hints=("After a preemption the K and V of a request are gone. Are the tokens that it has generated gone too?",
           "Only the blocks and the count of computed tokens change. The next chunk begins at that count, in prompt "
           "and output together, and takes at most `budget` tokens. Only the chunk that reaches the end gives a new "
           "token.",
           "preempt: a new dict with the same prompt and output, num_computed_tokens 0, blocks [], status \"waiting\". "
           "next_chunk: tokens = prompt + output; end = min(len(tokens), start + budget); return tokens[start:end], "
           "end == len(tokens)."),
    rule="A preempted request keeps all its tokens, prompt and output; it loses its blocks and counts from 0 again. "
         "Each step computes the next tokens of both together, as many as the budget allows. A new token is sampled "
         "only when all are computed.",
    examples=({"prompt": [11, 12, 13, 14, 15], "output": [21, 22], "done": 6, "budgets": [4, 4]},
              {"prompt": [11, 12], "output": [], "done": 1, "budgets": [1, 1]},
              {"prompt": [11], "output": [21, 22, 23], "done": 3, "budgets": [2, 2]}),
    case=_resume_case,
    drive=_drive_resume,
    reference=lambda: from_source(RESUME),
    misconceptions=(
        _wrong_resume("drops-output", "you throw the generated tokens away: the reader has seen them already, and the "
                                      "answer would change.", '"output": list(request["output"])', '"output": []'),
        _wrong_resume("prompt-only", "you compute the prompt again but not the generated tokens: their K and V are "
                                     "gone too.",
                      'tokens = request["prompt"] + request["output"]',
                      'tokens = request["prompt"] + request["output"] * (request["num_computed_tokens"] > 0)'),
        _wrong_resume("keeps-count", "you keep num_computed_tokens: the engine would read K and V that are no longer "
                                     "there.",
                      '"num_computed_tokens": 0', '"num_computed_tokens": request["num_computed_tokens"]'),
        _wrong_resume("keeps-blocks", "the blocks belong to somebody else now: the list must be empty.",
                      '"blocks": []', '"blocks": request["blocks"]'),
        _wrong_resume("samples-early", "you sample at the end of every chunk. Before the last token is computed the "
                                       "next one is already known.", "end == len(tokens)", "True"),
        _wrong_resume("samples-at-prompt", "you sample when the prompt is computed. The tokens behind it are known: "
                                           "catch up with them first.",
                                           "end == len(tokens)", 'end >= len(request["prompt"])'),
        _wrong_resume("no-budget", "you compute everything in one step; the budget says how many tokens fit.",
                      "min(len(tokens), start + budget)", "len(tokens)"),
        _wrong_resume("from-the-start", "you begin at the first token in every step and never get on.",
                      "tokens[start:end]", "tokens[:end - start]"),
        _wrong_resume("joins-output", "you make the output a part of the prompt: then it would count as question, not "
                                      "as answer, and max_tokens would begin anew.",
                      '{"prompt": list(request["prompt"]), "output": list(request["output"])}',
                      '{"prompt": request["prompt"] + request["output"], "output": []}'),
        _wrong_resume("still-running", "a request without a seat waits.", '"status": "waiting"', '"status": "running"'),
    ),
)

EXERCISES = (VICTIM_EXERCISE, ROOM_EXERCISE, COST_EXERCISE, RESUME_EXERCISE)
