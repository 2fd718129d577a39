"""Lab of chapter 15: a test of the allocator that notices real bugs."""
from __future__ import annotations

from collections.abc import Callable

from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.plain import Said
from minipaged.lab.trace import Trace

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
    chapter="15_errata",
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
