"""The picture that stands for a film where it can't play: its fullest moment and its whole course (every chapter)."""
from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING

from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from minipaged.core.events import Event
from minipaged.viz.film_words import evicts
from minipaged.viz.replay import Replay, replay
from minipaged.viz.style import DPI, INK, LOOKS, MUTED, WIDTH, looks_of, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SQUARES = 400  # a larger pool is drawn in groups of blocks
MARKS = (("copy", "^", "#0072B2"), ("evict", "x", "#D55E00"), ("preempt", "s", "#8A2C6D"))


def draw_still(runs: list[list[Event]], labels: tuple[str, ...], times: list[int]) -> bytes:
    """A PNG of each run: its blocks after the event `times[i]`, and how many were in use over the whole run."""
    figure = still_figure(runs, labels, times)
    drawn, small = BytesIO(), BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI, metadata={"Software": None})
    Image.open(drawn).convert("RGB").quantize(256).save(small, format="png", optimize=True)  # a third of the bytes
    return small.getvalue()


@styled
def still_figure(runs: list[list[Event]], labels: tuple[str, ...], times: list[int]) -> Figure:
    """The same as a Figure, one column a run."""
    states = [replay(run, until=time, strict=False) for run, time in zip(runs, times)]
    columns = 16 if len(runs) == 1 else 8
    rows = max(-(-min(state.num_blocks, MOST_SQUARES) // columns) for state in states)
    side = WIDTH / len(runs) / (columns + 1)
    figure = Figure(figsize=(WIDTH, rows * side + 1.9), layout="constrained")
    axes = figure.subplots(2, len(runs), squeeze=False, height_ratios=(rows * side + 0.3, 1.2))
    for column, (run, label, state) in enumerate(zip(runs, labels, states)):
        _blocks(axes[0][column], run, state, columns, rows)
        axes[0][column].set_title(f"{label or 'blocks'}: after event {state.time}, step {state.step}")
        _course(axes[1][column], run, state)
    return figure


def _blocks(axes: Axes, run: list[Event], state: Replay, columns: int, rows: int) -> None:
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(rows + 0.1, -0.1), aspect="equal")
    axes.axis("off")
    looks = looks_of(event.request for event in run if event.kind in ("add", "fork"))
    filled = state.filled()
    for block in range(min(state.num_blocks, MOST_SQUARES)):
        y, x = divmod(block, columns)
        holders = state.holders[block]
        if not holders:
            look = LOOKS["cached" if state.is_cached(block) else "free"]
            axes.add_patch(Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, **look.patch()))
            axes.text(x + 0.5, y + 0.5, str(block), ha="center", va="center", fontsize=8, color=MUTED,
                      bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"})
            continue
        share = filled[block] / state.block_size  # the empty part of a block stays white
        for index, name in enumerate(holders):
            width = 0.9 / len(holders)
            look = looks.get(name, LOOKS["used"])
            axes.add_patch(Rectangle((x + 0.05 + index * width, y + 0.95 - 0.9 * share), width, 0.9 * share,
                                     **look.patch()))
        axes.add_patch(Rectangle((x + 0.05, y + 0.05), 0.9, 0.9, fill=False, edgecolor=INK, linewidth=0.8))
        text = holders[0] if len(holders) == 1 else f"×{len(holders)}"
        axes.text(x + 0.5, y + 0.5, f"{block}\n{text[:5]}", ha="center", va="center", fontsize=8, color=INK,
                  linespacing=0.95, bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none"})
    if state.num_blocks > MOST_SQUARES:
        axes.text(0, rows + 0.05, f"the first {MOST_SQUARES} of {state.num_blocks} blocks", va="top", fontsize=9)


def _course(axes: Axes, run: list[Event], state: Replay) -> None:
    """Blocks in use over the events, with marks for copies, evictions and preemptions."""
    used, now = [], Replay()
    marks: dict[str, list[int]] = {kind: [] for kind, _, _ in MARKS}
    for before, event in zip([None, *run], run):
        now.see(event)
        used.append(now.num_blocks - now.free_count)
        if event.kind in ("copy", "preempt"):
            marks[event.kind].append(event.time)
        elif evicts(event, before):
            marks["evict"].append(event.time)
    axes.fill_between(range(len(used)), used, color="#C9D6E2", edgecolor="#6D87A1", linewidth=0.8)
    axes.axvline(state.time, color=INK, linewidth=1.2)
    for row, (kind, shape, colour) in enumerate(MARKS):
        height = state.num_blocks * (1.2 + 0.28 * row)
        axes.plot(marks[kind], [height] * len(marks[kind]), shape, color=colour, markersize=4, linestyle="none")
        axes.text(-0.01, height, f"{kind} {len(marks[kind])}", transform=axes.get_yaxis_transform(), ha="right",
                  va="center", fontsize=9, color=colour)
    axes.set(xlim=(0, max(1, len(used) - 1)), ylim=(0, state.num_blocks * 1.95), yticks=[0, state.num_blocks],
             xlabel="event")
    axes.set_ylabel("used", rotation=0, ha="right", va="center", y=0.25)
