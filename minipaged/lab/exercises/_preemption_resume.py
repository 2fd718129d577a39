"""Lab of chapter 09: a preempted request that catches up."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

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
