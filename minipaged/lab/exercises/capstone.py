"""Lab of chapter 14: policies, judged by what a simulated server does with them."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.plain import show
from minipaged.lab.swaps import use
from minipaged.lab.trace import RETURNS, Step, Trace, TraceEnds

if TYPE_CHECKING:
    from minipaged.sim.simulator import SimResult

OUTPUT = 8  # tokens of each answer in the queue of capstone.fair-queue


class _Stop(BaseException):
    """Leaves a simulation in which an answer can't go on. `step`: what it did, if that was an exception."""

    def __init__(self, step: Step | None) -> None:
        self.step = step


def _simulated(trace: Trace, function: str, requests: list, **options: object) -> SimResult:
    """A run with the learner's policy in it. How often a policy is asked depends on the policy, so its calls are no
    steps; what they give is. `requests`: (seconds, prompt, output). Ends the trace where it gives no request's id."""
    from minipaged.sim.scenario import Scenario
    from minipaged.sim.workload import TraceRequest, sorted_trace

    wrong: list[str] = []

    def decide(rows: list[dict]) -> object:
        inner = Trace(trace.answer)
        try:
            name = inner.call(function, rows, text=f"{function}({len(rows)} requests)")
        except TraceEnds:
            name = None
        if inner.steps[-1].outcome.kind != RETURNS:
            raise _Stop(inner.steps[-1])
        if name not in [row["request_id"] for row in rows]:
            wrong.append(show(name))
            raise _Stop(None)
        return name

    result, arrivals = None, sorted_trace("lab", [TraceRequest(*row) for row in requests])
    try:
        with use(**{function: decide}).in_place():
            result = Scenario(prefix_caching=False, **options).simulate(trace=arrivals)
    except _Stop as stop:
        if stop.step is not None:
            trace.steps.append(stop.step)
            raise TraceEnds from None
    trace.result(f"what {function} gives", f"{wrong[0]}, no id of one of the requests" if wrong else "a request's id")
    if result is None:
        raise TraceEnds
    return result


def _one_of(cases: tuple[dict, ...]) -> Callable[[random.Random], dict]:
    return lambda rng: rng.choice(cases)


# ---- capstone.fair-queue

FAIR = '''\
def pick_next(waiting):
    def rank(row):
        return row["num_tokens"] - row["num_computed_tokens"] + 2000 * row["arrival"]
    return min(waiting, key=rank)["request_id"]
'''
#: (seconds, prompt tokens); the limits in seconds lie between those of first-come and of shortest-first
QUEUES = ({"requests": [[0.0, 1000], [0.01, 12000], [0.5, 8000],
                        *([round(0.06 + 0.1 * i, 2), [200, 400, 300][i % 3]] for i in range(15))],
           "mean": 0.88, "worst": 1.6},
          {"requests": [[0.0, 1000], [0.02, 8000], [0.03, 8000],
                        *([round(0.06 + 0.1 * i, 2), [400, 300][i % 2]] for i in range(16))],
           "mean": 0.8, "worst": 1.5})


def _drive_fair(trace: Trace, case: dict) -> None:
    from minipaged.sim import metrics

    requests = [(at, length, OUTPUT) for at, length in case["requests"]]
    result = _simulated(trace, "pick_next", requests, max_num_seqs=1, blocks=2000)
    waits = metrics.ttft(result)
    mean, worst = float(waits.mean()), float(waits.max())
    limits = f"mean at most {case['mean']} s, worst at most {case['worst']} s"
    good = mean <= case["mean"] and worst <= case["worst"]
    trace.result(f"time to first token of {len(requests)} requests, {limits}",
                 "within both limits" if good else f"mean {mean:.3f} s, worst {worst:.3f} s")


def _wrong_fair(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(FAIR, *pairs))


def _pick(expression: str) -> str:
    return f"def pick_next(waiting):\n    return {expression}\n"


WORK = 'row["num_tokens"] - row["num_computed_tokens"] + 2000 * row["arrival"]'
FAIR_EXERCISE = Exercise(
    id="capstone.fair-queue",
    title="Short ones first, but nobody for ever",
    chapter="14_capstone",
    minutes=30,
    level="hard",
    goal="Design a queue that serves short prompts soon and still lets a long one through.",
    interface=("pick_next(waiting)",),
    hints=("First come, first served makes the short ones wait for the long one. Shortest first makes the long one "
           "wait for all short ones that are still to come. What would bound how many may overtake it?",
           "Let a request's place depend on its work and on when it came: rank = tokens left + weight * arrival. "
           "`arrival` counts 0, 1, 2, ... With weight 0 it is shortest first, with a very large one first come.",
           'min(waiting, key=lambda row: row["num_tokens"] - row["num_computed_tokens"] + weight * row["arrival"]) and '
           'its "request_id". A prompt of 8000 tokens is overtaken by about 8000 / weight short ones: try weights '
           "between 1500 and 3000."),
    rule="The mean and the worst time to first token must both be within their limits, on both traces. Serving in the "
         "order of arrival breaks the first limit, serving the shortest first the second.",
    examples=QUEUES,
    case=_one_of(QUEUES),
    drive=_drive_fair,
    reference=lambda: from_source(FAIR),
    misconceptions=(
        _wrong_fair("first-come", "you serve in the order of arrival. Everybody behind the long prompt waits for all "
                    "of it, and the mean is beyond its limit.", WORK, 'row["arrival"]'),
        _wrong_fair("shortest", "you serve the shortest first. The mean is fine, and the longest prompt waits until no "
                    "short one comes any more.", WORK,
                    '(row["num_tokens"] - row["num_computed_tokens"], row["arrival"])'),
        _wrong_fair("weak-ageing", "your bonus for waiting is too small: more than twenty may still overtake the "
                    "long one. One place in the line must weigh more than a thousand tokens.", "2000 * row",
                    "300 * row"),
        _wrong_fair("longest", "you serve the longest first; everybody waits for the most work.", WORK,
                    '-row["num_tokens"]'),
        _wrong_fair("newest", "you serve the last one that came. Whoever had to wait once waits until nobody comes any "
                    "more.",
                    WORK, '-row["arrival"]'),
        _wrong_fair("rewards-the-new", "your bonus has the wrong sign: who comes later is moved to the front.",
                    "+ 2000 *", "- 2000 *"),
        _wrong_fair("row", "you give the whole row; the engine wants the request's id.", '["request_id"]', ""),
        Misconception("place", "you give a place in the list; the engine wants the request's id.",
                      _pick('0 * len(waiting)')),
    ),
    trials=2,
    seconds=6.0,
)

