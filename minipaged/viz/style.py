"""How every figure looks: colours, hatches, sizes (all chapters).

Two rules. Colour never is the only sign: what has another colour has another hatch, line or label too, so a
figure can be read in grey. And every figure is 8 inches wide with text of 9 points or more, so it can be read at
the width of a notebook.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Okabe and Ito's colours, which people with colour blindness tell apart; black is left for the text.
ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PINK = COLOURS = (
    "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7")
#: A second sign beside the colour, for print without colour and for more than seven requests.
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "---", "|||", "ooo", "++")
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKERS = "osD^vPX"

INK, MUTED, PALE, PAPER = "#222222", "#6B6B6B", "#E4E4E4", "white"
WIDTH = 8.0  # inches
DPI = 110

#: What a reader's own matplotlib settings may not change.
RC = {
    "font.family": ["DejaVu Sans"], "font.size": 10, "axes.titlesize": 11, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "axes.labelsize": 10, "xtick.labelsize": 9.5, "ytick.labelsize": 9.5,
    "legend.fontsize": 9.5, "legend.frameon": False, "text.color": INK, "axes.labelcolor": INK, "xtick.color": MUTED,
    "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.edgecolor": MUTED,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.8, "axes.grid": False,
    "grid.color": "#DDDDDD", "grid.linewidth": 0.8, "axes.axisbelow": True, "hatch.linewidth": 0.8,
    "lines.linewidth": 2.0, "lines.markersize": 5, "figure.facecolor": PAPER, "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER, "figure.constrained_layout.w_pad": 0.06, "figure.constrained_layout.h_pad": 0.06,
    "figure.dpi": DPI, "axes.unicode_minus": True, "mathtext.default": "regular", "text.usetex": False,
}


class Look(NamedTuple):
    """How one class is drawn: its fill, its hatch, and the colour of hatch and border."""

    facecolor: str
    hatch: str
    edgecolor: str

    def patch(self, **more: object) -> dict:
        """Arguments for a patch or a bar."""
        return {**self._asdict(), "linewidth": 0.8, **more}


#: The classes that several figures share.
LOOKS = {
    "used": Look(BLUE, "", PAPER),
    "reserved": Look(ORANGE, "///", "#5A3D00"),
    "internal": Look(PINK, "xx", PAPER),
    "external": Look(VERMILION, "\\\\\\", INK),
    "free": Look(PAPER, "", "#AAAAAA"),
    "cached": Look(PALE, "...", "#8A8A8A"),
    "prefill": Look(BLUE, "///", PAPER),
    "decode": Look(SKY, "", PAPER),
    "idle": Look("#F4F4F4", "...", "#8A8A8A"),
    "waiting": Look(PAPER, "", "#AAAAAA"),
    "preempted": Look(VERMILION, "xxx", PAPER),
    "swapped": Look(PINK, "\\\\\\", INK),
    "paused": Look(YELLOW, "---", MUTED),
    "host": Look(PINK, "\\\\\\", INK),
    "shared": Look(GREEN, "xxx", PAPER),
    "copied": Look(YELLOW, "///", MUTED),
    "read": Look(SKY, "", PAPER),
    "masked": Look(PALE, "///", "#8A8A8A"),
}


def numbered_look(index: int) -> Look:
    """The look of the request, run or system number `index`: seven colours, nine hatches."""
    colour = COLOURS[index % len(COLOURS)]
    return Look(colour, HATCHES[index % len(HATCHES)], PAPER if colour in (BLUE, GREEN) else INK)


def looks_of(names: Iterable[str]) -> dict[str, Look]:
    """A look for each name, by the order of their first appearance."""
    return {name: numbered_look(index) for index, name in enumerate(dict.fromkeys(names))}


def line_of(index: int) -> dict:
    """Colour, dash and marker of the curve number `index`; black and orange are far apart in grey too."""
    colours = (BLUE, ORANGE, INK, GREEN, VERMILION, SKY, PINK)
    return {"color": colours[index % 7], "linestyle": LINES[index % 7], "marker": MARKERS[index % 7]}


def luminance(colour: str) -> float:
    """Brightness of a colour in a print without colour, 0 to 1 (Rec. 601 weights)."""
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(colour)
    return 0.299 * red + 0.587 * green + 0.114 * blue


def styled(draw: Callable) -> Callable:
    """A function that draws a Picture or a Figure under RC, whatever the reader's matplotlib settings are.

    The layout is settled here, once: else each rendering would move it a little.
    """

    @wraps(draw)
    def drawn(*args: object, **options: object):
        from matplotlib import rc_context

        with rc_context(RC):
            made = draw(*args, **options)
            made.figure.draw_without_rendering()  # the `figure` of a Figure is itself
            made.figure.set_layout_engine("none")
        return made

    return drawn


def new_figure(height: float, rows: int = 1, columns: int = 1, **options: object):
    """(figure, its axes as `Figure.subplots` gives them), as wide as a notebook and `height` inches high."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def new_canvas(width: float, height: float, legend_rows: int = 1, pad: float = 0.1) -> tuple[Figure, Axes]:
    """(figure, axes) to draw shapes on: x from 0 to `width`, y downwards from 0 to `height`, one scale for both.

    The figure is as high as the shapes, a title and `legend_rows` rows of a legend need.
    """
    shapes = (WIDTH - 0.3) * (height + 2 * pad) / (width + 2 * pad)
    figure, axes = new_figure(shapes + 0.4 + 0.27 * legend_rows)
    axes.set(xlim=(-pad, width + pad), ylim=(height + pad, -pad), aspect="equal")
    axes.axis("off")
    return figure, axes


