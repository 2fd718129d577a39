"""The pool at one moment: who holds which block, and in which order the free ones wait (chapters 00, 03 and 06).

    show(block_map(events, until=120))
    show(free_queue(events))                    # or at the moments that you name: free_queue(events, [10, 30])
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from minipaged.core.events import Event
from minipaged.viz.replay import Replay, replay
from minipaged.viz.show import Picture
from minipaged.viz.style import INK, LOOKS, MUTED, PAPER, Look, box, legend, looks_of, new_canvas, styled, write

MOST_BLOCKS = 256
_LABEL = Look(PAPER, "x", INK)  # text on a plate, whatever is below


@styled
def block_map(events: Iterable[Event], until: int | None = None, columns: int = 16) -> Picture:
    """A square for each block with its number, a stripe for each request that holds it, after event `until`.

    White squares are free; dotted grey ones are free and still cached. Of a large pool the first 256 are drawn.
    """
    state = replay(events, until, strict=False)
    drawn = state.holders[:MOST_BLOCKS]
    looks = looks_of(name for holders in drawn for name in holders)
    columns = min(columns, len(drawn))
    rows = -(-len(drawn) // columns)
    figure, axes = new_canvas(columns, rows, 1 + (len(looks) + 1) // 4)
    if len(drawn) < state.num_blocks:
        axes.set_title(f"The first {len(drawn)} of {state.num_blocks:,} blocks")
    for block, holders in enumerate(drawn):
        y, x = divmod(block, columns)
        stripes = [(name, looks[name]) for name in holders]
        free = LOOKS["cached" if state.is_cached(block) else "free"]
        for index, (name, look) in enumerate(stripes or [("", free)]):
            width = 0.9 / max(len(stripes), 1)
            box(axes, x + 0.05 + index * width, y + 0.05, width, 0.9, look, gid=f"{block}:{name}")
        write(axes, x + 0.5, y + 0.5, str(block), _LABEL, fontsize=9)
    legend(figure, {**{f"request {name}": look for name, look in looks.items()},
                    "free, still cached": LOOKS["cached"], "free": LOOKS["free"]})
    return Picture(figure, tell_pool(state) + tell_faults(state),
                   [[block, names, state.is_cached(block)] for block, names in enumerate(drawn)])


def tell_pool(state: Replay) -> str:
    """One sentence with the numbers of the map."""
    names = list(dict.fromkeys(name for holders in state.holders for name in holders))
    used = state.num_blocks - state.free_count
    shared = sum(count > 1 for count in state.ref_count)
    cached = sum(state.is_cached(block) for block in state.free_blocks())
    each = ", ".join(f"request {name} holds {sum(name in holders for holders in state.holders)}" for name in names)
    return (f"Map of {state.num_blocks} blocks: {each or 'no request holds any'}; {shared} of the {used} blocks in use "
            f"are shared; {state.free_count} are free, {cached} of these still cached.")


def tell_faults(state: Replay) -> str:
    """What can't be true in the log of a wrong implementation; nothing for a right one."""
    if not state.faults:
        return ""
    time, what = state.faults[0]
    more = f", and {len(state.faults) - 1} more such events" if len(state.faults) > 1 else ""
    return f" Something is wrong in this run: at event {time} {what}{more}."


@styled
def free_queue(events: Iterable[Event], moments: Sequence[int] | None = None, most: int = 20) -> Picture:
    """The free queue, front first, after each event with a time in `moments` (default: after the last of each run
    of events that gave blocks back, the first six). Blocks new in the queue have a strong border."""
    events = list(events)
    if moments is None:
        gives = [event.time for event in events if event.kind == "free"]
        moments = [time for time in gives if time + 1 not in gives][:6]
    if not moments:
        raise ValueError("the log never frees a block; name the moments (event times) to draw")
    states = [replay(events, time, strict=False) for time in moments]
    rows = [state.free_blocks() for state in states]
    wide = max(4, min(most, max(map(len, rows))))
    figure, axes = new_canvas(wide + 4.2, 1.35 * len(rows) + 0.25, 1)
    axes.text(4.2, 0.1, "front: handed out next", fontsize=9, color=MUTED)
    axes.set_title("The free queue at some moments")
    last = moments[0]
    while last > 0 and events[last].kind == "free":
        last -= 1
    for y, (state, row) in enumerate(zip(states, rows)):
        top = 0.35 + 1.35 * y
        event = events[state.time]
        came = {one.block for one in events[last + 1:state.time + 1] if one.kind == "free"}
        last = state.time
        axes.text(0, top + 0.3, f"event {event.time}", fontsize=9.5, va="center")
        axes.text(0, top + 0.75, f"{event.kind}{_whose(event)}", fontsize=9, va="center", color=MUTED)
        for x, block in enumerate(row[:most]):
            look = LOOKS["cached" if state.is_cached(block) else "free"]
            new = block in came
            box(axes, 4.2 + x + 0.05, top, 0.9, 0.95, look, gid=f"{y}:{block}",
                **({"edgecolor": INK, "linewidth": 1.8} if new else {}))
            write(axes, 4.2 + x + 0.5, top + 0.48, f"P{block}", _LABEL, fontsize=9,
                  fontweight="bold" if new else "normal")
        if len(row) > most:
            axes.text(4.2 + most + 0.1, top + 0.48, f"+{len(row) - most}", va="center", fontsize=9)
    legend(figure, {"free, still cached": LOOKS["cached"], "free, contents unknown": LOOKS["free"],
                    "came since the row above": LOOKS["free"]._replace(edgecolor=INK)})
    said = "; ".join(f"after event {state.time}: {', '.join(f'P{block}' for block in row[:most]) or 'empty'}"
                     for state, row in zip(states, rows))
    return Picture(figure, f"The free queue at {len(rows)} moments, front first. {said}.{tell_faults(states[-1])}",
                   {str(state.time): row for state, row in zip(states, rows)})


def _whose(event: Event) -> str:
    return f" by {event.request}" if event.data.get("request") is not None else ""