# ---- capstone.cheap-victim

CHEAP = '''\
def choose_victim(running):
    return min(running, key=lambda row: row["num_computed_tokens"])["request_id"]
'''
#: [prompt, output] tokens, one request every 0.02 s; `limit`: tokens that may be computed again
PRESSURES = ({"blocks": 60, "limit": 600,
              "requests": [[400, 120], [80, 150], [300, 60], [120, 140], [200, 100], [60, 160]]},
             {"blocks": 50, "limit": 500,
              "requests": [[300, 150], [60, 100], [90, 80], [60, 100], [90, 80], [60, 100], [90, 80], [250, 100]]},
             {"blocks": 40, "limit": 370, "requests": [[40, 200], [320, 60], [100, 120], [60, 140], [160, 90]]})


def _drive_cheap(trace: Trace, case: dict) -> None:
    requests = [(round(0.02 * i, 2), prompt, output) for i, (prompt, output) in enumerate(case["requests"])]
    result = _simulated(trace, "choose_victim", requests, blocks=case["blocks"], block_size=16)
    counts = result.counts
    trace.result(f"tokens computed again, {len(requests)} requests in {case['blocks']} blocks of 16, at most "
                 f"{case['limit']}", "within the limit" if counts.lost_tokens <= case["limit"] else
                 f"{counts.lost_tokens} in {counts.preemptions} preemptions")


def _wrong_cheap(name: str, message: str, expression: str) -> Misconception:
    return Misconception(name, message, f"def choose_victim(running):\n    return {expression}\n")


CHEAP_EXERCISE = Exercise(
    id="capstone.cheap-victim",
    title="The cheapest victim",
    chapter="14_capstone",
    minutes=20,
    level="medium",
    goal="Choose whom to preempt so that little work is lost when memory is short.",
    interface=("choose_victim(running)",),
    hints=("A victim is computed again from its first token. What does it cost to preempt a request?",
           "It costs the tokens whose K and V are in its blocks: num_computed_tokens. Take the request for which that "
           "is smallest.",
           'min(running, key=lambda row: row["num_computed_tokens"]) is the row of the victim; give its "request_id".'),
    rule="Preempting a request throws away num_computed_tokens tokens of work. Over a whole run the tokens that are "
         "computed again must stay within the limit, on all three traces.",
    examples=PRESSURES,
    case=_one_of(PRESSURES),
    drive=_drive_cheap,
    reference=lambda: from_source(CHEAP),
    misconceptions=(
        _wrong_cheap("newest", "you take the newest. That is fair, and often cheap; but the newest may have a long "
                     "prompt, and then all of it is computed again.", 'running[-1]["request_id"]'),
        _wrong_cheap("oldest", "you take the oldest, which has done the most. All of that is lost.",
                     'running[0]["request_id"]'),
        _wrong_cheap("largest", "you take the one with the most blocks: that frees much memory, and throws away the "
                     "most work. What it frees it needs again.",
                     'max(running, key=lambda row: row["num_computed_tokens"])["request_id"]'),
        _wrong_cheap("farthest", "you take the one with the most tokens to come. They cost the same whenever they are "
                     "computed; what is lost are those that are done.",
                     'max(running, key=lambda row: row["max_num_tokens"] - row["num_tokens"])["request_id"]'),
        _wrong_cheap("never-twice", "you spare everybody who was preempted once, however little is lost. Fair, but the "
                     "others pay for it with much more work.",
                     'min(running, key=lambda row: (row["num_preemptions"], row["num_computed_tokens"]))'
                     '["request_id"]'),
        _wrong_cheap("row", "you give the whole row; the engine wants the request's id.", "running[-1]"),
        _wrong_cheap("cost", "you give the cost of a victim; the engine wants the request's id.",
                     'min(row["num_computed_tokens"] for row in running)'),
    ),
    trials=3,
    seconds=6.0,
)

EXERCISES = (CHEAP_EXERCISE, FAIR_EXERCISE)
