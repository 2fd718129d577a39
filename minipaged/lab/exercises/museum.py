"""Lab of chapter 15: bugs that others had, tests that notice them, and numbers that others gave."""
from __future__ import annotations

import random
from collections.abc import Callable

from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.plain import Said
from minipaged.lab.trace import Trace

CHAPTER = "15_errata"

# ---- museum.claimed-unit

UNIT = '''\
def unit_of(num_bytes, claimed):
    digits = len(claimed.partition(".")[2])
    def fits(unit):
        return round(num_bytes / unit, digits) == float(claimed)
    if fits(10 ** 9) and fits(2 ** 30):
        return "both"
    return "GB" if fits(10 ** 9) else "GiB" if fits(2 ** 30) else "neither"
'''


def _unit_case(rng: random.Random) -> dict:
    """A number that somebody may have got from these bytes; never one that stands between two roundings."""
    digits, unit = rng.randint(0, 2), rng.choice([10 ** 9, 2 ** 30, 2 ** 20 * 1000, 10 ** 6 * 1024])
    num_bytes = rng.randint(1, 90_000) * 1_000_003
    return {"num_bytes": num_bytes, "claimed": f"{num_bytes / unit:.{digits}f}"}


def _drive_unit(trace: Trace, case: dict) -> None:
    trace.call("unit_of", case["num_bytes"], case["claimed"])


def _wrong_unit(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(UNIT, *pairs))


UNIT_EXERCISE = Exercise(
    id="museum.claimed-unit",
    title="57.3 of what?",
    chapter=CHAPTER,
    minutes=12,
    level="easy",
    goal="Say in which unit a number that somebody printed is right, if in any.",
    interface=("unit_of(num_bytes, claimed)",),
    hints=("80 GB and 80 GiB: which one is more, and by how many percent?",
           "A GB is 10^9 bytes, a GiB 2^30. Count the digits behind the point of the claimed number, round the bytes "
           "in each unit to as many digits, and compare.",
           "digits = len(claimed.partition(\".\")[2]); fits = round(num_bytes / unit, digits) == float(claimed), for "
           "10 ** 9 and for 2 ** 30; then four cases."),
    rule="1 GB is 10^9 bytes, 1 GiB is 2^30. A claim is right in a unit if the bytes in this unit, rounded to as many "
         "digits as the claim has, are the claimed number.",
    examples=({"num_bytes": 59_554_432_000, "claimed": "57.3"}, {"num_bytes": 33_554_432_000, "claimed": "31.25"},
              {"num_bytes": 819_200_000, "claimed": "0.78"}, {"num_bytes": 26_000_000_000, "claimed": "26"},
              {"num_bytes": 1_040_000_000, "claimed": "1"}),
    case=_unit_case,
    drive=_drive_unit,
    reference=lambda: from_source(UNIT),
    misconceptions=(
        Misconception("gib-only", "you test GiB only. Makers of disks, and many papers, count in powers of ten.",
                      'def unit_of(num_bytes, claimed):\n    digits = len(claimed.partition(".")[2])\n'
                      '    fits = round(num_bytes / 2 ** 30, digits) == float(claimed)\n'
                      '    return "GiB" if fits else "neither"\n'),
        Misconception("gb-only", "you test GB only. Who divides by 1024 three times gets GiB, and often writes GB.",
                      'def unit_of(num_bytes, claimed):\n    digits = len(claimed.partition(".")[2])\n'
                      '    fits = round(num_bytes / 10 ** 9, digits) == float(claimed)\n'
                      '    return "GB" if fits else "neither"\n'),
        _wrong_unit("units-swapped", "you have the two units the wrong way round: the i stands for binary, 2^30.",
                    'return "GB" if fits(10 ** 9) else "GiB" if fits(2 ** 30)',
                    'return "GiB" if fits(10 ** 9) else "GB" if fits(2 ** 30)'),
        _wrong_unit("no-both", "a number with few digits can be right in both units; you take the first that fits.",
                    "if fits(10 ** 9) and fits(2 ** 30):", "if False:"),
        _wrong_unit("exact", "you compare all digits. Somebody who writes 31.3 has rounded.",
                    "round(num_bytes / unit, digits) == float(claimed)", "num_bytes / unit == float(claimed)"),
        _wrong_unit("one-digit", "you always round to one digit; look how many the claim has.",
                    'digits = len(claimed.partition(".")[2])', "digits = 1"),
        _wrong_unit("cuts-off", "you cut the further digits off; numbers are rounded to the nearest.",
                    "round(num_bytes / unit, digits) == float(claimed)",
                    "int(num_bytes / unit * 10 ** digits) / 10 ** digits == float(claimed)"),
        _wrong_unit("nearest", "you name the nearer unit even where the number is right in neither. Such numbers "
                    "exist: GB and GiB were added, or 1000 and 1024 mixed.",
                    'return "GB" if fits(10 ** 9) else "GiB" if fits(2 ** 30) else "neither"',
                    'return min(("GB", 10 ** 9), ("GiB", 2 ** 30), key=lambda pair: abs(num_bytes / pair[1] - '
                    'float(claimed)))[0]'),
    ),
)

