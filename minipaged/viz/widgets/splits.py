"""Programs on a card: why a long context is split (chapter 12).

A decode kernel has one program for each (request, KV head, split of the context), and a card runs as many at a time
as it has multiprocessors. What is shown is arithmetic, not a measurement: each program reads its keys and values at
its multiprocessor's share of the bandwidth, and the splits' results are written and read once more.
"""
from __future__ import annotations

from minipaged.sim.hardware import card
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.scene import Bar, Scene, Shape, Words, count, legend, stacked_bar

#: card -> multiprocessors, from NVIDIA's architecture whitepapers
MULTIPROCESSORS = {"a100-80g": 108, "h100": 132, "h200": 132, "rtx-4090": 128}
KV_HEADS, GROUP, HEAD_DIM, ELEMENT = 8, 4, 128, 2  # a layer of Llama-3-8B in 16 bits


def split_explorer() -> Explorer:
    """Card, requests, context and splits; how busy the card is and the least time of one layer's attention."""
    return Explorer("Programs on a card", (
        Control("card", "Card", tuple(MULTIPROCESSORS), "h100", slider=False),
        Control("requests", "Requests", (1, 2, 4, 8, 16, 32, 64), 1),
        Control("context", "Context of each", (512, 2048, 8192, 32768, 131072), 32768, "tokens"),
        Control("splits", "Splits", (1, 2, 4, 8, 16, 32, 64, 128), 1),
    ), _show)


def estimate(name: str, requests: int, context: int, splits: int) -> dict[str, float]:
    """Programs, rounds, the busy share of the multiprocessors, bytes, and microseconds at best."""
    device, units = card(name), MULTIPROCESSORS[name]
    programs = requests * KV_HEADS * splits
    rounds = -(-programs // units)
    tokens = -(-context // splits)
    read = 2 * tokens * HEAD_DIM * ELEMENT  # keys and values of one program
    partial = 0 if splits == 1 else 2 * programs * GROUP * (HEAD_DIM + 1) * 4  # float32, written and read again
    seconds = rounds * read / (device.bandwidth / units) + partial / device.bandwidth
    return {"programs": programs, "rounds": rounds, "busy": programs / (rounds * units), "cache_bytes": programs * read,
            "partial_bytes": partial, "microseconds": seconds * 1e6}


def _show(card: str, requests: int, context: int, splits: int) -> Shown:
    now, whole = estimate(card, requests, context, splits), estimate(card, requests, context, 1)
    units = MULTIPROCESSORS[card]
    sentence = (f"{count(now['programs'], 'program')} on {units} multiprocessors: {count(now['rounds'], 'round')}, "
                f"and on average {now['busy']:.0%} of the card is at work. It reads {now['cache_bytes'] / 1e6:,.1f} MB "
                f"of keys and values and moves {now['partial_bytes'] / 1e6:,.2f} MB for the splits' results: "
                f"{now['microseconds']:,.1f} microseconds at best, {whole['microseconds']:,.1f} without splits.")
    return Shown(_draw(now, whole, units), sentence, {**now, "without_splits": whole["microseconds"]})


def _draw(now: dict[str, float], whole: dict[str, float], units: int) -> Scene:
    shapes: list[Shape] = [Words(24, 28, f"{units} multiprocessors, on average", strong=True)]
    shapes += stacked_bar(24, 40, 700, 32, [Bar(now["busy"], "used"), Bar(1 - now["busy"], "idle")])
    shapes += legend(24, 96, {"at work": "used", "idle": "idle"})
    shapes.append(Words(24, 136, "Least time of one layer's attention", strong=True))
    most = max(now["microseconds"], whole["microseconds"])
    for index, (name, one, look) in enumerate((("as set", now, "used"), ("no splits", whole, "reserved"))):
        y = 150 + 34 * index
        shapes.append(Words(24, y + 18, name, size=12))
        shapes += stacked_bar(110, y, 500, 24, [Bar(one["microseconds"], look)], most)
        shapes.append(Words(118 + 500 * one["microseconds"] / most, y + 18, f"{one['microseconds']:,.1f} µs", size=12))
    return Scene(226, tuple(shapes))
