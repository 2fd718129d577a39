"""Lab of chapter 07: the loop of a server, which lets requests join and leave at every step."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

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