# ---- museum.name-it

#: the exhibits of this lab -> which bug each is
EXHIBITS = {7893: "no-copy-on-write", 9884: "key-without-parent", 2169: "victim-to-the-back"}
NAMES = f'''\
def diagnosis():
    return {EXHIBITS!r}
'''


def _drive_names(trace: Trace, case: dict) -> None:
    from minipaged import museum

    def view(answer: object) -> Said:
        if sorted(answer) != sorted(EXHIBITS):
            raise ValueError("other numbers")
        return Said(next((f"a name that is none: {name!r}" for name in answer.values() if name not in museum.names()),
                         f"names for {', '.join(map(str, EXHIBITS))}"))

    answer = trace.call("diagnosis", view=view)
    for code, right in EXHIBITS.items():
        name = answer.get(code) if isinstance(answer, dict) else None
        trace.result(f"exhibit {code}", "it is this bug" if name == right else f"{name} shows something else: "
                     f"{museum.piece(name).symptom}" if name in museum.names() else "no name")


def _wrong_names(code: int, name: str, message: str) -> Misconception:
    return Misconception(f"{code}-{name}", message, change(NAMES, EXHIBITS[code], name))


NAMES_EXERCISE = Exercise(
    id="museum.name-it",
    title="Three exhibits",
    chapter=CHAPTER,
    minutes=25,
    level="medium",
    goal="Find out from a wrong run which bug it has, and name it.",
    interface=("diagnosis()",),
    hints=("Go to the first event that differs. What should it have been, and which part of the engine decides it?",
           "7893: a block with two holders is written; which event is not there? 9884: two requests, the second block "
           "of both holds the same tokens; what stands before it? 2169: a victim comes back; who goes first?",
           'return {7893: "...", 9884: "...", 2169: "..."}, with names from museum.names("05"), museum.names("06") and '
           'museum.names("09"); museum.piece(name).rule says what a bug breaks.'),
    rule="A bug is named by the first thing that goes wrong, not by what follows from it. Each exhibit has one name.",
    examples=({},),
    case=lambda rng: {},
    drive=_drive_names,
    reference=lambda: from_source(NAMES),
    misconceptions=(
        _wrong_names(7893, "copy-is-planned-and-not-made", "a copy that is planned shows as an event and a new block "
                     "in the table. In 7893 there is none: nobody thinks of copying."),
        _wrong_names(7893, "old-block-keeps-its-count", "there the writer does have a copy, and a count is too high. "
                     "In 7893 both go on writing into one block."),
        _wrong_names(7893, "fork-counts-nobody", "there the count is wrong from the fork on. In 7893 it is 2, as it "
                     "should be, and the write does not look at it."),
        _wrong_names(9884, "weak-hash-is-trusted", "there two different blocks have the same hash by chance. In 9884 "
                     "the tokens of the block are the same; what stood before them is not."),
        _wrong_names(9884, "key-outlives-its-block", "there the block was given away and overwritten. In 9884 it still "
                     "holds what its key says, but it was computed after another text."),
        _wrong_names(9884, "salt-is-ignored", "no request of 9884 has a salt. Look at the parent of the key."),
        _wrong_names(2169, "victim-vanishes", "in 2169 the victim does come back, only too late."),
        _wrong_names(2169, "oldest-gives-way", "in 2169 the right one is preempted. What is wrong is its place in the "
                     "queue afterwards."),
    ),
    trials=1,
)

# ---- museum.write-a-test

BUGS = ("double-free-in-silence", "unknown-block-in-silence", "block-freed-as-often-as-listed", "new-block-counts-zero",
        "freed-head-first", "takes-what-there-is", "hit-stays-in-the-free-queue")
TEST = '''\
def my_test():
    return [
        ["take", "a", "b"],
        ["ref_count", "a", 1],
        ["take_fails", 3],
        ["free_count", 2],
        ["free", "a", "a"],
        ["free_count", 3],
        ["free_fails", "a"],
        ["free_fails", "nobody"],
        ["found", "a"],
        ["free_count", 2],
        ["free", "a", "b"],
        ["next", "b"],
    ]
'''
POOL = 4


def _check(is_so: bool, what: str) -> None:
    if not is_so:
        raise AssertionError(what)


def _fails(kind: type[Exception], call: Callable, *arguments: object) -> None:
    try:
        call(*arguments)
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")


