"""How fast a kernel can be, and how fast it is (chapters 12 and 13).

    show(roofline(card("a100-80g"), [Kernel("decode, batch 1", flops=..., moved=..., seconds=...), ...]))
    show(traffic_ladder({"v0_source": counts, "v2_warp": counts, ...}, "sectors_per_request"))
    show(warp_reads({"neighbours": range(0, 128, 4), "one row a lane": range(0, 32 * 256, 256)}))
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from minipaged.viz.show import Picture
from minipaged.viz.style import (
    COLOURS,
    INK,
    LOOKS,
    MARKERS,
    box,
    legend,
    new_canvas,
    new_figure,
    numbered_look,
    plain_numbers,
    short,
    styled,
)

SECTOR = 32  # bytes that a GPU moves at least


class Machine(Protocol):
    """What a roofline needs of a card (`minipaged.sim.hardware.Card` has it)."""

    name: str
    bandwidth: float
    flops: float


class Kernel(NamedTuple):
    """One kernel call: operations, bytes moved, and its measured seconds (None: the bound itself is drawn)."""

    name: str
    flops: float
    moved: float
    seconds: float | None = None


@styled
def roofline(machine: Machine, kernels: Sequence[Kernel], title: str | None = None) -> Picture:
    """Operations a second against operations a byte; no kernel can be above the roof (Williams et al., 2009)."""
    ridge = machine.flops / machine.bandwidth
    points = []
    for kernel in kernels:
        intensity = kernel.flops / kernel.moved
        bound = min(machine.flops, intensity * machine.bandwidth)
        points.append((kernel.name, intensity, kernel.flops / kernel.seconds if kernel.seconds else bound, bound))
    low = min([ridge / 1000, *(at / 4 for _, at, _, _ in points)])
    high = max([ridge * 20, *(at * 4 for _, at, _, _ in points)])
    figure, axes = new_figure(4.0)
    axes.loglog((low, ridge, high), (low * machine.bandwidth / 1e12, machine.flops / 1e12, machine.flops / 1e12),
                color=INK, gid="roof")
    axes.axvline(ridge, color="#BBBBBB", linewidth=0.8, linestyle=":")
    floor = low * machine.bandwidth / 1e12
    axes.text(ridge * 1.1, floor * 1.6, f"ridge: {ridge:.0f} operations a byte", fontsize=9)
    axes.text(low * 1.4, floor * 14, f"memory: {machine.bandwidth / 1e12:.3g} TB/s", fontsize=9)
    axes.text(ridge, machine.flops / 1e12 * 1.2, f"arithmetic: {machine.flops / 1e12:.3g} TFLOP/s", fontsize=9)
    for index, (name, at, reached, _) in enumerate(points):
        axes.plot(at, reached / 1e12, marker=MARKERS[index % 7], markersize=9, linestyle="none", gid=name,
                  color=COLOURS[(index + 4) % 7], markeredgecolor=INK, label=f"{name}: {short(at)} ops/B")
    axes.set(xlim=(low, high), ylim=(floor, machine.flops / 1e12 * 2.6),
             xlabel="operations for each byte moved", ylabel="TFLOP/s", title=title or f"Roofline of {machine.name}")
    axes.grid(which="major")
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    figure.legend(loc="outside lower center", ncols=2)
    said = "; ".join(f"{name} at {short(at)} operations a byte "
                     + (f"reaches {reached / 1e12:.3g} TFLOP/s, {reached / bound:.0%} of its bound" if kernel.seconds
                        else f"is bound by {bound / 1e12:.3g} TFLOP/s")
                     for kernel, (name, at, reached, bound) in zip(kernels, points))
    return Picture(figure, f"Roofline of {machine.name}: {machine.bandwidth / 1e12:.3g} TB/s, "
                           f"{machine.flops / 1e12:.3g} TFLOP/s, ridge at {ridge:.0f} operations a byte. {said}.",
                   {"machine": machine.name, "ridge": ridge, "points": points})


@styled
def traffic_ladder(counts: Mapping[str, object], field: str = "global_load_sectors", title: str | None = None,
                   unit: str = "", best: float | None = None) -> Picture:
    """One counted number for each rung of the CUDA ladder. `counts`: rung -> kernels.traffic.Traffic, or numbers.

    `best`: the least or most that is possible, such as the bandwidth of a plain copy, drawn as a line.
    """
    values = {name: float(one if isinstance(one, (int, float)) else getattr(one, field))
              for name, one in counts.items()}
    label = field.replace("_", " ")
    figure, axes = new_figure(1.2 + 0.45 * len(values))
    for at, (name, value) in enumerate(values.items()):
        axes.barh(at, value, height=0.66, gid=name, **numbered_look(4)._replace(hatch="").patch())
        axes.text(value, at, f"  {short(value)}{unit}", va="center", fontsize=9.5)
    if best is not None:
        axes.axvline(best, color=INK, linewidth=1.2, linestyle="--")
        axes.text(best, len(values) - 0.2, f"  best {short(best)}", va="center", fontsize=9)  # a row of its own
    axes.set(xlim=(0, max([*values.values(), best or 0]) * 1.18 or 1),
             xlabel=label + (f" ({unit.strip()})" if unit else ""),
             title=title or f"{label[0].upper()}{label[1:]}, rung by rung")
    axes.set_yticks(range(len(values)), values)
    axes.set_ylim(len(values) - (0.5 if best is None else -0.1), -0.5)
    axes.tick_params(axis="y", length=0)
    plain_numbers(axes.xaxis)
    said = ", ".join(f"{name} {short(value)}" for name, value in values.items())
    return Picture(figure, f"Counted {label} of {len(values)} kernels, one bar each: {said}."
                           + (f" The best possible is {short(best)}." if best is not None else ""),
                   {field: values, "best": best})


@styled
def warp_reads(patterns: Mapping[str, Sequence[int]], bytes_each: int = 4) -> Picture:
    """The 32-byte sectors that one read of a warp touches, a row a pattern, each as full as its bytes are wanted.

    `patterns`: name -> byte address of each lane. Four sectors for 32 lanes of 4 bytes is the best there is.
    """
    touched = {}
    for name, addresses in patterns.items():
        wanted: dict[int, set[int]] = {}
        for address in addresses:
            for byte in range(address, address + bytes_each):
                wanted.setdefault(byte // SECTOR, set()).add(byte)
        touched[name] = [len(found) for _, found in sorted(wanted.items())]
    figure, axes = new_canvas(max(33, *map(len, touched.values())) + 1, 3.4 * len(touched) - 0.8, 1, pad=0.3)
    for row, (name, sectors) in enumerate(touched.items()):
        y = 3.4 * row
        used = sum(sectors) / (SECTOR * len(sectors))
        axes.text(0, y + 0.55, f"{name}: {len(sectors)} sectors, {100 * used:.3g}% of the bytes wanted", fontsize=9.5)
        for at, count in enumerate(sectors):
            box(axes, at, y + 1.0, 0.88, 1.3, LOOKS["masked"], gid=f"{name}:{at}", linewidth=0.5)
            box(axes, at, y + 1.0, 0.88 * count / SECTOR, 1.3, LOOKS["used"], linewidth=0)
    axes.set_title(f"What one read of {len(next(iter(patterns.values())))} lanes moves")
    legend(figure, {"wanted bytes": LOOKS["used"], "moved for nothing": LOOKS["masked"]})
    said = "; ".join(f"{name}: {len(sectors)} sectors, {sum(sectors)} of {SECTOR * len(sectors)} bytes wanted"
                     for name, sectors in touched.items())
    return Picture(figure, f"Sectors of {SECTOR} bytes that one read of a warp touches. {said}.", touched)
