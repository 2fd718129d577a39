"""Lab of chapter 08: turns of a few steps."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.core.policy import RoundRobin
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

TURNS = '''\
class RoundRobin:
    def __init__(self, seats, quantum):
        self.seats, self.quantum = seats, quantum
        self.waiting, self.running = [], []

    def add(self, name):
        self.waiting.append(name)

    def finish(self, name):
        self.running = [pair for pair in self.running if pair[0] != name]

    def step(self):
        over = max(0, len(self.waiting) - (self.seats - len(self.running)))
        expired = [pair for pair in self.running if pair[1] >= self.quantum][:over]
        for pair in expired:
            self.running.remove(pair)
            self.waiting.append(pair[0])
        while self.waiting and len(self.running) < self.seats:
            self.running.append([self.waiting.pop(0), 0])
        for pair in self.running:
            pair[1] += 1
        return [name for name, _ in self.running]
'''


class _Turns:
    """The policy of core, with its queue."""

    def __init__(self, seats: int, quantum: int) -> None:
        self._policy, self._seats = RoundRobin(quantum), seats
        self._waiting: list[SimpleNamespace] = []
        self._running: list[SimpleNamespace] = []

    def add(self, name: str) -> None:
        self._waiting.append(SimpleNamespace(name=name, steps_in_seat=0))

    def finish(self, name: str) -> None:
        self._running = [one for one in self._running if one.name != name]

    def step(self) -> list[str]:
        free = self._seats - len(self._running)
        for one in self._policy.rotate(self._running, len(self._waiting), free):
            self._running.remove(one)
            self._waiting.append(one)
        while self._waiting and len(self._running) < self._seats:
            self._running.append(self._waiting.pop(0))
            self._running[-1].steps_in_seat = 0
        for one in self._running:
            one.steps_in_seat += 1
        return [one.name for one in self._running]


def _case(rng: random.Random) -> dict:
    return {"seats": rng.randint(1, 3), "quantum": rng.randint(1, 3),
            "calls": ["add"] + [rng.choice(["step", "step", "add", "finish"]) for _ in range(rng.randint(1, 11))]}


def _drive(trace: Trace, case: dict) -> None:
    turns, names, running = trace.new("turns", "RoundRobin", case["seats"], case["quantum"]), iter("ABCDEFGHIJKL"), []
    for name in case["calls"]:
        if name == "add":
            turns.call("add", next(names))
        elif name == "finish" and running:
            turns.call("finish", running.pop(0))
        else:
            ran = turns.call("step")
            running = list(ran) if isinstance(ran, (list, tuple)) else []


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(TURNS, *pairs))


TURNS_EXERCISE = Exercise(
    id="scheduling.round-robin",
    title="Everybody in turn",
    chapter="08_scheduling",
    minutes=20,
    level="medium",
    goal="Give each request a seat for a few steps, and then to the next in line, without a seat that stands empty.",
    interface=("RoundRobin(seats, quantum)", "RoundRobin.add(name)", "RoundRobin.finish(name)", "RoundRobin.step()"),
    hints=("A has used up its turn, but nobody waits. Should it get up?",
           "Keep the waiting names and, for each running one, its steps in the seat. At the start of a step count how "
           "many waiting ones have no free seat; so many expired ones get up, the oldest seat first, and go to the end "
           "of the line. Then fill the seats from the front of the line, and count the step.",
           "over = max(0, len(waiting) - (seats - len(running))); expired = [pair for pair in running if pair[1] >= "
           "quantum][:over]; move each to the end of waiting; while waiting and a seat is free: "
           "running.append([waiting.pop(0), 0]); then add 1 to each count and return the names."),
    rule="A request that has sat for `quantum` steps gives its seat to a waiting one, oldest seat first, but only as "
         "many as wait without a free seat. It goes to the end of the line; whoever takes a seat starts a new turn.",
    examples=({"seats": 2, "quantum": 2, "calls": ["add", "add", "add", "step", "step", "step", "step", "step"]},
              {"seats": 1, "quantum": 1, "calls": ["add", "step", "step", "add", "step", "step"]},
              {"seats": 2, "quantum": 1, "calls": ["add", "add", "step", "finish", "add", "step", "add", "step"]}),
    case=_case,
    drive=_drive,
    reference=lambda: SimpleNamespace(RoundRobin=_Turns),
    misconceptions=(
        _wrong("first-come", "nobody ever gives up a seat: that is first come, first served, whatever it is called. "
               "The third request waits for the end of another.", "pair[1] >= self.quantum", "False"),
        _wrong("gets-up-for-nobody", "a request gets up although nobody waits, or though a seat is free for the one "
               "who does. Only as many get up as are needed.", "self.quantum][:over]", "self.quantum]"),
        _wrong("one-step-more", "a turn of `quantum` steps is over after `quantum` steps, not one later.",
               "pair[1] >= self.quantum", "pair[1] > self.quantum"),
        _wrong("front-of-the-line", "who gets up goes to the front, and comes straight back: the others wait for ever. "
               "It goes to the end.", "self.waiting.append(pair[0])", "self.waiting.insert(0, pair[0])"),
        _wrong("old-turn", "who comes back goes on with its old count, and its turn is over at once. A new seat is a "
               "new turn.", "self.waiting, self.running = [], []",
               "self.waiting, self.running, self.used = [], [], {}", "self.waiting.append(pair[0])",
               "self.waiting.append(pair[0]); self.used[pair[0]] = pair[1]",
               "[self.waiting.pop(0), 0]", "[self.waiting[0], self.used.get(self.waiting.pop(0), 0)]"),
        _wrong("all-at-once", "you change all seats when the first turn is over; the others have steps left.",
               "[pair for pair in self.running if pair[1] >= self.quantum]",
               "[pair for pair in self.running if any(p[1] >= self.quantum for p in self.running)]"),
        _wrong("newest-gets-up", "of several whose turn is over, the one that has had its seat longest gets up first.",
               "self.quantum][:over]", "self.quantum][::-1][:over]"),
        _wrong("fills-later", "a seat that became free stays empty in this step. Rotate first, then fill the seats, "
               "then run.", "            self.waiting.append(pair[0])\n        while",
               "            self.waiting.append(pair[0])\n        while not expired and"),
        _wrong("joins-at-once", "a new request takes a free seat before the next step, and one that got up must wait "
               "for its end: fill all seats, in every step.", "while self.waiting and", "if self.waiting and"),
    ),
)