def played(rows: list) -> Callable:
    """The rows of a learner's test as a test of the museum: a function of `lib`."""
    def test(lib: object) -> None:
        pool = lib.BlockAllocator(POOL, 4)
        blocks = {"nobody": 99}
        for row in rows:
            what, *names = row
            if what == "take":
                blocks.update(zip(names, pool.allocate_many(len(names))))
            elif what == "take_fails":
                _fails(OutOfBlocks, pool.allocate_many, *names)
            elif what == "free":
                pool.free_many([blocks[name] for name in names])
            elif what == "free_fails":
                _fails(BlockError, pool.free, blocks[names[0]])
            elif what == "share":
                pool.increment_ref(blocks[names[0]])
            elif what == "found":
                pool.touch(blocks[names[0]])
            elif what == "free_count":
                _check(pool.free_count == names[0], f"{pool.free_count} blocks are free, not {names[0]}")
            elif what == "ref_count":
                count = pool.ref_count[blocks[names[0]]]
                _check(count == names[1], f"block {names[0]} has {count} holder(s), not {names[1]}")
            elif what == "next":
                _check(pool.allocate() == blocks[names[0]], f"the next block is not {names[0]}")
            else:
                raise ValueError(f"there is no call {what!r}")
    return test


def _drive_test(trace: Trace, case: dict) -> None:
    from minipaged import museum

    def view(rows: object) -> Said:
        if type(rows) is not list or not all(type(row) is list and row for row in rows):
            raise TypeError("no list of calls")
        kills = museum.kills(played(rows), list(BUGS))
        if kills.trouble:
            return Said(kills.trouble)
        lives = "".join(f"; not: {museum.piece(name).title}" for name in kills.survived)
        return Said(f"a test that is right about our engine and notices {len(kills.killed)} of {len(BUGS)} bugs{lives}")

    trace.call("my_test", view=view)


def _wrong_test(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(TEST, *pairs))


TEST_EXERCISE = Exercise(
    id="museum.write-a-test",
    title="A test that seven bugs cannot pass",
    chapter=CHAPTER,
    minutes=30,
    level="hard",
    goal="Write a test of the allocator that passes with the right one and fails with each of seven real bugs.",
    interface=("my_test()",),
    hints=("For each of the seven bugs: which single number, or which error, would differ?",
           "Counts after an error tell whether the error changed anything. A block that is named twice, freed twice or "
           "not known is a case of its own. The order in which blocks come back is seen by taking one.",
           "Take two blocks and look at a ref_count. take_fails with one more than there are, then free_count. free "
           "one block named twice, then free_count; free_fails on it, and on \"nobody\". found on a free block, then "
           "free_count. free two, and next is the second."),
    rule="A good test passes where nothing is wrong and fails where something is. It looks at what can be seen: "
         "counts, errors, and which block comes next.",
    examples=({},),
    case=lambda rng: {},
    drive=_drive_test,
    reference=lambda: from_source(TEST),
    misconceptions=(
        _wrong_test("no-errors", "your test frees only what may be freed. An allocator that is silent about a second "
                    "free will one day free somebody else's block.",
                    '        ["free_fails", "a"],\n        ["free_fails", "nobody"],\n', ""),
        _wrong_test("no-unknown", "your test never frees a block that does not exist: the name \"nobody\" is there for "
                    "that.", '        ["free_fails", "nobody"],\n', ""),
        _wrong_test("no-twice", "no release of yours names a block twice, as a table with a sliding window does.",
                    '["free", "a", "a"]', '["free", "a"]'),
        _wrong_test("no-refusal", "you do not ask for more than there is. A refusal must change nothing; look at the "
                    "count after it.", '        ["take_fails", 3],\n', ""),
        _wrong_test("no-hit", "your test has no prefix hit: `found` on a free block takes it out of the free queue.",
                    '        ["found", "a"],\n        ["free_count", 2],\n        ["free", "a", "b"],\n',
                    '        ["take", "a"],\n        ["free", "a", "b"],\n'),
        _wrong_test("no-order", "your test does not look at the order in which blocks come back: tail first, so that "
                    "the start of a prompt stays longest.", '        ["next", "b"],\n', ""),
        _wrong_test("wrong-order", "your test expects the head of a request to be used again first. The tail is: "
                    "others are most likely to share the start.", '["next", "b"]', '["next", "a"]'),
        _wrong_test("twice-counts-twice", "your test expects a block that is named twice to give two free blocks. It "
                    "is one block.", '["free_count", 3]', '["free_count", 4]'),
        _wrong_test("partial-refusal", "your test expects a refused request to keep what it could get.",
                    '["free_count", 2],\n        ["free", "a", "a"]', '["free_count", 0],\n        ["free", "a", "a"]'),
    ),
    trials=1,
    seconds=10.0,
)

EXERCISES = (UNIT_EXERCISE, NAMES_EXERCISE, TEST_EXERCISE)