def short(value: float) -> str:
    """A number for a label: three significant digits, whole above 1,000."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def plain_numbers(axis) -> None:
    """Tick labels as a reader writes them, 0.02 and 10,000; on a log axis of few decades at 2 and 5 too."""
    from math import log10

    from matplotlib.ticker import FuncFormatter

    def between(value: float, _: int) -> str:
        low, high = axis.get_view_interval()
        return f"{value:,.6g}" if f"{value:e}"[0] in "25" and log10(high / low) < 1.7 else ""

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    if axis.get_scale() == "log":
        axis.set_minor_formatter(FuncFormatter(between))


def legend(figure: Figure, entries: Mapping[str, Look], columns: int = 4) -> None:
    """One line of labelled swatches below the figure."""
    from matplotlib.patches import Patch

    handles = [Patch(**look.patch(edgecolor=look.edgecolor if look.edgecolor != PAPER else look.facecolor)
                     if not look.hatch else look.patch(), label=label) for label, look in entries.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=2.4, handleheight=1.2,
                  columnspacing=1.6)


def box(axes: Axes, x: float, y: float, width: float, height: float, look: Look, label: str = "",
        **options: object) -> None:
    """A rectangle with text in its middle; the text stands on a white plate where a hatch would cross it."""
    from matplotlib.patches import Rectangle

    text = {key: options.pop(key) for key in ("fontsize", "fontweight", "color") if key in options}
    axes.add_patch(Rectangle((x, y), width, height, **look.patch(**options)))
    if label:
        write(axes, x + width / 2, y + height / 2, label, look, **text)


def write(axes: Axes, x: float, y: float, text: str, look: Look, **options: object) -> None:
    """Text on a fill: white on a dark one, on a white plate where there is a hatch."""
    style: dict = {"ha": "center", "va": "center", "fontsize": 9.5, **options}
    if look.hatch:
        style["color"] = INK
        style["bbox"] = {"boxstyle": "round,pad=0.15", "facecolor": PAPER, "edgecolor": "none"}
    elif luminance(look.facecolor) < 0.45:
        style["color"] = PAPER
    axes.text(x, y, text, **style)
