"""Lab of chapter 08: who is served next, for how long, and who can be served at all."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.core import ContinuousBatchingScheduler, EventLog, KVCacheManager, Request, SamplingParams
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._scheduling_admission import ADMISSION_EXERCISE
from minipaged.lab.exercises._scheduling_turns import TURNS_EXERCISE
from minipaged.lab.swaps import use
from minipaged.lab.trace import Trace

# ---- scheduling.shortest-first

SHORTEST = '''\
def pick_next(waiting):
    best = waiting[0]
    for row in waiting:
        left = row["num_tokens"] - row["num_computed_tokens"]
        if left < best["num_tokens"] - best["num_computed_tokens"]:
            best = row
    return best["request_id"]
'''


def _pick_next(waiting: list[dict]) -> str:
    return min(waiting, key=lambda row: (row["num_tokens"] - row["num_computed_tokens"], row["arrival"]))["request_id"]


def _case(rng: random.Random) -> dict:
    rows = [[rng.randint(1, 9), rng.randint(0, 4)] for _ in range(rng.randint(1, 4))]
    return {"rows": [[length, min(done, length - 1)] for length, done in rows],
            "prompts": [rng.randint(1, 9) for _ in range(rng.randint(1, 5))], "seats": rng.randint(1, 2),
            "num_blocks": rng.randint(5, 8), "max_tokens": [rng.randint(1, 6) for _ in range(5)]}


def _drive(trace: Trace, case: dict) -> None:
    """One choice among requests of which some come back half computed; then core's scheduler with this choice. Each
    call is told with what the rows say."""
    events, seen = EventLog(), 0

    def tell() -> None:
        nonlocal seen
        for event in events[seen:]:
            trace.event(event.kind, **event.data)
        seen = len(events)

    def pick(rows: list[dict]) -> object:
        tell()
        shown = ", ".join(f"{row['request_id']}: {row['num_tokens'] - row['num_computed_tokens']} tokens left"
                          for row in rows)
        return trace.call("pick_next", rows, text=f"pick_next([{shown}])")

    rows = [{"request_id": f"r{index}", "priority": 0, "arrival": index, "num_tokens": length,
             "num_computed_tokens": done, "num_output_tokens": 0, "max_num_tokens": length + 4, "num_preemptions": 0}
            for index, (length, done) in enumerate(case["rows"])]
    if rows:
        pick(rows)
    kv = KVCacheManager(case["num_blocks"], 4, events=events)
    with use(pick_next=pick).in_place():
        scheduler = ContinuousBatchingScheduler(kv, max_num_seqs=case["seats"], events=events)
    for index, length in enumerate(case["prompts"]):
        name = "ABCDE"[index]
        tokens = range(100 * index, 100 * index + length)
        scheduler.add_request(Request(name, list(tokens), SamplingParams(max_tokens=case["max_tokens"][index])))
    finished: list[str] = []
    while scheduler.has_unfinished:
        plan = scheduler.schedule()
        finished += [one.request_id for one in scheduler.commit(plan, {
            item.request_id: 7 for item in plan.scheduled if item.sample})]
    tell()
    trace.result("the order in which the requests finish", finished)


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(SHORTEST, *pairs))


SHORTEST_EXERCISE = Exercise(
    id="scheduling.shortest-first",
    title="Short prompts first",
    chapter="08_scheduling",
    minutes=12,
    level="medium",
    goal="Write the rule that says who gets the next seat, and see what it does to waiting times.",
    interface=("pick_next(waiting)",),
    hints=("Two requests wait, one with 9 tokens to compute and one with 2. How long does each wait if the long "
           "one goes first, and if the short one does?",
           "Go through the rows and keep the one with the fewest tokens that are not computed yet; only a smaller "
           "number replaces it, so that of equals the earliest stays.",
           'min(waiting, key=lambda row: (row["num_tokens"] - row["num_computed_tokens"], row["arrival"])) is the '
           'row; give its "request_id".'),
    rule="The request with the fewest tokens left to compute comes first; of equals, the one that arrived "
         "first.",
    examples=({"rows": [], "prompts": [9, 2, 5], "seats": 1, "num_blocks": 6, "max_tokens": [1, 3, 2]},
              {"rows": [[6, 5], [3, 0]], "prompts": [4, 4], "seats": 1, "num_blocks": 6, "max_tokens": [1, 1]}),
    case=_case,
    drive=_drive,
    reference=lambda: SimpleNamespace(pick_next=_pick_next),
    misconceptions=(
        Misconception("first-come", "you serve in the order of arrival; a long prompt makes all others wait.",
                      'def pick_next(waiting):\n    return waiting[0]["request_id"]\n'),
        _wrong("longest", "you take the longest first.", "if left <", "if left >"),
        _wrong("newest-of-equals", "of two with the same length the later one overtakes; the earlier one should "
               "stay first.", "if left <", "if left <="),
        Misconception("row", "you give the whole row; the engine wants the request's id.",
                      'def pick_next(waiting):\n    return min(waiting, key=lambda row: row["num_tokens"])\n'),
        Misconception("index", "you give the place in the list; the engine wants the request's id.",
                      "def pick_next(waiting):\n    lengths = [row['num_tokens'] for row in waiting]\n"
                      "    return lengths.index(min(lengths))\n"),
        Misconception("alphabet", "you go by the names of the requests, which say nothing of their work.",
                      "def pick_next(waiting):\n    return max(row['request_id'] for row in waiting)\n"),
        Misconception("shortest-answer", "you compare the longest possible answers; what is known is the prompt.",
                      "def pick_next(waiting):\n    return min(waiting, key=lambda row: row['max_num_tokens'] - "
                      "row['num_tokens'])['request_id']\n"),
    ),
)

EXERCISES = (SHORTEST_EXERCISE, TURNS_EXERCISE, ADMISSION_EXERCISE)
