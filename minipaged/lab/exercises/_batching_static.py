"""Lab of chapter 07: what a batch costs that waits for its longest answer."""
from __future__ import annotations

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._batching_lengths import lengths_case
from minipaged.lab.trace import Trace

STATIC = '''\
def static_batches(lengths, seats):
    steps = 0
    for first in range(0, len(lengths), seats):
        steps += max(lengths[first:first + seats])
    used = sum(lengths)
    return steps, used, steps * seats - used
'''


def _drive_static(trace: Trace, case: dict) -> None:
    trace.call("static_batches", case["lengths"], case["seats"])


def _wrong_static(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(STATIC, *pairs))


STATIC_EXERCISE = Exercise(
    id="batching.static",
    title="The price of waiting for the longest",
    chapter="07_continuous_batching",
    minutes=10,
    level="easy",
    goal="Count the steps of static batching, and the seats that are idle in them.",
    interface=("static_batches(lengths, seats)",),
    hints=("Four answers of 100, 50, 200 and 30 tokens start together. When may the next four start?",
           "Cut the line into groups of `seats`. A group lasts as long as its longest answer. Every seat of every step "
           "is used for a token or idle.",
           "steps = sum of max(group); used = sum(lengths); idle = steps * seats - used."),
    rule="A static batch takes the next `seats` requests and ends with its longest one. A seat is idle from the end of "
         "its own answer to the end of the batch, and always if nobody sits there.",
    examples=({"lengths": [100, 50, 200, 30], "seats": 4},
              {"lengths": [3, 1, 2], "seats": 2},
              {"lengths": [], "seats": 4}),
    case=lengths_case,
    drive=_drive_static,
    reference=lambda: from_source(STATIC),
    misconceptions=(
        _wrong_static("all-at-once", "you run everybody in one batch. There are `seats` seats: the others wait.",
                      "        steps += max(lengths[first:first + seats])", "        steps = max(lengths)"),
        _wrong_static("one-by-one", "you run one request after the other. The requests of a batch run at the same "
                                    "time, so the batch takes as many steps as its longest.",
                                    "max(lengths", "sum(lengths"),
        _wrong_static("shortest", "a batch ends with its longest request, not with its shortest.",
                      "max(lengths", "min(lengths"),
        _wrong_static("first-of-batch", "you let the first request of a batch say how long it lasts; the longest does.",
                      "max(lengths[first:first + seats])", "lengths[first]"),
        _wrong_static("only-full", "the last batch may have fewer requests than seats; its requests are served too.",
                      "range(0, len(lengths), seats)", "range(0, len(lengths) - seats + 1, seats)"),
        _wrong_static("empty-seats", "a seat where nobody sits is idle too: each step has `seats` of them.",
                      "steps * seats - used",
                      "sum(max(lengths[i:i + seats]) * len(lengths[i:i + seats])\n"
                      "                            for i in range(0, len(lengths), seats)) - used"),
        _wrong_static("share", "the third number counts seats, not a part of the whole.",
                      "steps * seats - used", "used / (steps * seats or 1)"),
        _wrong_static("padding-used", "a seat that waits for the others makes no token: it is idle, not used.",
                      "used = sum(lengths)", "used = steps * seats"),
    ),
)
