"""Memory at the first wrong step, as it should be and as it is, side by side (all labs).

Drawn from the events that the exercise's drive gave for each call, by the replay that draws the films; a table in
words for the terminal and for readers who do not see pictures.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from minipaged.core.events import Event
from minipaged.lab.exercise import Exercise
from minipaged.lab.plain import Said
from minipaged.lab.search import Failure
from minipaged.lab.trace import Step
from minipaged.viz.replay import Replay, replay

if TYPE_CHECKING:
    from minipaged.viz.show import Picture

MAX_BLOCKS = 32


def logs(failure: Failure) -> tuple[list[Event], list[Event]]:
    """The events of a right answer and of this one; their steps are the calls.

    Where there is one right answer these are the whole runs. Where there are several, the two may hold different
    blocks and both be right: then the right one starts from this one's memory, and goes on by one call.
    """
    own, right = failure.seen or failure.steps, failure.expected
    if not any(isinstance(step.outcome.value, Said) for step in right):
        return _events(right), _events(own)
    at = max(len(failure.steps) - 1, _first_fault(own))
    before = _events(own[:at])
    following = [_fitting(event, before) for event in _events(right[:at + 1]) if event.step == at]
    return [*before, *(Event(len(before) + index, event.step, event.kind, event.data)
                       for index, event in enumerate(following))], _events(own[:at + 1])


def _first_fault(steps: Sequence[Step]) -> int:
    """The step whose events can't follow from those before, as when a block is handed out twice; -1 for none."""
    state = Replay()
    for event in _events(steps):
        try:
            state.see(event)
        except (LookupError, TypeError, AttributeError):
            return -1
        if state.faults:
            return event.step
    return -1


def _fitting(event: Event, before: list[Event]) -> Event:
    """An allocation of a block that is not free in this memory takes the first that is."""
    free = replay(before, strict=False).free_blocks()
    if event.kind != "allocate" or event.block in free or not free:
        return event
    return replace(event, data={**event.data, "block": free[0]})


def _events(steps: Sequence[Step]) -> list[Event]:
    found: list[Event] = []
    for number, step in enumerate(steps):
        for kind, data in step.events:
            found.append(Event(len(found), number, kind, data))
    return found


def states(failure: Failure) -> tuple[Replay, Replay] | None:
    """Both memories where they first look different; None where they never do, or where the events of this exercise
    show nothing that can be drawn."""
    expected, own = logs(failure)
    try:
        right, wrong = _Film(expected), _Film(own)
        for _ in range(max(len(expected), len(own))):
            right.forward()
            wrong.forward()
            if _rows(right.state) != _rows(wrong.state) or wrong.state.faults:
                is_small = 0 < right.state.num_blocks <= MAX_BLOCKS
                return (right.state, wrong.state) if is_small and not right.state.faults else None
    except (LookupError, TypeError, AttributeError):  # an answer that is no block number
        return None
    return None


class _Film:
    """A replay, one event at a time."""

    def __init__(self, events: list[Event]) -> None:
        self.state, self._left = Replay(), iter(events)

    def forward(self) -> None:
        event = next(self._left, None)
        if event is not None:
            self.state.see(event)


def as_text(failure: Failure) -> str:
    """A table of the blocks; empty where there is nothing to show."""
    pair = states(failure)
    if pair is None:
        return ""
    wanted, own = map(_rows, pair)
    width = max(len("expected"), *map(len, wanted))
    lines = [f"     block  {'expected':<{width}}  yours"]
    lines += [f"   {'>' if a != b else ' '} P{block:<5} {a:<{width}}  {b}"
              for block, (a, b) in enumerate(zip(wanted, own))]
    lines += [f"     In yours: {text}." for _, text in pair[1].faults[:2]]
    return "\n".join(lines)


def _rows(state: Replay) -> list[str]:
    rows = []
    for block in range(state.num_blocks):
        holders = state.holders[block]
        count = state.ref_count[block]
        if not holders:
            rows.append("free, still cached" if state.is_cached(block) else "free")
        else:
            rows.append(", ".join(holders) + (f" (count {count})" if count != len(holders) or count > 1 else ""))
    return rows


