"""What a visitor sees: the run with a bug beside the run without it, and no label ("find it, name it").

    exhibit(4711)          a number that says nothing of the bug; exhibit("no-copy-on-write") is the same by name
    _.answer("b")          right or wrong, and the rule
"""
from __future__ import annotations

from zlib import crc32

from minipaged.museum.bug import Piece
from minipaged.museum.stage import Run

LETTERS = "abcd"


def code(piece: Piece) -> int:
    """The number under which a piece is shown: it never changes and does not give the bug away."""
    return crc32(piece.name.encode()) % 9000 + 1000


class Exhibit:
    """A piece without its name. `symptom`, `right`, `wrong` are what one sees; `choices` are four titles."""

    def __init__(self, piece: Piece, others: tuple[Piece, ...]) -> None:
        self._piece = piece
        self.symptom = piece.symptom
        self.right, self.wrong = piece.right(), piece.wrong()
        near = [one for one in others if one.chapter == piece.chapter and one is not piece]
        far = [one for one in others if one.chapter != piece.chapter]
        decoys = [*sorted(near, key=code), *sorted(far, key=code)][:len(LETTERS) - 1]
        titles = [one.title for one in (piece, *decoys)]
        self.choices = dict(zip(LETTERS, sorted(titles, key=lambda title: crc32(title.encode()))))

    def film(self):
        """Both runs side by side. Errors: ValueError where there are no events to show."""
        return film_of(self.right, self.wrong, f"Exhibit {code(self._piece)}")

    def answer(self, choice: str) -> str:
        """A letter or a title: is it this one? Says the rule when it is."""
        title = self.choices.get(str(choice).strip().lower(), choice)
        if title not in self.choices.values():
            raise ValueError(f"answer is {choice!r}; say one of {', '.join(self.choices)}")
        if title != self._piece.title:
            return f"No, it is not: {title}. Look at the first event that differs."
        return f"Yes. {title}. The rule: {self._piece.rule} Found in the wild: {self._piece.reference}."

    def __repr__(self) -> str:
        lines = [f"Exhibit {code(self._piece)}. {self.symptom}", "", *compared(self.right, self.wrong), "",
                 "Which bug is it?", *(f"  {letter}  {title}" for letter, title in self.choices.items())]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        if first_difference(self.right, self.wrong) is None:  # no events, or the same: nothing to film
            return {"text/plain": repr(self)}, {}
        data, metadata = self.film()._repr_mimebundle_()
        return {**data, "text/plain": repr(self)}, metadata


def compared(right: Run, wrong: Run) -> list[str]:
    """Two runs in lines: what differs in tokens and numbers, the first event that differs, what the judges say."""
    rows = [(f"{name} says", right.tokens[name], wrong.tokens.get(name)) for name in right.tokens]
    rows += [(what, right.facts[what], wrong.facts.get(what)) for what in right.facts]
    rows = [row for row in rows if row[1] != row[2]]
    lines = []
    for what, one, other in rows:
        lines += [f"{what}:", f"  right          {one}", f"  with the bug   {other}"]
    difference = first_difference(right, wrong)
    if difference is not None:
        lines += ["The first event that differs:", f"  right          {difference[0]}",
                  f"  with the bug   {difference[1]}"]
    for fault in wrong.faults:
        when = "before the first step" if fault.step < 0 else f"in step {fault.step}"
        lines += [f"Noticed {when} by {fault.judge}:", f"  {fault.text}"]
    return lines


def first_difference(right: Run, wrong: Run) -> tuple[str, str] | None:
    """The first events that are not the same, as text; None without a log or a difference."""
    from minipaged.viz import first_difference as differ

    if right.events is None or wrong.events is None:
        return None
    found = differ(right.events, wrong.events)
    if found is None:
        return None
    return tuple("the run is over" if event is None else " ".join(str(event).split()) for event in found)


def film_of(right: Run, wrong: Run, title: str):
    """A film of both runs that opens where they part. Errors: ValueError for a run without a log."""
    from minipaged.viz import Film
    from minipaged.viz import first_difference as differ

    if right.events is None:
        raise ValueError("this piece is a formula or a kernel: it has numbers to compare, and no events to film")
    found = differ(right.events, wrong.events)
    start = 0 if found is None else found.left.time if found.left is not None else len(right.events) - 1
    return Film(right.events, compare=wrong.events, labels=("right", "with the bug"), title=title, start=start)
