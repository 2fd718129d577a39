"""One step, event by event: plan, run, commit (chapters 07 and 11).

    show(step_anatomy(events, step=5))
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

from minipaged.core.events import Event
from minipaged.viz.show import Picture
from minipaged.viz.style import BLUE, GREEN, INK, MUTED, ORANGE, PAPER, Look, box, new_figure, styled

#: kind -> the event in words; what is not here is told by the column that it stands in
WORDS = {
    "admit": "{request} gets a seat, {cached_tokens} tokens cached",
    "allocate": "{request} takes P{block} from the front",
    "share": "{request} shares P{block}, count {ref_count}",
    "rotate": "{request} is paused, its seat goes on",
    "preempt": "{request} loses seat and blocks ({mode})",
    "swap_out": "P{block} of {request} goes to the host",
    "swap_in": "{request} gets P{block} back from the host",
    "copy": "P{src} is copied to P{dst} for {request}",
    "publish": "P{block} can be found by its contents",
    "withdraw": "P{block} can no longer be found ({reason})",
    "release": "{request} lets go of P{block}, count {ref_count}",
    "free": "{request} frees P{block}",
    "finish": "{request} ends ({reason})",
}
COLUMNS = (("plan", "who runs, with which memory", Look(BLUE, "", PAPER)),
           ("run", "the executor computes", Look(ORANGE, "", PAPER)),
           ("commit", "new tokens in, memory free", Look(GREEN, "", PAPER)))


def in_words(event: Event) -> str:
    """One event as a short sentence."""
    return WORDS.get(event.kind, event.kind).format(**event.data)


def parts_of(events: Iterable[Event], step: int) -> list[list[str]]:
    """What the plan, the run and the commit of a step do, a line each.

    Copies and swaps are decided by the plan and done by the run, so both columns name them: the run as what
    it does first. Errors: ValueError for a step that the log does not have.
    """
    inside = [event for event in events if event.step == step and event.kind not in ("add", "fork", "scheduler")]
    planned = next((at for at, event in enumerate(inside) if event.kind == "step"), None)
    if planned is None:
        raise ValueError(f"the log has no step {step}")
    plan, rest = inside[:planned], inside[planned:]
    run = [in_words(event) for kind in ("swap_out", "swap_in", "copy") for event in plan
           if event.kind == kind and event.data.get("copied", True)]
    run += [f"{name} computes position {start}" if count == 1 else
            f"{name} computes positions {start} to {start + count - 1}"
            for name, (start, count) in rest[0].scheduled.items()]
    commit: list[str] = []
    for event in rest[1:]:
        if event.kind == "commit":
            commit += [f"{name} gets token {token}" for name, token in event.tokens.items()]
        elif event.kind == "cancel":
            commit.append("the plan did not run: it is taken back")
        else:
            commit.append(in_words(event))
    return [[in_words(event) for event in plan], run, commit]


@styled
def step_anatomy(events: Iterable[Event], step: int, most: int = 14) -> Picture:
    """Three columns: what the plan, the run and the commit of step `step` do, in order. Long columns are cut."""
    columns = parts_of(events, step)
    shown = [_cut(column, most) for column in columns]
    lines = [[line for text in column for line in wrap(text, 36, subsequent_indent="  ")] for column in shown]
    height = max(map(len, lines)) + 3.2
    figure, axes = new_figure(0.35 + 0.168 * height)
    axes.set(xlim=(0, 3), ylim=(height, 0))
    axes.axis("off")
    for at, ((name, what, look), column) in enumerate(zip(COLUMNS, lines)):
        box(axes, at + 0.01, 0, 0.95, 1.5, look, name, fontsize=11, fontweight="bold", gid=name)
        axes.text(at + 0.01, 2.2, what, fontsize=9, color=MUTED, va="center")
        axes.text(at + 0.01, 3.0, "\n".join(column) or "nothing", fontsize=9, va="top", linespacing=1.25, color=INK)
    axes.set_title(f"Step {step}: plan, run, commit")
    counts = ", ".join(f"{name} {len(column)}" for (name, _, _), column in zip(COLUMNS, columns))
    return Picture(figure, f"What happens in step {step}, in three columns with {counts} lines. The run: "
                           f"{'; '.join(shown[1]) or 'nothing'}.",
                   {"step": step, "columns": shown})


def _cut(column: Sequence[str], most: int) -> list[str]:
    return [*column[:most - 1], f"and {len(column) - most + 1} more"] if len(column) > most else list(column)
