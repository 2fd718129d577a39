"""Lab of chapter 11: draws that depend on nothing but the request."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

DRAW = '''\
from hashlib import blake2b

def uniform(seed, position):
    digest = blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2 ** 53

def draw_tokens(rows):
    tokens = []
    for row in rows:
        target = uniform(row["seed"], len(row["output"])) * sum(row["weights"])
        summed = 0
        for token, weight in enumerate(row["weights"]):
            summed += weight
            if summed > target:
                tokens.append(token)
                break
    return tokens
'''
VOCABULARY = 5


def _case(rng: random.Random) -> dict:
    count = rng.randint(1, 3)
    requests = [{"seed": rng.randint(0, 50), "num_prompt": rng.randint(1, 6)} for _ in range(count)]
    steps = [rng.sample(range(count), rng.randint(1, count)) for _ in range(rng.randint(1, 4))]
    return {"requests": requests, "steps": steps, "preempted": [rng.randint(0, count) for _ in steps]}


def _drive(trace: Trace, case: dict) -> None:
    """Each step some requests run, in some order; `preempted`: the one that had to compute everything again."""
    outputs: list[list[int]] = [[] for _ in case["requests"]]
    for step, (running, preempted) in enumerate(zip(case["steps"], case["preempted"])):
        rows = []
        for index in running:
            request, output = case["requests"][index], outputs[index]
            length = request["num_prompt"] + len(output)
            rows.append({"name": "ABC"[index], "seed": request["seed"], "output": list(output), "step": step,
                         "num_tokens": length, "num_computed_tokens": 0 if index == preempted else length - 1,
                         "weights": [(7 * request["seed"] + 3 * length + 2 * token + token // 2) % 4 + (token == 2)
                                     for token in range(VOCABULARY)]})
        shown = ", ".join(f"{row['name']}: seed {row['seed']}, output {row['output']}, weights {row['weights']}"
                          for row in rows)
        tokens = trace.call("draw_tokens", rows, text=f"draw_tokens([{shown}])")
        if not isinstance(tokens, (list, tuple)) or len(tokens) != len(running):
            return
        for index, token in zip(running, tokens):
            outputs[index].append(token)


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(DRAW, *pairs))


ARGUMENTS = 'row["seed"], len(row["output"])'

SAMPLING_EXERCISE = Exercise(
    id="engine.sampling",
    title="The same dice for the same token",
    chapter="11_engine",
    minutes=18,
    level="medium",
    goal="Draw tokens so that neighbours, the order of the batch and preemption change nothing in an answer.",
    interface=("draw_tokens(rows)",),
    hints=("A request is preempted, computes everything again, and then draws its next token. Which of its numbers are "
           "the same as if nothing had happened?",
           "The seed and the count of the tokens in its output are. Take uniform of these two, times the sum of the "
           "weights; then add up the weights in order of the token ids until the sum is larger.",
           "target = uniform(row['seed'], len(row['output'])) * sum(row['weights']); summed = 0; for token, weight in "
           "enumerate(row['weights']): summed += weight; the first token with summed > target is drawn."),
    rule="The draw for a request's token number p, counted from 0 in its output, is uniform(seed, p). The token is the "
         "first one, in order of ids, at which the summed weights exceed the draw times their total.",
    examples=({"requests": [{"seed": 7, "num_prompt": 3}], "steps": [[0], [0], [0]], "preempted": [1, 1, 0]},
              {"requests": [{"seed": 7, "num_prompt": 3}, {"seed": 8, "num_prompt": 5}],
               "steps": [[0, 1], [1], [1, 0], [0, 1]], "preempted": [2, 2, 0, 1]}),
    case=_case,
    drive=_drive,
    reference=lambda: from_source(DRAW),
    misconceptions=(
        _wrong("by-step", "you count the steps of the engine. When a request waits for a while, it draws with another "
               "number than alone. Count its own tokens.", ARGUMENTS, 'row["seed"], row["step"]'),
        _wrong("by-computed", "num_computed_tokens falls back to 0 after a preemption, and the draw with it. The "
               "output stays: count that.", ARGUMENTS, 'row["seed"], row["num_computed_tokens"]'),
        _wrong("counts-the-prompt", "position 0 is the first token of the output; you count the prompt as well.",
               ARGUMENTS, 'row["seed"], row["num_tokens"]'),
        _wrong("by-row", "you draw by the place in the batch. The same request stands elsewhere in the next step, and "
               "its answer depends on its neighbours.", "for row in rows", "for place, row in enumerate(rows)",
               ARGUMENTS, 'place, len(row["output"])'),
        _wrong("fresh-each-time", "you draw the first number of the seed again and again: every token gets the same "
               "number. Position belongs in.", ARGUMENTS, 'row["seed"], 0'),
        _wrong("no-seed", "all requests draw the same numbers; each has a seed of its own.", ARGUMENTS,
               '0, len(row["output"])'),
        _wrong("one-for-all", "you draw once for the whole batch; every row has a draw of its own.", ARGUMENTS,
               'rows[0]["seed"], len(rows[0]["output"])'),
        _wrong("greedy", "you take the most likely token; that is temperature 0. Here the weights decide how often "
               "each comes.",
               "            if summed > target:", "            if weight == max(row[\"weights\"]):"),
        _wrong("not-scaled", "the weights do not add up to 1. Multiply the draw by their sum, or divide them by it.",
               ' * sum(row["weights"])', ""),
        _wrong("from-the-end", "you add up the weights from the last token; the order is that of the ids.",
               'enumerate(row["weights"])', 'reversed(list(enumerate(row["weights"])))'),
    ),
)
