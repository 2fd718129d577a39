"""Two ideas as pictures: the page table of an operating system, and what each event does to a block.

    show(page_table_analogy([3, 7, 12, 1], block_size=16, position=37))   # chapter 03
    show(memory_event_table())                                            # chapter 06
"""
from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from minipaged.viz.show import Picture
from minipaged.viz.style import INK, LOOKS, MUTED, PAPER, Look, box, new_canvas, new_figure, styled, write

PAGE = 4096
#: (in an operating system, in a KV cache)
SAME = (("process", "request"), ("virtual page", "logical block"), ("page table", "block table"),
        ("physical page in RAM", "physical block in GPU memory"), ("swap to disk", "swap to host memory"),
        ("copy on write after fork", "copy on write between samples"))

#: event -> (reference count, hash key, free queue, contents); the meanings that the engine keeps
EFFECTS = {
    "allocate": ("1", "the old key is withdrawn now, not before", "leaves the front", "stale until written"),
    "plan fills a block": ("unchanged", "published; a plan that does not run withdraws it", "-",
                           "written in this step"),
    "commit leaves a partial tail": ("unchanged", "tail key published, after the step", "-", "unchanged"),
    "hit": ("+1 for each distinct block of a table", "verified by tokens and parent", "leaves it if it was there",
            "shared"),
    "write, count 1": ("unchanged", "keys that cover more than the tokens before it are withdrawn", "-",
                       "overwritten in place"),
    "write, count above 1": ("writer: -1 there, 1 on the copy", "the copy has none yet", "the copy leaves the front",
                             "copied first: K and V of all layers"),
    "free, count reaches 0": ("0", "kept: freed is not evicted", "no key: front; key: back; tail first", "kept"),
    "swap out": ("references dropped", "kept as for free", "as for free", "one copy on the host"),
    "swap in": ("hits first, then fresh blocks", "published again", "from the front", "restored"),
}


@styled
def page_table_analogy(table: Sequence[int] = (3, 7, 12, 1), block_size: int = 16, position: int = 37) -> Picture:
    """The same table twice: pages of a process, blocks of a request; and how one address, one position is found.

    Errors: ValueError when the table does not hold the position.
    """
    index, offset = divmod(position, block_size)
    if not 0 <= index < len(table):
        raise ValueError(f"position {position} is in logical block {index}; the table has {len(table)} entries")
    address = index * PAGE + offset
    slot = table[index] * block_size + offset
    height = len(table) * 1.2
    figure, axes = new_canvas(21.4, height + 3.9, 0)
    _translation(axes, 0, table, index, ("Operating system", "virtual page", "page table", "RAM"), "frame")
    _translation(axes, 11.4, table, index, ("KV cache", "logical block", "block table", "GPU memory"), "P")
    below = height + 2.45
    for x, lines in ((0, (f"address {address} = {index} x {PAGE} + {offset}",
                          f"page {index} is in frame {table[index]}, offset {offset}")),
                     (11.4, (f"position {position} = {index} x {block_size} + {offset}",
                             f"slot {table[index]} x {block_size} + {offset} = {slot}"))):
        for row, line in enumerate(lines):
            axes.text(x, below + 0.7 * row, line, fontsize=9.5, va="center", fontweight="bold" if row else "normal")
    return Picture(figure, f"The page table of an operating system beside a block table of {len(table)} blocks of "
                           f"{block_size} tokens: position {position} is offset {offset} of logical block {index}, "
                           f"which lies in P{table[index]}, so its slot is {slot}.",
                   {"table": list(table), "block_size": block_size, "position": position, "slot": slot})


def _translation(axes, x: float, table: Sequence[int], chosen: int, heads: Sequence[str], frame: str) -> None:
    axes.text(x, 0.25, heads[0], fontsize=11, fontweight="bold", va="center")
    for left, head in zip((0, 3.5, 7.0), heads[1:]):
        axes.text(x + left + 1.35, 1.15, head, fontsize=9.5, ha="center", va="center", color=MUTED)
    places = {block: row for row, block in enumerate(sorted(table))}
    for row, block in enumerate(table):
        y, strong = 1.6 + 1.2 * row, row == chosen
        look = LOOKS["used"] if strong else LOOKS["free"]
        box(axes, x, y, 2.7, 0.9, look, str(row))
        box(axes, x + 3.5, y, 2.7, 0.9, look, f"{row} → {block}")
        target = 1.6 + 1.2 * places[block]
        box(axes, x + 7.0, target, 2.7, 0.9, look, f"{frame} {block}" if len(frame) > 1 else f"{frame}{block}")
        style = {"arrowstyle": "-|>", "color": INK if strong else "#999999", "linewidth": 1.8 if strong else 1.0,
                 "shrinkA": 0, "shrinkB": 0, "mutation_scale": 10}
        axes.annotate("", (x + 3.46, y + 0.45), (x + 2.72, y + 0.45), arrowprops=style)
        axes.annotate("", (x + 6.96, target + 0.45), (x + 6.22, y + 0.45), arrowprops=style)


@styled
def same_idea() -> Picture:
    """The two vocabularies, side by side."""
    rows = [("in an operating system", "in a KV cache"), *SAME]
    figure, axes = new_figure(0.38 * len(rows) + 0.2)
    _grid(axes, rows, (0.5, 0.5))
    return Picture(figure, f"{len(SAME)} pairs of words for the same idea: "
                           + "; ".join(f"{one} is {other}" for one, other in SAME) + ".", SAME)


@styled
def memory_event_table() -> Picture:
    """What each event does to a block's reference count, to its key, to the free queue and to its contents."""
    rows = [("event", "reference count", "hash key", "free queue", "contents"),
            *((event, *effects) for event, effects in EFFECTS.items())]
    figure, axes = new_figure(4.9)
    _grid(axes, rows, (0.19, 0.19, 0.25, 0.19, 0.18))
    return Picture(figure, f"A table of {len(EFFECTS)} memory events and what each does to a block's reference count, "
                           f"hash key, place in the free queue and contents: {', '.join(EFFECTS)}.", EFFECTS)


def _grid(axes, rows: Sequence[Sequence[str]], widths: Sequence[float]) -> None:
    """A table with a head: wrapped cells, a pale band on every other row."""
    letters = 104  # of 9.5 points across the figure
    cells = [[wrap(text, max(8, int(letters * width))) for text, width in zip(row, widths)] for row in rows]
    heights = [max(len(lines) for lines in row) + 0.7 for row in cells]
    top, total = 0.0, sum(heights)
    axes.set(xlim=(0, 1), ylim=(total, 0))
    axes.axis("off")
    for at, (row, height) in enumerate(zip(cells, heights)):
        look = Look("#444444", "", PAPER) if at == 0 else Look("#F3F3F3" if at % 2 else PAPER, "", PAPER)
        box(axes, 0, top, 1, height, look, linewidth=0)
        left = 0.0
        for column, (lines, width) in enumerate(zip(row, widths)):
            write(axes, left + 0.008, top + height / 2, "\n".join(lines), look, ha="left", fontsize=9,
                  linespacing=1.15, fontweight="bold" if at == 0 or column == 0 and len(widths) > 2 else "normal")
            left += width
        top += height
