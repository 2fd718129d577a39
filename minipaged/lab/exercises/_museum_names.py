"""Lab of chapter 15: name the bug that a wrong run has."""
from __future__ import annotations

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.plain import Said
from minipaged.lab.trace import Trace

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
    chapter="15_errata",
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
