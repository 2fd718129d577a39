"""Where the slots of a memory are (chapters 02, 03 and 16): used, reserved, internal, external, free.

    show(waste_stack({"reserve the maximum": split, "paged, blocks of 16": other}))   # formulas.WasteSplit
    show(waste_over_time(result.memory))                                              # sim.SimResult.memory
    show(region_strip(4096, [Region("A", 0, 2048, 50, 100), ...]))
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from minipaged.viz.show import Picture
from minipaged.viz.style import LOOKS, MUTED, box, legend, new_canvas, new_figure, styled, write

#: class -> what it means, in the order of the paper's figure 2
KINDS = {"used": "used: holds a token", "reserved": "reserved: filled later", "internal": "internal: never filled",
         "external": "external: hole too small", "free": "free: usable"}


class Region(NamedTuple):
    """A contiguous piece of memory: `current` of its slots are filled now, `final` at the request's end."""

    name: str
    start: int
    length: int
    current: int
    final: int


def shares(split: object) -> dict[str, float]:
    """The five classes as parts of 1.

    `split`: a WasteSplit, a mapping with (some of) the five names as `sim.metrics.memory_shares` gives it, or a row
    of the experiment memory_waste ("ours used %", "reserved %", ...).
    """
    if isinstance(split, Mapping):
        amounts = {name: next((split[key] for key in (name, f"{name} %", f"ours {name} %") if key in split), 0)
                   for name in KINDS}
    else:
        amounts = {name: getattr(split, name, 0) for name in KINDS}
    total = sum(amounts.values())
    if total <= 0:
        raise ValueError(f"a memory without slots: {split!r}; it needs at least one of {', '.join(KINDS)} above 0")
    return {name: amount / total for name, amount in amounts.items()}


@styled
def waste_stack(splits: Mapping[str, object], title: str = "Where the KV memory is") -> Picture:
    """One bar a system, cut into the five classes in percent. `splits`: name -> WasteSplit or mapping."""
    rows = {name: shares(split) for name, split in splits.items()}
    figure, axes = new_figure(1.5 + 0.52 * len(rows))
    for at, parts in enumerate(rows.values()):
        left = 0.0
        for name, part in parts.items():
            if part:
                axes.barh(at, 100 * part, left=left, height=0.7, gid=name, **LOOKS[name].patch())
                if part >= 0.055:
                    write(axes, left + 50 * part, at, f"{100 * part:.1f}", LOOKS[name], fontsize=9)
            left += 100 * part
    axes.set(xlim=(0, 100), xlabel="percent of all slots", title=title)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    legend(figure, {KINDS[name]: LOOKS[name] for name in KINDS if any(parts[name] for parts in rows.values())}, 3)
    said = "; ".join(f"{name}: {_percents(parts)}" for name, parts in rows.items())
    return Picture(figure, f"Bars of KV memory in percent of all slots. {said}.",
                   {name: list(parts.values()) for name, parts in rows.items()})


@styled
def waste_over_time(samples: Iterable[object], title: str = "The same memory over time", points: int = 80) -> Picture:
    """A stacked area of the five classes. `samples`: things with `.time` in seconds and `.split` (MemorySample)."""
    samples = list(samples)
    if not samples:
        raise ValueError("no memory samples; run the simulator with sample_every above 0")
    taken = samples[::-(-len(samples) // points)]
    times = [one.time for one in taken]
    parts = [shares(one.split) for one in taken]
    figure, axes = new_figure(3.4)
    columns = {name: [100 * part[name] for part in parts] for name in KINDS}
    areas = axes.stackplot(times, *columns.values())
    for area, name in zip(areas, columns):
        area.set(gid=name, **LOOKS[name].patch(linewidth=0.4))
    axes.set(xlim=(times[0], times[-1] if len(times) > 1 else times[0] + 1), ylim=(0, 100), title=title,
             xlabel="virtual time in seconds", ylabel="percent of all slots")
    legend(figure, {KINDS[name]: LOOKS[name] for name in KINDS if any(columns[name])}, 3)
    mean = {name: sum(column) / len(column) / 100 for name, column in columns.items()}
    peak = max(columns["used"])
    return Picture(figure, f"KV memory over {times[-1] - times[0]:.0f} seconds, on average {_percents(mean)}; "
                           f"at most {peak:.1f}% of the slots hold a token.",
                   {"time": times, **{name: [round(one, 1) for one in column] for name, column in columns.items()}})


@styled
def region_strip(num_slots: int, regions: Sequence[Region], title: str = "Contiguous regions",
                 wanted: int | None = None) -> Picture:
    """One memory of `num_slots` slots from left to right, with the regions in it and the holes between.

    `wanted`: slots that the next request asks for; smaller holes are drawn as lost to external fragmentation.
    """
    regions = sorted(regions, key=lambda region: region.start)
    holes, end = [], 0
    for region in regions:
        holes.append((end, region.start - end))
        end = region.start + region.length
    holes = [(start, length) for start, length in (*holes, (end, num_slots - end)) if length > 0]
    lost = [hole for hole in holes if wanted is not None and hole[1] < wanted]
    figure, axes = new_canvas(100, 14, 2)
    scale = 100 / num_slots
    for region in regions:
        final = min(region.final, region.length)
        edges = (0, region.current, final, region.length)
        for kind, left, right in zip(("used", "reserved", "internal"), edges, edges[1:]):
            if right > left:
                box(axes, (region.start + left) * scale, 4, (right - left) * scale, 6, LOOKS[kind], gid=kind)
        axes.annotate("", ((region.start + region.length) * scale, 3.2), (region.start * scale, 3.2),
                      arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25", "shrinkA": 1, "shrinkB": 1,
                                  "linewidth": 0.8})
        axes.text((region.start + region.length / 2) * scale, 2.2, f"{region.name}: {region.current} of "
                  f"{region.length}", ha="center", fontsize=9)
    for start, length in holes:
        kind = "external" if (start, length) in lost else "free"
        box(axes, start * scale, 4, length * scale, 6, LOOKS[kind], gid=kind)
        axes.text((start + length / 2) * scale, 13, f"hole of {length}", ha="center", fontsize=9, color=MUTED)
    axes.set_title(title)
    shown = ["used", "reserved", "internal", *(["external"] if lost else []), "free"]
    legend(figure, {KINDS[name]: LOOKS[name] for name in shown}, 3)
    used, held = sum(one.current for one in regions), sum(one.length for one in regions)
    holes_in_words = f"{len(holes)} hole{'' if len(holes) == 1 else 's'}"
    ask = f" The next request asks for {wanted}: too small are {len(lost)} of the {holes_in_words}." if wanted else ""
    return Picture(figure, f"A memory of {num_slots} slots with {len(regions)} regions: {held} slots are held, {used} "
                           f"of them hold a token, {num_slots - held} are free in {holes_in_words}.{ask}",
                   {"slots": num_slots, "regions": [list(one) for one in regions], "holes": holes, "wanted": wanted})


def _percents(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {100 * part:.1f}%" for name, part in parts.items() if part)
