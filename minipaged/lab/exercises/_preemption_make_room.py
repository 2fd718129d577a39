"""Lab of chapter 09: how many have to go until there is room."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

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
    hints=("The newest request itself asks for a block, and none is free. Who has to go?",
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
