"""What one read of a warp moves, by how far apart its lanes read (chapter 13)."""
from __future__ import annotations

from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.scene import Bar, Box, Scene, Shape, Words, count, legend, stacked_bar

LANES, SECTOR = 32, 32  # lanes of a warp; bytes that a GPU moves at least


def warp_explorer() -> Explorer:
    """Bytes of a lane, distance between lanes, where lane 0 begins; sectors that are touched, and their use."""
    return Explorer("One read of a warp", (
        Control("each", "Each lane reads", (2, 4, 8, 16), 4, "bytes"),
        Control("apart", "Lanes are apart by", (2, 4, 8, 16, 32, 64, 128, 256, 512), 256, "bytes"),
        Control("start", "Lane 0 begins at", (0, 4, 16, 28), 0, words=("byte 0", "byte 4", "byte 16", "byte 28")),
    ), _show)


def sectors(each: int, apart: int, start: int) -> list[int]:
    """Wanted bytes of each sector that the warp touches, in order of addresses."""
    wanted: dict[int, set[int]] = {}
    for lane in range(LANES):
        for byte in range(start + lane * apart, start + lane * apart + each):
            wanted.setdefault(byte // SECTOR, set()).add(byte)
    return [len(found) for _, found in sorted(wanted.items())]


def _show(each: int, apart: int, start: int) -> Shown:
    touched = sectors(each, apart, start)
    wanted, moved = sum(touched), SECTOR * len(touched)
    sentence = (f"{LANES} lanes read {each} bytes each, {apart} bytes apart: {count(len(touched), 'sector')} of "
                f"{SECTOR} bytes. {moved:,} bytes are moved and {wanted:,} of them are wanted, {wanted / moved:.0%}.")
    return Shown(_draw(touched, wanted, moved), sentence,
                 {"sectors": len(touched), "moved": moved, "wanted": wanted, "use": wanted / moved})


def _draw(touched: list[int], wanted: int, moved: int) -> Scene:
    shapes: list[Shape] = [Words(24, 28, f"{count(len(touched), 'sector')}, each as full as it is wanted", strong=True)]
    for at, used in enumerate(touched):
        row, column = divmod(at, 32)
        x, y = 24 + 22 * column, 42 + 48 * row
        shapes += [Box(x, y, 18, 36, "masked"), Box(x, y + 36 * (1 - used / SECTOR), 18, 36 * used / SECTOR, "used")]
    shapes.append(Words(24, 162, "Bytes", strong=True))
    shapes += stacked_bar(24, 174, 700, 26, [Bar(wanted, "used"), Bar(moved - wanted, "masked")], 64 * SECTOR)
    shapes += legend(24, 226, {"wanted": "used", "moved for nothing": "masked"})
    return Scene(246, tuple(shapes))
