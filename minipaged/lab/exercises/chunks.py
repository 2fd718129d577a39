"""Lab of chapter 10: long prompts in chunks, beside requests that make a token in every step."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

# ---- chunks.sizes

SIZES = '''\
def chunk_sizes(prompt, budget, decodes):
    sizes = []
    while prompt > 0:
        size = min(prompt, budget - decodes)
        sizes.append(size)
        prompt -= size
    return sizes
'''


def _sizes_case(rng: random.Random) -> dict:
    decodes = rng.randint(0, 3)
    return {"prompt": rng.randint(1, 30), "budget": decodes + rng.randint(1, 8), "decodes": decodes}


def _drive_sizes(trace: Trace, case: dict) -> None:
    trace.call("chunk_sizes", case["prompt"], case["budget"], case["decodes"])


def _wrong_sizes(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(SIZES, *pairs))


SIZES_EXERCISE = Exercise(
    id="chunks.sizes",
    title="A long prompt in pieces",
    chapter="10_chunked_prefill",
    minutes=8,
    level="easy",
    goal="Cut a prompt into the chunks that fit beside running requests.",
    interface=("chunk_sizes(prompt, budget, decodes)",),
    hints=("A step takes 8 tokens and 3 requests make one token each. How many tokens of the prompt fit beside them?",
           "Each step has budget - decodes tokens for the prompt. The last chunk is what is left.",
           "while prompt > 0: size = min(prompt, budget - decodes); append it; prompt -= size."),
    rule="Running requests come first: each takes one token of the step's budget. The prompt gets the rest of each "
         "step, and its last chunk is as large as what is left of it.",
    examples=({"prompt": 12, "budget": 8, "decodes": 3},
              {"prompt": 8, "budget": 4, "decodes": 0},
              {"prompt": 2, "budget": 8, "decodes": 1}),
    case=_sizes_case,
    drive=_drive_sizes,
    reference=lambda: from_source(SIZES),
    misconceptions=(
        _wrong_sizes("forgets-decodes", "you give the whole budget to the prompt; the running requests would wait.",
                     "min(prompt, budget - decodes)", "min(prompt, budget)"),
        _wrong_sizes("full-last", "the last chunk is what is left of the prompt, not a full one.",
                     "min(prompt, budget - decodes)", "budget - decodes"),
        _wrong_sizes("decodes-once", "the running requests take a token in every step, not only in the first.",
                     "min(prompt, budget - decodes)", "min(prompt, budget - (0 if sizes else decodes))"),
        _wrong_sizes("whole", "you compute the prompt in one step; the running requests would wait for all of it.",
                     "min(prompt, budget - decodes)", "prompt"),
        _wrong_sizes("even", "you make chunks of equal size; take as much as fits, and the rest last.",
                     "    sizes = []\n", "    steps = -(-prompt // (budget - decodes))\n    sizes = []\n",
                     "min(prompt, budget - decodes)", "-(-prompt // (steps - len(sizes)))"),
        _wrong_sizes("an-empty-one", "when the prompt is computed it is done: no chunk of nothing behind it.",
                     "while prompt > 0:", "while prompt > 0 or not sizes or sizes[-1] == budget - decodes:"),
        _wrong_sizes("count", "give the sizes, not how many there are.", "return sizes", "return len(sizes)"),
    ),
)

# ---- chunks.plan

PLAN = '''\
def plan_step(requests, budget, limit):
    plan = {}
    for name, num_tokens, num_computed in requests:
        if budget == 0:
            break
        count = min(num_tokens - num_computed, limit, budget)
        plan[name] = count
        budget -= count
    return plan
'''


def _plan_case(rng: random.Random) -> dict:
    requests = []
    for name in "ABCDE"[:rng.randint(0, 4)]:
        missing = rng.choice([1, 1, rng.randint(2, 9)])
        done = rng.randint(0, 6)
        requests.append([name, done + missing, done])
    return {"requests": requests, "budget": rng.randint(1, 12), "limit": rng.randint(1, 6)}


def _drive_plan(trace: Trace, case: dict) -> None:
    trace.call("plan_step", case["requests"], case["budget"], case["limit"])


def _wrong_plan(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(PLAN, *pairs))


PLAN_EXERCISE = Exercise(
    id="chunks.plan",
    title="One budget for all",
    chapter="10_chunked_prefill",
    minutes=15,
    level="medium",
    goal="Plan a step in which prompts and single tokens share one budget.",
    interface=("plan_step(requests, budget, limit)",),
    hints=("What is the difference between a request that reads its prompt and one that makes its tenth token, if you "
           "know only two numbers: its tokens, and how many of them are computed?",
           "There is none: each catches up with its length. Walk over the requests in their order and give each the "
           "smallest of what it misses, the limit, and what is left of the budget.",
           "for name, num_tokens, num_computed in requests: stop if budget == 0; count = min(num_tokens - "
           "num_computed, limit, budget); plan[name] = count; budget -= count."),
    rule="Each request, in the order of the list, gets the smallest of three numbers: what it misses, the limit of a "
         "chunk, and what is left of the budget. A request that gets nothing is not in the plan.",
    examples=({"requests": [["A", 7, 6], ["B", 10, 9], ["C", 12, 0]], "budget": 8, "limit": 8},
              {"requests": [["A", 9, 0], ["B", 5, 4]], "budget": 6, "limit": 4},
              {"requests": [["A", 6, 2], ["B", 3, 2]], "budget": 4, "limit": 8},
              {"requests": [], "budget": 4, "limit": 4}),
    case=_plan_case,
    drive=_drive_plan,
    reference=lambda: from_source(PLAN),
    misconceptions=(
        _wrong_plan("from-the-start", "you count all tokens of a request; those that are computed are done.",
                    "num_tokens - num_computed", "num_tokens"),
        _wrong_plan("no-limit", "you let one request take the whole step; a chunk has at most `limit` tokens.",
                    "min(num_tokens - num_computed, limit, budget)", "min(num_tokens - num_computed, budget)"),
        _wrong_plan("over-budget", "the last one in the plan gets more than is left.",
                    "min(num_tokens - num_computed, limit, budget)", "min(num_tokens - num_computed, limit)",
                    "if budget == 0", "if budget <= 0"),
        _wrong_plan("all-or-nothing", "you leave out a request that does not fit whole. It can begin with a chunk.",
                    "        plan[name] = count\n        budget -= count\n",
                    "        if count == num_tokens - num_computed:\n            plan[name] = count\n"
                    "            budget -= count\n"),
        _wrong_plan("one-prompt", "you plan at most one request that has more than one token to compute.",
                    "        plan[name] = count\n        budget -= count\n",
                    "        if num_tokens - num_computed > 1 and any(value > 1 for value in plan.values()):\n"
                    "            continue\n        plan[name] = count\n        budget -= count\n"),
        _wrong_plan("shortest-first", "you sort the requests; the order of the list says who comes first.",
                    "in requests:", "in sorted(requests, key=lambda row: row[1] - row[2]):"),
        _wrong_plan("zeros", "who gets nothing is not in the plan; a kernel would have to skip it.",
                    "        if budget == 0:\n            break\n", ""),
        _wrong_plan("budget-each", "the budget is for the whole step, not for each request.",
                    "        budget -= count\n", ""),
        _wrong_plan("limit-for-step", "the limit holds for each chunk, not for all of them together.",
                    "    plan = {}\n", "    plan = {}\n    budget = min(budget, limit)\n"),
    ),
)

# ---- chunks.latency

LATENCY = '''\
def latency(prompt, budget, decodes, fixed, per_token):
    longest, first_token = 0, 0
    while prompt > 0:
        size = prompt if budget is None else min(prompt, budget - decodes)
        step = fixed + per_token * (size + decodes)
        longest = max(longest, step)
        first_token += step
        prompt -= size
    return longest, first_token
'''


def _latency_case(rng: random.Random) -> dict:
    decodes = rng.randint(0, 3)
    return {"prompt": rng.randint(1, 20), "budget": rng.choice([None, decodes + rng.randint(1, 8)]),
            "decodes": decodes, "fixed": rng.randint(0, 9), "per_token": rng.randint(1, 3)}


def _drive_latency(trace: Trace, case: dict) -> None:
    trace.call("latency", case["prompt"], case["budget"], case["decodes"], case["fixed"], case["per_token"])


def _wrong_latency(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(LATENCY, *pairs))


LATENCY_EXERCISE = Exercise(
    id="chunks.latency",
    title="Who waits for whom?",
    chapter="10_chunked_prefill",
    minutes=15,
    level="medium",
    goal="Measure both sides of a chunk: the pause of those who run, and the wait of the one who comes.",
    interface=("latency(prompt, budget, decodes, fixed, per_token)",),
    hints=("While one step runs, how many tokens does a running reader get? What is the longest pause?",
           "A step takes fixed + per_token x its tokens. The pause is the longest step. The newcomer waits for all "
           "steps together. Without a budget there is one step.",
           "Cut the prompt as before; for each chunk: step = fixed + per_token * (size + decodes); longest = max of "
           "them; first_token = sum of them."),
    rule="A step takes fixed + per_token x all its tokens, chunk and decodes. Running requests get a token at the end "
         "of each step: their longest pause is the longest step. The new request gets its first token at the end of "
         "its last chunk.",
    examples=({"prompt": 12, "budget": None, "decodes": 3, "fixed": 4, "per_token": 1},
              {"prompt": 12, "budget": 8, "decodes": 3, "fixed": 4, "per_token": 1},
              {"prompt": 4, "budget": 3, "decodes": 1, "fixed": 0, "per_token": 2}),
    case=_latency_case,
    drive=_drive_latency,
    reference=lambda: from_source(LATENCY),
    misconceptions=(
        _wrong_latency("chunk-alone", "the running requests compute their tokens in the same step: count them too.",
                       "per_token * (size + decodes)", "per_token * size"),
        _wrong_latency("fixed-once", "every step pays the fixed part again: that is what small chunks cost.",
                       "first_token += step", "first_token += step - (fixed if first_token else 0)"),
        _wrong_latency("sum-as-pause", "a running reader gets a token after every step: the pause is one step.",
                       "longest = max(longest, step)", "longest += step"),
        _wrong_latency("last-step", "the last chunk is often the smallest; the longest step makes the pause.",
                       "longest = max(longest, step)", "longest = step"),
        _wrong_latency("first-chunk-answers", "the first token comes when the whole prompt is computed, not after its "
                                              "first chunk.",
                                              "first_token += step", "first_token = first_token or step"),
        _wrong_latency("swapped", "first the pause of those who run, then the wait of the new one.",
                       "return longest, first_token", "return first_token, longest"),
        _wrong_latency("per-request", "the fixed part belongs to a step, not to a request.",
                       "step = fixed +", "step = fixed * (1 + decodes) +"),
        _wrong_latency("budget-for-prompt", "the budget holds for the whole step: running requests take theirs first.",
                       "min(prompt, budget - decodes)", "min(prompt, budget)"),
    ),
)

EXERCISES = (SIZES_EXERCISE, PLAN_EXERCISE, LATENCY_EXERCISE)
