"""A drawing as plain data: boxes, words and lines on a page of pixels (the explorers of chapters 01 to 10).

An explorer redraws at every move of a slider. Making a matplotlib figure takes about 200 ms, writing an SVG text
less than 1 ms; but GitHub and other static viewers show PNG only. So a drawing is a list of shapes, which `svg.py`
writes for the screen and `png.py` for the page: one drawing, two ways to paint it.
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from minipaged.viz.style import LOOKS, Look, numbered_look

#: pixels; also the width of the SVG's own coordinates
WIDTH = 760
#: about the width of a character, in sizes of the text; to place words, not to measure them exactly
CHARACTER = 0.6


class Box(NamedTuple):
    """A rectangle. `look`: a name of style.LOOKS, or "request 3" for the look number 3."""

    x: float
    y: float
    width: float
    height: float
    look: str


class Words(NamedTuple):
    """Text whose baseline starts (align "start"), is centred ("middle") or ends ("end") at a point."""

    x: float
    y: float
    text: str
    align: str = "start"
    size: float = 13
    strong: bool = False


class Line(NamedTuple):
    """A line through points; `role`: "curve", "axis", "grid" or "mark"."""

    points: tuple[tuple[float, float], ...]
    role: str = "curve"


Shape = Box | Words | Line


class Scene(NamedTuple):
    """Shapes in the order of painting, on a page of WIDTH x `height` pixels."""

    height: float
    shapes: tuple[Shape, ...]


class Bar(NamedTuple):
    """One part of a stacked bar."""

    amount: float
    look: str


def look_of(name: str) -> Look:
    """The look that a box names. Errors: KeyError for a name that is not in style.LOOKS."""
    return numbered_look(int(name.removeprefix("request "))) if name.startswith("request ") else LOOKS[name]


# ---- what drawings are made of

def stacked_bar(x: float, y: float, width: float, height: float, parts: Sequence[Bar],
                total: float | None = None) -> list[Shape]:
    """Parts side by side from the left; the whole width is `total` (default: their sum)."""
    total = sum(part.amount for part in parts) if total is None else total
    shapes: list[Shape] = []
    for part in parts:
        span = width * part.amount / total if total else 0
        if span > 0:
            shapes.append(Box(x, y, span, height, part.look))
        x += span
    return shapes


def legend(x: float, y: float, entries: Mapping[str, str]) -> list[Shape]:
    """A line of swatches with words, label -> look; it goes on below when the page ends."""
    shapes: list[Shape] = []
    at = x
    for label, look in entries.items():
        needed = 40 + CHARACTER * 11 * len(label)
        if at > x and at + needed > WIDTH:
            at, y = x, y + 20
        shapes += [Box(at, y - 11, 22, 13, look), Words(at + 28, y, label, size=12)]
        at += needed + 8
    return shapes


class Frame(NamedTuple):
    """A rectangle of the page with numbers along its sides: x from 0 to `xmax`, y upwards from 0 to `ymax`."""

    x: float
    y: float
    width: float
    height: float
    xmax: float
    ymax: float

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The point of the page for a pair of numbers, two decimals."""
        return (round(self.x + self.width * x / self.xmax, 2),
                round(self.y + self.height * (1 - y / self.ymax), 2))

    def axes(self, xlabel: str, ylabel: str) -> list[Shape]:
        """Both axes with round numbers and what they count; grid lines across."""
        shapes: list[Shape] = []
        for value in ticks(self.ymax):
            left, level = self.at(0, value)
            shapes += [Line(((left, level), (self.x + self.width, level)), "grid"),
                       Words(self.x - 6, level + 4, number(value), "end", 12)]
        for value in ticks(self.xmax):
            shapes.append(Words(self.at(value, 0)[0], self.y + self.height + 16, number(value), "middle", 12))
        bottom = self.y + self.height
        shapes += [Line(((self.x, self.y), (self.x, bottom), (self.x + self.width, bottom)), "axis"),
                   Words(self.x, self.y - 8, ylabel, size=12),
                   Words(self.x + self.width, bottom + 32, xlabel, "end", 12)]
        return shapes

    def columns(self, edges: Sequence[float], stacks: Iterable[Sequence[Bar]]) -> list[Shape]:
        """A stack of parts between each two of `edges`, the first part at the bottom."""
        shapes: list[Shape] = []
        for left, right, parts in zip(edges, edges[1:], stacks):
            below = 0.0
            for part in parts:
                x, bottom = self.at(left, below)
                end, top = self.at(right, below + part.amount)
                if bottom > top and end > x:
                    shapes.append(Box(x, top, round(end - x, 2), round(bottom - top, 2), part.look))
                below += part.amount
        return shapes


class Span(NamedTuple):
    """What one row of a chart does from `start` to `end`."""

    start: float
    end: float
    look: str


def rows_over_time(frame: Frame, rows: Sequence[tuple[str, Sequence[Span]]], size: float = 12) -> list[Shape]:
    """One row a name, each span a box; `frame.ymax` is not used."""
    shapes: list[Shape] = []
    pitch = frame.height / max(1, len(rows))
    for index, (name, spans) in enumerate(rows):
        top = frame.y + index * pitch
        shapes.append(Words(frame.x - 8, top + pitch / 2 + 4, name, "end", size))
        for span in spans:
            left, right = frame.at(span.start, 0)[0], frame.at(span.end, 0)[0]
            shapes.append(Box(left, round(top + pitch * 0.1, 2), round(right - left, 2), round(pitch * 0.8, 2),
                              span.look))
    return shapes


def time_axis(frame: Frame, label: str) -> list[Shape]:
    """Round numbers below a chart of rows."""
    bottom = frame.y + frame.height
    shapes: list[Shape] = [Line(((frame.x, bottom + 2), (frame.x + frame.width, bottom + 2)), "axis")]
    shapes += [Words(frame.at(value, 0)[0], bottom + 18, number(value), "middle", 12) for value in ticks(frame.xmax)]
    return [*shapes, Words(frame.x + frame.width, bottom + 34, label, "end", 12)]


def ticks(largest: float) -> list[float]:
    """Round numbers from 0 to `largest`, about five of them: steps of 1, 2 or 5 times a power of ten."""
    if largest <= 0:
        return [0.0]
    rough = largest / 5
    power = 10.0 ** (len(f"{int(rough)}") - 1) if rough >= 1 else 10.0 ** -len(f"{int(1 / rough)}")
    step = next(power * factor for factor in (1, 2, 5, 10, 20, 50) if power * factor >= rough)
    return [round(step * index, 9) for index in range(int(largest / step + 1e-9) + 1)]


def count(amount: float, what: str) -> str:
    """"1 step", "1,200 steps"."""
    return f"{amount:,.0f} {what}{'' if round(amount) == 1 else 's'}"


def number(value: float) -> str:
    """As short as it can be read: 12,000; 0.25; 7."""
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
