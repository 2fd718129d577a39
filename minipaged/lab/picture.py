"""Memory at the first wrong step, as it should be and as it is, side by side (all labs).

Drawn from the events that the exercise's drive gave for each call, by the replay that draws the films; a table in
words for the terminal and for readers who do not see pictures.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minipaged.core.events import Event
from minipaged.lab.exercise import Exercise
from minipaged.lab.search import Failure
from minipaged.lab.trace import Step
from minipaged.viz.replay import Replay, ReplayError, replay

if TYPE_CHECKING:
    from minipaged.viz.show import Picture

MAX_BLOCKS = 32


def logs(failure: Failure) -> tuple[list[Event], list[Event]]:
    """The events of a right answer and of this one, both up to the first wrong step; their steps are the calls.

    Until then both did the same, if perhaps with other blocks: so the right one goes on from this one's memory.
    """
    count = len(failure.steps)
    own = failure.seen or failure.steps
    return _events([*own[:-1], *failure.expected[count - 1:count]]), _events(own)


def _events(steps: Sequence[Step]) -> list[Event]:
    found: list[Event] = []
    for number, step in enumerate(steps):
        for kind, data in step.events:
            found.append(Event(len(found), number, kind, data))
    return found


def states(failure: Failure) -> tuple[Replay, Replay] | None:
    """Both memories; None where the events of this exercise show none, or nothing that can be drawn."""
    expected, own = logs(failure)
    try:
        pair = replay(expected, strict=False), replay(own, strict=False)
    except (ReplayError, LookupError, TypeError, AttributeError):  # an answer that is no block number
        return None
    return pair if 0 < pair[0].num_blocks <= MAX_BLOCKS and not pair[0].faults else None


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
            axes.set_title(f"{title}, after call {len(failure.steps)}")
    differing = [f"P{block}: {a} expected, {b} in yours" for block, (a, b) in enumerate(zip(*rows)) if a != b]
    faults = [text for _, text in pair[1].faults[:1]]
    alt = (f"Two maps of a pool of {pair[0].num_blocks} after call {len(failure.steps)}, a right answer's and yours. "
           + ("; ".join(differing + faults) or "The blocks are held alike in both") + ".")
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
    """In a notebook the picture; elsewhere the table."""
    from IPython.core.interactiveshell import InteractiveShell

    drawn = picture(exercise, failure) if InteractiveShell.initialized() else None
    if drawn is not None:
        from minipaged.viz.show import show

        show(drawn)
    elif text := as_text(failure):
        print(text)
