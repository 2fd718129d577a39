"""Lab of chapter 05: beams of a search that split and die, and the blocks they hold."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

BEAMS = '''\
def next_beams(tables, parents):
    new = [list(tables[parent]) for parent in parents]
    counts = {}
    for table in new:
        for block in table:
            counts[block] = counts.get(block, 0) + 1
    freed = sorted({block for table in tables for block in table} - set(counts))
    return new, counts, freed
'''


def _beams_case(rng: random.Random) -> dict:
    width = rng.randint(1, 3)
    shared = rng.randint(0, 2)
    tables = [list(range(shared)) + [10 + 3 * beam + place for place in range(rng.randint(0, 2))]
              for beam in range(width)]
    return {"tables": tables, "parents": [rng.randint(0, width - 1) for _ in range(rng.randint(0, 3))]}


def _drive_beams(trace: Trace, case: dict) -> None:
    trace.call("next_beams", case["tables"], case["parents"], own=True)


def _wrong_beams(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(BEAMS, *pairs))


BEAMS_EXERCISE = Exercise(
    id="sharing.beams",
    title="Beams that split and die",
    chapter="05_copy_on_write",
    minutes=15,
    level="hard",
    goal="Keep the tables of a beam search: a beam may go on several times or not at all, and no block is copied for "
         "it.",
    interface=("next_beams(tables, parents)",),
    hints=("Beam 0 goes on twice and beam 1 not at all. How many tables hold beam 0's blocks afterwards?",
           "The new tables are copies of the parents' lists. A block's count is the number of new tables that hold it. "
           "Old blocks with no new holder are free.",
           "new = [list(tables[parent]) for parent in parents]; count the blocks of all new tables in a dict; freed = "
           "sorted(the set of all old blocks - the set of counted ones)."),
    rule="Each new beam holds its parent's blocks, in a list of its own. A block's count is the number of new tables "
         "that hold it. A block that no new table holds is freed; one that any holds is not.",
    examples=({"tables": [[0, 1], [0, 2]], "parents": [0, 0]},
              {"tables": [[0, 1], [0, 2]], "parents": [1, 0]},
              {"tables": [[0, 1], [0, 2], [0, 3]], "parents": [2]},
              {"tables": [[0, 1]], "parents": []}),
    case=_beams_case,
    drive=_drive_beams,
    reference=lambda: from_source(BEAMS),
    misconceptions=(
        _wrong_beams("same-list", "two beams with one parent get one and the same list, or the parent's own: when one "
                     "beam takes a new block, the other one has it too. Give each a copy.", "list(tables[parent])",
                     "tables[parent]"),
        _wrong_beams("order-lost", "the new beams come in the order of `parents`: the first new beam goes on from "
                                   "parents[0].",
                     "for parent in parents]", "for parent in sorted(parents)]"),
        _wrong_beams("each-once", "a beam that goes on twice becomes two beams.", "for parent in parents]",
                     "for parent in dict.fromkeys(parents)]"),
        _wrong_beams("frees-shared", "you free all blocks of a beam that dies; those that another beam holds must "
                     "stay.",
                     "freed = sorted({block for table in tables for block in table} - set(counts))",
                     "freed = sorted({block for beam, table in enumerate(tables) if beam not in parents\n"
                     "                    for block in table})"),
        _wrong_beams("frees-nothing", "the blocks of a beam that dies are never freed: memory leaks at every step.",
                     "freed = sorted({block for table in tables for block in table} - set(counts))", "freed = []"),
        _wrong_beams("old-counts", "you count the old tables; what counts is who holds a block afterwards.",
                     "    for table in new:", "    for table in tables:"),
        _wrong_beams("adds-up", "you add the new holders to the old ones; the old tables are gone.",
                     "counts = {}\n", "counts = {}\n    for table in tables:\n        for block in table:\n"
                     "            counts[block] = counts.get(block, 0) + 1\n"),
        _wrong_beams("counts-one", "a block with several holders has a count above 1.",
                     "counts[block] = counts.get(block, 0) + 1", "counts[block] = 1"),
        _wrong_beams("freed-twice", "a block that two old beams held is freed once.",
                     "sorted({block for table in tables for block in table} - set(counts))",
                     "sorted(block for table in tables for block in table if block not in counts)"),
    ),
)
