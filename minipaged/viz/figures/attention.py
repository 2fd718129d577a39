"""What attention reads through a block table, and how it adds up softmax block by block (chapters 04, 12, 13).

    show(attention_gather([3, 7, 12, 1], context_len=50, block_size=16, num_blocks=16))
    show(attention_gather(table, 50, 16, 16, splits=2))          # two programs share the context
    show(online_softmax([0.5, 2.0, 1.0, 3.0, ...], block_size=4))
"""
from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf

from minipaged.viz.show import Picture
from minipaged.viz.style import INK, LOOKS, MUTED, VERMILION, box, legend, new_canvas, new_figure, numbered_look, styled


@styled
def attention_gather(block_table: Sequence[int], context_len: int, block_size: int, num_blocks: int,
                     splits: int = 1, window: int | None = None) -> Picture:
    """The pool, and in it the blocks that one query reads, numbered in reading order; slots past the context are not.

    `splits`: programs that share the context (split over the context, as in flash decoding). `window`: only the
    last so many positions are read. Errors: ValueError when the table does not hold the context.
    """
    needed = -(-context_len // block_size)
    if not 0 < needed <= len(block_table) or max(block_table) >= num_blocks:
        raise ValueError(f"{context_len} tokens in blocks of {block_size} need {needed} table entries below "
                         f"{num_blocks}; the table is {list(block_table)}")
    first = max(0, context_len - window) if window else 0
    used = range(first // block_size, needed)
    share = -(-len(used) // splits)
    program = {index: (index - used.start) // share for index in used}
    names = [f"program {number}" for number in range(max(program.values()) + 1)]
    looks = [LOOKS["read"]] if splits == 1 else [numbered_look(number + 1) for number in range(len(names))]
    columns = min(num_blocks, 8)
    rows = -(-num_blocks // columns)
    figure, axes = new_canvas(columns * 2, rows * 1.45 - 0.2)
    place = {block: index for index, block in enumerate(block_table[:needed]) if index in program}
    read = 0
    for block in range(num_blocks):
        row, column = divmod(block, columns)
        x, y = column * 2 + 0.1, row * 1.45 + 0.35
        axes.text(x, y - 0.1, f"P{block}", fontsize=9, color=INK if block in place else MUTED,
                  fontweight="bold" if block in place else "normal")
        box(axes, x, y, 1.8, 0.8, LOOKS["free"])
        if block not in place:
            continue
        index = place[block]
        start, end = max(first, index * block_size), min(context_len, (index + 1) * block_size)
        width = 1.8 / block_size
        for slot in range(block_size):
            inside = start <= index * block_size + slot < end
            look = looks[program[index]] if inside else LOOKS["masked"]
            box(axes, x + slot * width, y, width, 0.8, look._replace(hatch=look.hatch if inside else "/////"),
                gid=f"{block}:{slot}:{'read' if inside else 'not read'}", linewidth=0.4)
        read += end - start
        axes.text(x + 0.9, y + 0.4, f"{index}", ha="center", va="center", fontsize=10, fontweight="bold",
                  bbox={"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": INK, "linewidth": 0.8})
    axes.set_title(f"One query reads {read} positions in {len(place)} blocks, wherever they lie")
    shown = dict(zip(names, looks)) if splits > 1 else {"read (number: logical block)": looks[0]}
    legend(figure, {**shown, "in the block, not read": LOOKS["masked"]._replace(hatch="/////"),
                    "other blocks": LOOKS["free"]})
    order = ", ".join(f"P{block_table[index]}" for index in used)
    by = f" by {len(names)} programs" if splits > 1 else ""
    return Picture(figure, f"A pool of {num_blocks} blocks of {block_size} slots; attention over {context_len} tokens "
                           f"reads {read} positions of {len(place)} blocks{by}, in the order {order}; "
                           f"{len(place) * block_size - read} slots of these blocks are not read.",
                   {"table": list(block_table), "context_len": context_len, "block_size": block_size, "splits": splits,
                    "read": read})


def softmax_states(scores: Sequence[float], block_size: int) -> list[tuple[float, float, float]]:
    """(running max, running sum, factor that rescaled the older sum) after each block of scores."""
    states, top, total = [], -inf, 0.0
    for start in range(0, len(scores), block_size):
        block = scores[start:start + block_size]
        new_top = max(top, *block)
        factor = exp(top - new_top) if total else 0.0
        total = total * factor + sum(exp(score - new_top) for score in block)
        top = new_top
        states.append((top, total, factor))
    return states


@styled
def online_softmax(scores: Sequence[float], block_size: int = 4) -> Picture:
    """The scores with their running maximum, and the running sum that each new maximum rescales."""
    states = softmax_states(scores, block_size)
    count = len(scores)
    figure, (upper, lower) = new_figure(4.6, 2, 1, sharex=True)
    upper.bar(range(count), scores, width=0.75, gid="scores", **LOOKS["read"].patch())
    edges = [min(count, (index + 1) * block_size) - 0.5 for index in range(len(states))]
    left = -0.5
    for index, ((top, total, factor), edge) in enumerate(zip(states, edges)):
        upper.plot((left, edge), (top, top), color=VERMILION, linestyle="--", gid=f"max {index}",
                   label=None if index else "running maximum m")
        lower.bar((left + edge) / 2, total, width=(edge - left) * 0.8, gid=f"sum {index}", **LOOKS["used"].patch())
        note = f"m = {top:.2g}\nl = {total:.3g}" + (f"\nold l × {factor:.2g}" if index else "")
        lower.text((left + edge) / 2, total, note, ha="center", va="bottom", fontsize=9, linespacing=1.25)
        for axes in (upper, lower):
            axes.axvline(edge, color="#CCCCCC", linewidth=0.8, zorder=0)
        left = edge
    biggest = max(total for _, total, _ in states)
    upper.set(ylabel="score q·k", title="Scores, block by block", ylim=(min(0, *scores) * 1.1, max(0, *scores) * 1.25))
    upper.axhline(0, color=MUTED, linewidth=0.8)
    upper.legend(loc="upper left")
    lower.set(xlim=(-0.5, count - 0.5), ylim=(0, biggest * 1.75), xlabel="position",
              ylabel="running sum l", title="Sum of exp(score - m): a new maximum rescales the old sum")
    lower.xaxis.get_major_locator().set_params(integer=True)
    top, total, _ = states[-1]
    whole = sum(exp(score - max(scores)) for score in scores)
    rescaled = sum(0 < factor < 1 for _, _, factor in states)
    return Picture(figure, f"Online softmax over {count} scores in {len(states)} blocks of {block_size}: the maximum "
                           f"ends at {top:.3g}, the sum at {total:.4g} (at once: {whole:.4g}); the sum was rescaled "
                           f"{rescaled} time{'' if rescaled == 1 else 's'}.",
                   {"scores": list(scores), "block_size": block_size, "states": states})
