"""Who holds which block, rebuilt from the event log and drawn (chapter 00).

    states = block_states(llm.engine.events)
    show(draw_block_map(states), describe(states))

Nothing but the log is read, so a saved log draws the same picture.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minipaged.core.events import Event

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, which people with colour blindness tell apart; black is left for the text.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
#: A second sign beside the colour, for print without colour and for more than seven requests.
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "|||", "ooo", "++")


@dataclass(frozen=True)
class BlockState:
    """One block at one moment. `holders`: request ids, the oldest first. `cached`: findable by its contents."""

    block: int
    holders: tuple[str, ...]
    cached: bool


def block_states(events: Iterable[Event], until: int | None = None) -> list[BlockState]:
    """Every block of the pool after the event with time `until` (after the last one when None).

    Errors: ValueError if the log does not begin with the making of a pool.
    """
    holders: list[list[str]] | None = None
    keys: list[set[bool]] = []  # for each block: is it found as a full block (False), by its first tokens (True)
    for event in events:
        if until is not None and event.time > until:
            break
        if event.kind == "pool":
            holders = [[] for _ in range(event.num_blocks)]
            keys = [set() for _ in range(event.num_blocks)]
        elif holders is None:
            raise ValueError(f"the log begins with {event.kind!r}; it must begin with 'pool' to know the blocks")
        elif event.kind in ("allocate", "share", "swap_in"):
            if event.request not in holders[event.block]:  # a restored block was logged as allocated too
                holders[event.block].append(event.request)
        elif event.kind in ("release", "free"):
            holders[event.block].remove(event.request)
        elif event.kind == "publish":
            keys[event.block].add(event.tail)
        elif event.kind == "withdraw":
            keys[event.block].discard(event.key is None)
    if holders is None:
        raise ValueError("the log is empty; it must begin with 'pool' to know the blocks")
    return [BlockState(block, tuple(names), bool(known))
            for block, (names, known) in enumerate(zip(holders, keys, strict=True))]


def describe(states: Sequence[BlockState]) -> str:
    """One sentence with the numbers of the picture, for readers and programs that do not see it."""
    held = [state for state in states if state.holders]
    shared = sum(len(state.holders) > 1 for state in held)
    free = len(states) - len(held)
    cached = sum(state.cached for state in states if not state.holders)
    each = ", ".join(f"request {name} holds {sum(name in state.holders for state in held)}" for name in _names(states))
    return (f"Map of {len(states)} blocks: {each or 'no request holds any'}; {shared} of the {len(held)} blocks in use "
            f"are shared; {free} are free, {cached} of these still cached.")


def draw_block_map(states: Sequence[BlockState], columns: int = 16) -> Figure:
    """A square for each block with its number; one stripe of colour for each request that holds it.

    White squares are free; dotted grey ones are free and still cached.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    rows = -(-len(states) // columns)
    fig = Figure(figsize=(0.5 * columns + 0.4, 0.5 * rows + 1.0), layout="constrained")
    axes = fig.add_subplot()
    axes.set(xlim=(-0.1, columns + 0.1), ylim=(rows + 0.1, -0.1), aspect="equal")
    axes.axis("off")
    style = {name: {"facecolor": COLOURS[index % len(COLOURS)], "hatch": HATCHES[index % len(HATCHES)]}
             for index, name in enumerate(_names(states))}
    free_style, cached_style = {"facecolor": "white"}, {"facecolor": "#E4E4E4", "hatch": "..."}
    for state in states:
        y, x = divmod(state.block, columns)
        stripes = [(name, style[name]) for name in state.holders]
        for index, (label, look) in enumerate(stripes or [("", cached_style if state.cached else free_style)]):
            width = 0.9 / max(len(stripes), 1)
            axes.add_patch(Rectangle((x + 0.05 + index * width, y + 0.05), width, 0.9, edgecolor="black",
                                     linewidth=0.6, gid=f"{state.block}:{label}", **look))
        axes.text(x + 0.5, y + 0.5, str(state.block), ha="center", va="center", fontsize=8,
                  bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"})
    legend = [Patch(edgecolor="black", label=f"request {name}", **look) for name, look in style.items()]
    legend += [Patch(edgecolor="black", label="free, still cached", **cached_style),
               Patch(edgecolor="black", label="free", **free_style)]
    fig.legend(handles=legend, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    return fig


def _names(states: Sequence[BlockState]) -> list[str]:
    """The requests that hold blocks, in the order of the blocks."""
    return list(dict.fromkeys(name for state in states for name in state.holders))
