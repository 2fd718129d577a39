"""How serving went (chapters 07 to 10, 14 and 16): percentiles, rates, and ours beside what was published.

    show(latency_percentiles({"fcfs": metrics.ttft(one), "round robin": metrics.ttft(other)}, "first token"))
    show(rate_curves({"paged": (rates, seconds), ...}, limit=0.1))
    show(beside_published(report.rows, "system", "ours used %", "published used %"))
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence

from minipaged.viz.show import Picture
from minipaged.viz.style import BLUE, INK, ORANGE, Look, legend, line_of, looks_of, new_figure, plain_numbers, styled

PERCENTILES = (50, 90, 95, 99)


def percentile(values: Sequence[float], at: float) -> float:
    """Linear between the two neighbours, as numpy's default."""
    ordered = sorted(map(float, values))
    place = (len(ordered) - 1) * at / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@styled
def latency_percentiles(runs: Mapping[str, Sequence[float]], what: str = "latency", unit: str = "s",
                        log: bool = False) -> Picture:
    """Groups of bars: p50, p90, p95 and p99 of each run. `runs`: name -> values in `unit`; empty ones are refused."""
    for name, values in runs.items():
        if not len(values):
            raise ValueError(f"run {name!r} has no values to draw")
    table = {name: [percentile(values, at) for at in PERCENTILES] for name, values in runs.items()}
    looks = looks_of(table)
    figure, axes = new_figure(3.4)
    width = 0.8 / len(table)
    for index, (name, row) in enumerate(table.items()):
        xs = [group - 0.4 + width * (index + 0.5) for group in range(len(PERCENTILES))]
        axes.bar(xs, row, width=width * 0.94, gid=name, **looks[name].patch())
        for x, value in zip(xs, row if len(table) <= 4 else ()):
            axes.annotate(f"{value:.3g}", (x, value), (0, 2), textcoords="offset points", ha="center", fontsize=9)
    axes.set_xticks(range(len(PERCENTILES)), [f"p{at}" for at in PERCENTILES])
    axes.tick_params(axis="x", length=0)
    axes.set(ylabel=unit, title=f"{what[0].upper()}{what[1:]}: half of the requests, and the unlucky ones")
    axes.margins(y=0.12)
    if log:
        axes.set_yscale("log")
    legend(figure, looks)
    said = "; ".join(f"{name}: " + ", ".join(f"p{at} {value:.3g}" for at, value in zip(PERCENTILES, row))
                     for name, row in table.items())
    return Picture(figure, f"Percentiles of {what} in {unit}. {said}.", table)


@styled
def rate_curves(curves: Mapping[str, tuple[Sequence[float], Sequence[float]]], limit: float | None = None, *,
                x: str = "requests a second", y: str = "mean latency a token in seconds",
                title: str = "Latency against load", log: bool = True) -> Picture:
    """One curve a system; with `limit`, the load at which each passes it (on the line between two points)."""
    figure, axes = new_figure(3.7)
    crossed = {}
    for index, (name, (loads, values)) in enumerate(curves.items()):
        axes.plot(loads, values, label=name, gid=name, **line_of(index))
        crossed[name] = crossing(loads, values, limit) if limit is not None else None
    if limit is not None:
        axes.axhline(limit, color=INK, linewidth=1, linestyle=(0, (1, 2)))
        axes.annotate(f"limit {limit:g}", (0, limit), (4, 3), xycoords=("axes fraction", "data"),
                      textcoords="offset points", fontsize=9)
    axes.set(xlabel=x, ylabel=y, title=title, yscale="log" if log else "linear")
    if not log:
        axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.grid(axis="y")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    figure.legend(loc="outside lower center", ncols=2, handlelength=4)
    said = "; ".join(
        f"{name}: {values[0]:.3g} at {loads[0]:g}, {values[-1]:.3g} at {loads[-1]:g}"
        + (f", passes the limit of {limit:g} at {crossed[name]:.3g}" if crossed[name] is not None else "")
        for name, (loads, values) in curves.items())
    return Picture(figure, f"{title}, {len(curves)} curves of {y} by {x}. {said}.",
                   {"limit": limit, "crossed": crossed,
                    "curves": {name: [list(map(float, part)) for part in curve] for name, curve in curves.items()}})


def crossing(loads: Sequence[float], values: Sequence[float], limit: float) -> float | None:
    """The load at which a rising curve passes `limit`; None: it does not, between the first and the last point."""
    for low, high, below, above in zip(loads, loads[1:], values, values[1:]):
        if below < limit <= above:
            return float(low + (high - low) * (limit - below) / (above - below))
    return None


@styled
def beside_published(rows: Sequence[Mapping], label: str, ours: str, published: str,
                     title: str = "Published and ours") -> Picture:
    """Two bars a row: what a paper says and what we got. A published value may be a number, a range such as
    "44.3 to 66.3", or None; `label`, `ours`, `published` are keys of the rows (see sim.experiments)."""
    looks = {"published": Look(ORANGE, "///", "white"), "ours": Look(BLUE, "", "white")}
    figure, axes = new_figure(1.5 + 0.62 * len(rows))
    points, biggest = [], 0.0
    for row in rows:
        low, high = _range(row.get(published))
        value = None if row.get(ours) is None else float(row[ours])
        points.append((str(row[label]), low, high, value))
        biggest = max(biggest, high or 0.0, value or 0.0)
    for at, (_, low, high, value) in enumerate(points):
        for name, number, shift in (("published", high, -0.19), ("ours", value, 0.19)):
            if number is None:
                text = "-"
            else:
                axes.barh(at + shift, number, height=0.36, gid=name, **looks[name].patch())
                text = f"{number:g}" if name == "ours" or low == high else f"{low:g} to {high:g}"
            axes.text(number or 0, at + shift, f"  {text}", va="center", fontsize=9)
        if low is not None and low != high:
            axes.plot((low, low), (at - 0.35, at - 0.03), color=INK, linewidth=1.2)
    axes.set(xlim=(0, biggest * 1.18 or 1), xlabel=ours.removeprefix("ours").removeprefix("our").strip() or ours,
             title=title)
    axes.set_yticks(range(len(points)), [name for name, *_ in points])
    axes.set_ylim(len(points) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    legend(figure, looks)
    said = "; ".join(f"{name}: published {_say(low, high)}, ours {'not measured' if value is None else f'{value:g}'}"
                     for name, low, high, value in points)
    return Picture(figure, f"{title}, {len(points)} pairs of bars. {said}.", points)


def _range(value: object) -> tuple[float | None, float | None]:
    """(low, high) of a published value; (None, None) where nothing was published."""
    if value is None:
        return None, None
    if isinstance(value, (int, float)):
        return float(value), float(value)
    numbers = [float(word) for word in str(value).replace("x", " ").split() if word.replace(".", "", 1).isdigit()]
    return (min(numbers), max(numbers)) if numbers else (None, None)


def _say(low: float | None, high: float | None) -> str:
    return "nothing" if low is None else f"{low:g}" if low == high else f"{low:g} to {high:g}"