def picture(exercise: Exercise, failure: Failure) -> Picture | None:
    """Two maps of the pool; blocks that differ have a thick frame and an exclamation mark."""
    pair = states(failure)
    if pair is None:
        return None
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from minipaged.viz.show import Picture
    from minipaged.viz.style import RC, WIDTH

    rows = [_rows(state) for state in pair]
    columns = 4 if len(rows[0]) <= 16 else 8
    height = -(-len(rows[0]) // columns)
    names = list(dict.fromkeys(name for state in pair for holders in state.holders for name in holders))
    with rc_context(RC):
        figure = Figure(figsize=(WIDTH, 0.75 * height + 0.7), layout="constrained")
        for axes, state, title in zip(figure.subplots(1, 2), pair, ("expected", "yours")):
            _draw(axes, state, [a != b for a, b in zip(*rows)], names, columns, height)
            axes.set_title(title)
    differing = [f"P{block}: {a} expected, {b} in yours" for block, (a, b) in enumerate(zip(*rows)) if a != b]
    faults = [text for _, text in pair[1].faults[:1]]
    alt = (f"Two maps of a pool with num_blocks = {pair[0].num_blocks}, a right answer's and yours, where they first "
           f"differ. {'; '.join(differing + faults)}.")
    return Picture(figure, alt, {"expected": rows[0], "yours": rows[1]})


def _draw(axes, state: Replay, differs: Sequence[bool], names: Sequence[str], columns: int, height: int) -> None:
    from matplotlib.patches import Rectangle

    from minipaged.viz.style import COLOURS, HATCHES, INK, MUTED, PALE, PAPER, VERMILION

    axes.set(xlim=(-0.05, columns + 0.05), ylim=(height + 0.05, -0.05), aspect="equal")
    axes.axis("off")
    for block, holders in enumerate(state.holders):
        y, x = divmod(block, columns)
        for index, name in enumerate(holders or [None]):
            number = names.index(name) if name is not None else 0
            width = 0.9 / max(len(holders), 1)
            axes.add_patch(Rectangle((x + 0.05 + index * width, y + 0.05), width, 0.9, edgecolor=MUTED, linewidth=0.8,
                                     facecolor=(PALE if state.is_cached(block) else PAPER) if name is None
                                     else COLOURS[number % len(COLOURS)],
                                     hatch=None if name is None else HATCHES[number % len(HATCHES)]))
        if differs[block]:
            axes.add_patch(Rectangle((x + 0.03, y + 0.03), 0.94, 0.94, fill=False, edgecolor=VERMILION, linewidth=3))
        label = f"P{block}{' !' if differs[block] else ''}\n{', '.join(holders) or 'free'}"
        axes.text(x + 0.5, y + 0.5, label, ha="center", va="center", fontsize=9, color=INK,
                  bbox={"boxstyle": "round,pad=0.2", "facecolor": PAPER, "edgecolor": "none"})


def show_failure(exercise: Exercise, failure: Failure) -> None:
    """In a notebook both films on one clock, opened where they part, with the two maps as the still; elsewhere the
    table."""
    from IPython.core.interactiveshell import InteractiveShell

    drawn = picture(exercise, failure) if InteractiveShell.initialized() else None
    if drawn is None:
        if text := as_text(failure):
            print(text)
        return
    from IPython.display import display

    bundle, metadata = drawn._repr_mimebundle_()
    display({**bundle, **_player(exercise, failure, bundle)}, raw=True, metadata=metadata)


def _player(exercise: Exercise, failure: Failure, bundle: dict) -> dict:
    """The player of both films, with the picture of `bundle` for who can't play it; nothing where there is none."""
    from minipaged.viz.film import Film, first_difference

    expected, own = logs(failure)
    parting = first_difference(expected, own)
    start = min(event.time for event in parting if event is not None) if parting else len(own) - 1
    try:
        film = Film(expected, compare=own, title=exercise.title, labels=("expected", "yours"), start=start)
    except (ValueError, TypeError, LookupError):  # events that no film can hold
        return {}
    return {"text/html": film.output(bundle["image/png"], bundle["text/plain"])}
