"""Lab of chapter 09: which running request gives up its blocks."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

VICTIM = '''\
def choose_victim(running, rule):
    rows = list(enumerate(running))
    if rule == "newest":
        best = rows[-1]
    elif rule == "most_generated":
        best = max(rows, key=lambda row: (row[1]["generated"], row[0]))
    else:
        best = max(rows, key=lambda row: (row[1]["priority"], row[0]))
    return best[1]["name"]
'''


def _victim_case(rng: random.Random) -> dict:
    names = list("ABCD")[:rng.randint(1, 4)]
    rng.shuffle(names)
    return {"running": [{"name": name, "generated": rng.randint(0, 3), "priority": rng.randint(0, 2)}
                        for name in names],
            "rule": rng.choice(["newest", "most_generated", "lowest_priority"])}


def _drive_victim(trace: Trace, case: dict) -> None:
    trace.call("choose_victim", case["running"], case["rule"])


def _wrong_victim(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(VICTIM, *pairs))


def _row(name: str, generated: int, priority: int) -> dict:
    return {"name": name, "generated": generated, "priority": priority}


VICTIM_EXERCISE = Exercise(
    id="preemption.victim",
    title="Who has to go?",
    chapter="09_preemption",
    minutes=10,
    level="easy",
    goal="Choose the running request that gives up its blocks, by three rules.",
    interface=("choose_victim(running, rule)",),
    hints=("Who got its seat last? Where does it stand in the list?",
           "newest: the last of the list. The other two: the largest number wins, and of equals the one that stands "
           "further back. Mind what a large priority number means.",
           "Number the rows with enumerate and take max(..., key=lambda row: (row[1][\"generated\"], row[0])), or with "
           "\"priority\"; return the name."),
    rule="newest: the request that got its seat last. most_generated: the one with the most generated tokens. "
         "lowest_priority: the one with the largest number, since 0 is the most important. Of equals the newer one "
         "goes.",
    examples=({"running": [_row("A", 9, 0), _row("B", 4, 2), _row("C", 1, 1)], "rule": "newest"},
              {"running": [_row("A", 9, 0), _row("B", 4, 2), _row("C", 1, 1)], "rule": "most_generated"},
              {"running": [_row("A", 9, 0), _row("B", 4, 2), _row("C", 1, 1)], "rule": "lowest_priority"},
              {"running": [_row("A", 3, 1), _row("B", 3, 1), _row("C", 2, 0)], "rule": "most_generated"}),
    case=_victim_case,
    drive=_drive_victim,
    reference=lambda: from_source(VICTIM),
    misconceptions=(
        _wrong_victim("oldest", "you take the request that has been there longest. The newest has most often computed "
                                "the least.", "rows[-1]", "rows[0]"),
        _wrong_victim("older-of-equals", "of two equals you take the older one; the newer one goes.",
                      'row[1]["generated"], row[0])', 'row[1]["generated"], -row[0])',
                      'row[1]["priority"], row[0])', 'row[1]["priority"], -row[0])'),
        _wrong_victim("large-is-important", "you take the smallest priority number. 0 is the most important request: "
                                            "the largest number goes.",
                                            'row[1]["priority"], row[0])', '-row[1]["priority"], row[0])'),
        _wrong_victim("least-generated", "you take the one with the fewest tokens; this rule wants the one with the "
                                         "most.",
                      'row[1]["generated"], row[0])', '-row[1]["generated"], row[0])'),
        _wrong_victim("always-newest", "you ignore the rule and always take the newest.",
                      'rule == "newest"', 'rule'),
        _wrong_victim("by-name", "you go by the names; names say nothing about the order of seats.",
                      "best = rows[-1]", "best = max(rows, key=lambda row: row[1]['name'])"),
        _wrong_victim("whole-row", "you return the whole row; return its name.", 'best[1]["name"]', "best[1]"),
        _wrong_victim("place", "you return the place in the list; return the name.", 'best[1]["name"]', "best[0]"),
    ),
)
