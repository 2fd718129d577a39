"""Block tables drawn above the pool, with an arrow from each logical to its physical block (chapters 03 and 05).

    show(block_table_arrows(events))                          # at the end of the log
    show(block_table_arrows(events, ["A", "B"], until=40))    # after the event with time 40
    show(copy_on_write(events))                               # before and after the first copy in the log
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from minipaged.core.events import Event
from minipaged.viz.figures.pool import tell_faults
from minipaged.viz.replay import Replay, replay
from minipaged.viz.show import Picture
from minipaged.viz.style import INK, LOOKS, MUTED, PAPER, VERMILION, Look, box, looks_of, new_canvas, styled, write

WIDEST = 18  # boxes side by side
NARROWEST = 12
HIGH = 3.7  # of one picture of tables and pool


@styled
def block_table_arrows(events: Iterable[Event], requests: Sequence[str] | None = None, until: int | None = None,
                       title: str | None = None) -> Picture:
    """The tables of `requests` (default: of all that hold blocks) and the pool, after the event with time `until`.

    Each box of a table is as full as its tokens; below each block of the pool is its reference count. A pool of
    more than 18 blocks is cut to those in use. Errors: ValueError when nobody holds a block or too much is asked.
    """
    state = replay(events, until, strict=False)
    names = list(state.tables if requests is None else requests)
    blocks = blocks_to_draw(state, names)
    figure, axes = new_canvas(max(NARROWEST, _width(state, names), len(blocks)), HIGH, 0)
    draw_tables(axes, state, names, blocks, looks_of(state.tables))
    axes.set_title(title or f"Tables and pool after event {state.time}")
    return Picture(figure, f"Block tables above a pool of {state.num_blocks} blocks of {state.block_size} slots. "
                           f"{tell_tables(state, names)}.{tell_faults(state)}",
                   {"time": state.time, "tables": {name: state.tables[name] for name in names},
                    "ref_count": {block: state.ref_count[block] for block in blocks}})


@styled
def copy_on_write(events: Iterable[Event], number: int = 0) -> Picture:
    """Tables and pool before and after copy `number` of the log: who held the block, who wrote, who got the copy."""
    events = list(events)
    copies = [event for event in events if event.kind == "copy"]
    if not 0 <= number < len(copies):
        raise ValueError(f"copy {number} was asked for; the log has {len(copies)} copies")
    copy = copies[number]
    src, dst, writer = copy.src, copy.dst, copy.request
    taken = max(event.time for event in events[:copy.time] if event.kind == "allocate" and event.block == dst)
    dropped = min((event.time for event in events[copy.time:] if event.kind in ("release", "free")
                   and event.block == src and event.request == writer), default=copy.time)
    before, after = (replay(events, time, strict=False) for time in (taken - 1, dropped))
    step = next((event for event in events[copy.time:] if event.kind == "step"), None)
    start, count = step.scheduled[writer] if step and writer in step.scheduled else (0, 0)
    names = [name for name in after.tables if name == writer or src in after.tables[name]]
    blocks = blocks_to_draw(after, names)
    looks = looks_of(names)
    counts = [[state.ref_count[block] for block in (src, dst)] for state in (before, after)]
    shown = [name for name in names if name in before.tables]
    width = max(NARROWEST, _width(after, names), len(blocks))
    figure, axes = new_canvas(width, 2 * HIGH + 1.9, 0)
    second = HIGH + 1.2
    for top, state, who, tokens, head in (
            (0.5, before, shown, start, f"before: request {writer} wants to write into P{src}, which "
             f"{counts[0][0]} requests hold"),
            (second, after, names, start + count, f"after: P{src} is copied to P{dst}, and the table points there")):
        axes.text(0, top - 0.25, head, fontsize=10, fontweight="bold")
        draw_tables(axes, state, who, blocks, looks, top, {src, dst}, {writer: tokens})
    x, y = blocks.index(src) + 0.5, second + 3.75
    axes.annotate("", (blocks.index(dst) + 0.5, y), (x, y), arrowprops={
        "arrowstyle": "-|>", "color": VERMILION, "linewidth": 1.8, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 13})
    axes.text((x + blocks.index(dst) + 0.5) / 2, y + 0.42, "copied", fontsize=9, ha="center", color=INK)
    return Picture(figure, f"Copy on write, before and after: request {writer} writes into P{src}, held by "
                           f"{counts[0][0]}, and gets the copy P{dst}. Before: {tell_tables(before, shown)}. "
                           f"After: {tell_tables(after, names)}.",
                   {"copy": [src, dst, writer], "ref_count": counts,
                    "before": {name: before.tables[name] for name in shown},
                    "after": {name: after.tables[name] for name in names}})


def blocks_to_draw(state: Replay, names: Sequence[str]) -> list[int]:
    """The whole pool if it is small, else the blocks of these requests."""
    for name in names:
        if name not in state.tables:
            raise ValueError(f"request {name!r} holds no block after event {state.time}; those that do: "
                             f"{', '.join(state.tables) or 'none'}")
    blocks = (list(range(state.num_blocks)) if state.num_blocks <= WIDEST else
              sorted({block for name in names for block in state.tables[name] if block >= 0}))
    if not names or max(len(blocks), _width(state, names)) > WIDEST + 6:
        raise ValueError(f"{len(names)} requests with {len(blocks)} blocks do not fit into one picture; name fewer "
                         "requests, or an event at which they hold fewer blocks")
    return blocks


def _width(state: Replay, names: Sequence[str]) -> float:
    return sum(len(state.tables[name]) for name in names) + 0.6 * (len(names) - 1)


def draw_tables(axes, state: Replay, names: Sequence[str], blocks: Sequence[int], looks: Mapping[str, Look],
                top: float = 0.0, marked: Collection[int] = (), tokens: Mapping[str, int] | None = None) -> None:
    """Tables in a row at `top`, the pool 2.4 below, arrows between. `marked` blocks get a strong border; `tokens`:
    how many a request has, where the log can't tell yet."""
    at = {block: x for x, block in enumerate(blocks)}
    size, low = state.block_size, top + 2.45
    x = 0.0
    for name in names:
        look, computed = looks[name], (tokens or {}).get(name, _tokens(state, name))
        axes.text(x + 0.02, top + 0.27, f"request {name}", fontsize=9.5, color=INK)
        for index, block in enumerate(state.tables[name]):
            full = max(0, min(size, computed - index * size))
            box(axes, x + 0.06, top + 0.4, 0.88, 0.62, LOOKS["free"], gid=f"logical {name}:{index}")
            box(axes, x + 0.06, top + 0.4, 0.88 * full / size, 0.62, look)
            write(axes, x + 0.5, top + 0.71, str(index), Look(PAPER, "x", INK), fontsize=9)
            if block in at:
                axes.annotate("", (at[block] + 0.5, low - 0.05), (x + 0.5, top + 1.04), gid=f"{name}:{index}:{block}",
                              arrowprops={"arrowstyle": "-|>", "color": "#555555", "linewidth": 1.1, "shrinkA": 0,
                                          "shrinkB": 0, "mutation_scale": 10})
            x += 1
        x += 0.6
    for block in blocks:
        draw_block(axes, state, block, at[block], low, looks, strong=block in marked)


