"""Lab of chapter 07: static batches, and batches that anybody may leave and join at every step."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

# ---- batching.static

STATIC = '''\
def static_batches(lengths, seats):
    steps = 0
    for first in range(0, len(lengths), seats):
        steps += max(lengths[first:first + seats])
    used = sum(lengths)
    return steps, used, steps * seats - used
'''


def _lengths(rng: random.Random, most: int) -> list[int]:
    return [rng.randint(1, 9) for _ in range(rng.randint(0, most))]


def _static_case(rng: random.Random) -> dict:
    return {"lengths": _lengths(rng, 7), "seats": rng.randint(1, 4)}


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
    case=_static_case,
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

# ---- batching.finish

FINISH = '''\
def finish_steps(lengths, seats):
    free_after = [0] * seats
    finished = []
    for length in lengths:
        seat = free_after.index(min(free_after))
        free_after[seat] += length
        finished.append(free_after[seat])
    return finished
'''


def _drive_finish(trace: Trace, case: dict) -> None:
    trace.call("finish_steps", case["lengths"], case["seats"])


def _wrong_finish(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(FINISH, *pairs))


FINISH_EXERCISE = Exercise(
    id="batching.finish",
    title="A seat is never idle while somebody waits",
    chapter="07_continuous_batching",
    minutes=15,
    level="medium",
    goal="Say in which step each request ends when a seat is given away in the step after it becomes free.",
    interface=("finish_steps(lengths, seats)",),
    hints=("D makes its last token in step 30. In which step does E, who waits, make its first one?",
           "Remember for each seat the step after which it is free, 0 at the beginning. The next in the line takes the "
           "seat that is free first; its last step is that number plus its length.",
           "free_after = [0] * seats; for each length: seat = the index of the smallest entry; free_after[seat] += "
           "length; that is the request's last step."),
    rule="Requests get seats in the order of the line. A request makes one token a step from the step in which it sits "
         "down. Its seat is free for another one in the step after its last token.",
    examples=({"lengths": [100, 50, 200, 30, 120, 80, 60], "seats": 4},
              {"lengths": [2, 3], "seats": 1},
              {"lengths": [2], "seats": 3}),
    case=_static_case,
    drive=_drive_finish,
    reference=lambda: from_source(FINISH),
    misconceptions=(
        _wrong_finish("static", "you let the next ones in when the whole batch is done. In continuous batching one "
                                "seat is enough.", "        seat = free_after.index(min(free_after))",
                      "        seat = len(finished) % seats\n        if seat == 0:\n"
                      "            free_after = [max(free_after)] * seats"),
        _wrong_finish("next-seat", "you give the seats away in turn. The next in the line takes the seat that is free "
                                   "first.",
                      "free_after.index(min(free_after))", "len(finished) % seats"),
        _wrong_finish("one-step-lost", "you leave a seat empty for a step when it changes hands.",
                      "free_after[seat] += length", "free_after[seat] += length + (free_after[seat] > 0)"),
        _wrong_finish("one-step-each", "a request of n tokens takes n steps: it makes the first one in the step in "
                                       "which it sits down.",
                      "free_after[seat] += length", "free_after[seat] += length + 1"),
        _wrong_finish("too-soon", "the seat is free after the last token of its request; in that step nobody else sits "
                                  "there.",
                                  "free_after[seat] += length", "free_after[seat] += length - (free_after[seat] > 0)"),
        _wrong_finish("from-zero", "steps count from 1: a request of one token that starts at once ends in step 1.",
                      "finished.append(free_after[seat])", "finished.append(free_after[seat] - 1)"),
        _wrong_finish("latest-seat", "the next in the line takes the seat that is free first, not last.",
                      "min(free_after)", "max(free_after)"),
        _wrong_finish("shortest-first", "you sort the line: first come, first served.",
                      "for length in lengths:", "for length in sorted(lengths):"),
        _wrong_finish("in-order-of-end", "the list is in the order of the line, not in the order in which requests "
                      "end.",
                      "return finished", "return sorted(finished)"),
    ),
)

# ---- batching.loop

LOOP = '''\
from minipaged.errors import RequestError

class ContinuousBatch:
    def __init__(self, max_num_seqs):
        self.max_num_seqs = max_num_seqs
        self.waiting, self.running = [], []
        self.left = {}

    def add_request(self, name, num_tokens):
        if name in self.left:
            raise RequestError(f"{name} is in use")
        if num_tokens < 1:
            raise RequestError("nothing to generate")
        self.left[name] = num_tokens
        self.waiting.append(name)

    def abort(self, name):
        if name not in self.left:
            return False
        del self.left[name]
        (self.running if name in self.running else self.waiting).remove(name)
        return True

    def step(self):
        while self.waiting and len(self.running) < self.max_num_seqs:
            self.running.append(self.waiting.pop(0))
        finished = []
        for name in list(self.running):
            self.left[name] -= 1
            if self.left[name] == 0:
                finished.append(name)
                self.running.remove(name)
                del self.left[name]
        return finished
'''


def _loop_case(rng: random.Random) -> dict:
    calls = [[rng.choice(["step", "add", "step", "add", "abort"]), rng.choice("ABCDE"), rng.randint(0, 4)]
             for _ in range(rng.randint(1, 12))]
    return {"max_num_seqs": rng.randint(1, 3), "calls": calls}


def _drive_loop(trace: Trace, case: dict) -> None:
    batch = trace.new("batch", "ContinuousBatch", case["max_num_seqs"])
    for name, request, number in case["calls"]:
        if name == "step":
            batch.call("step")
        elif name == "add":
            batch.call("add_request", request, number)
        else:
            batch.call("abort", request)
        batch.get("running")
        batch.get("waiting")


def _wrong_loop(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(LOOP, *pairs))


LOOP_EXERCISE = Exercise(
    id="batching.loop",
    title="The loop of a server",
    chapter="07_continuous_batching",
    minutes=25,
    level="hard",
    goal="Write the loop that lets requests join, make a token, and leave, at every step.",
    interface=("ContinuousBatch(max_num_seqs)", "ContinuousBatch.add_request(name, num_tokens)",
               "ContinuousBatch.abort(name)", "ContinuousBatch.step()", "ContinuousBatch.running",
               "ContinuousBatch.waiting"),
    hints=("A step does two things. Which must come first, so that no seat is idle while somebody waits?",
           "Two lists of names and a dict of tokens that are left. step: fill the free seats from the front of "
           "waiting; then take one token from each running request; who has none left is finished and leaves both.",
           "while self.waiting and len(self.running) < self.max_num_seqs: move one. Then for name in "
           "list(self.running): left -= 1; at 0 remove it from running and from the dict, and note it. Return the "
           "notes."),
    rule="A step first gives free seats to those who wait, in their order, then makes one token for each running "
         "request. A "
         "request with its last token leaves in that step. A name is in use while its request waits or runs.",
    examples=({"max_num_seqs": 2, "calls": [["add", "A", 2], ["add", "B", 1], ["add", "C", 1], ["step", "A", 0],
                                            ["step", "A", 0], ["step", "A", 0]]},
              {"max_num_seqs": 1, "calls": [["add", "A", 2], ["add", "A", 1], ["step", "A", 0], ["abort", "A", 0],
                                            ["abort", "A", 0], ["add", "A", 1], ["step", "A", 0]]},
              {"max_num_seqs": 2, "calls": [["add", "A", 1], ["add", "B", 1], ["add", "C", 1], ["abort", "B", 0],
                                            ["step", "A", 0]]},
              {"max_num_seqs": 3, "calls": [["add", "A", 0], ["step", "A", 0]]}),
    case=_loop_case,
    drive=_drive_loop,
    reference=lambda: from_source(LOOP),
    misconceptions=(
        _wrong_loop("skips-next", "you take requests out of the list that you are walking over: the one behind is "
                                  "skipped and gets no token. Walk over a copy.",
                                  "for name in list(self.running)", "for name in self.running"),
        _wrong_loop("admits-when-empty", "you let people in only when all seats are free: that is static batching.",
                    "while self.waiting and len(self.running) < self.max_num_seqs:\n"
                    "            self.running.append(self.waiting.pop(0))",
                    "if not self.running:\n            self.running = self.waiting[:self.max_num_seqs]\n"
                    "            del self.waiting[:self.max_num_seqs]"),
        _wrong_loop("one-a-step", "you let in one request a step while more seats are free.",
                    "while self.waiting and", "if self.waiting and"),
        _wrong_loop("last-come", "you take the request that came last; the first in the line is next.",
                    "self.waiting.pop(0)", "self.waiting.pop()"),
        _wrong_loop("one-seat-more", "there is one request more than seats.", "len(self.running) < self.max_num_seqs",
                    "len(self.running) <= self.max_num_seqs"),
        _wrong_loop("stays-a-step", "a finished request leaves in the step of its last token, not one later.",
                    "            self.left[name] -= 1\n            if self.left[name] == 0:",
                    "            self.left[name] -= 1\n            if self.left[name] < 0:"),
        _wrong_loop("name-for-ever", "a name is in use only while its request lives; afterwards it may come again.",
                    "                self.running.remove(name)\n                del self.left[name]",
                    "                self.running.remove(name)"),
        _wrong_loop("abort-waits", "abort must also find a request that waits.",
                    "        if name not in self.left:", "        if name not in self.running:"),
        _wrong_loop("keeps-seat", "an aborted request keeps its place in the list: take it out of running and waiting.",
                    "        (self.running if name in self.running else self.waiting).remove(name)\n",
                    "        if name in self.waiting:\n            self.waiting.remove(name)\n"),
        _wrong_loop("twin", "a name that is in use must be refused: two requests would share one count.",
                    '        if name in self.left:\n            raise RequestError(f"{name} is in use")\n', ""),
        _wrong_loop("zero-tokens", "a request for no token would hold a seat for ever: refuse it.",
                    '        if num_tokens < 1:\n            raise RequestError("nothing to generate")\n', ""),
    ),
)

EXERCISES = (STATIC_EXERCISE, FINISH_EXERCISE, LOOP_EXERCISE)