def draw_block(axes, state: Replay, block: int, x: float, y: float, looks: Mapping[str, Look],
               strong: bool = False) -> None:
    """One block of the pool: a stripe for each holder, its name, and its reference count below."""
    holders = [name for name in state.holders[block] if name in looks]
    fill = [looks[name] for name in holders] or [LOOKS["cached" if state.is_cached(block) else "free"]]
    if state.holders[block] and not holders:
        fill = [Look("#CFCFCF", "", PAPER)]  # somebody else's
    width = 0.88 / len(fill)
    for index, look in enumerate(fill):
        box(axes, x + 0.06 + index * width, y, width, 0.88, look, gid=f"P{block}:{','.join(holders)}")
    if strong:
        from matplotlib.patches import Rectangle

        axes.add_patch(Rectangle((x + 0.06, y), 0.88, 0.88, fill=False, edgecolor=INK, linewidth=2.2))
    write(axes, x + 0.5, y + 0.44, f"P{block}", Look(PAPER, "x", INK), fontsize=9)
    count = state.ref_count[block]
    axes.text(x + 0.5, y + 1.14, f"×{count}", fontsize=9, ha="center", va="center",
              color=INK if count else MUTED, fontweight="bold" if count > 1 else "normal")


def _tokens(state: Replay, name: str) -> int:
    """Tokens that the blocks of a request hold after the step under way."""
    one = state.requests[name]
    start, count = state.scheduled.get(name, (one.computed, 0))
    return max(one.computed, start + count)


def tell_tables(state: Replay, names: Sequence[str]) -> str:
    """The tables and the shared blocks in words."""
    tables = "; ".join(f"request {name}: {', '.join(f'P{block}' for block in state.tables[name])}" for name in names)
    shared = [f"P{block} {count}" for block, count in enumerate(state.ref_count) if count > 1]
    return tables + (f"; reference counts above 1: {', '.join(shared)}" if shared else "; no block is shared")
