"""A figure as a reader without colour sees it: which classes of its legends look the same (see test_figures.py)."""
from __future__ import annotations

from itertools import combinations

import numpy as np
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from minipaged.viz.style import RC, luminance

APART = 0.06  # of black to white


def grey_pixels(figure: Figure) -> np.ndarray:
    """[height, width] brightness, 0 to 1, row 0 at the top."""
    canvas = FigureCanvasAgg(figure)
    with rc_context(RC):
        canvas.draw()
    red, green, blue = np.asarray(canvas.buffer_rgba())[..., :3].transpose(2, 0, 1) / 255
    return 0.299 * red + 0.587 * green + 0.114 * blue


def alike(figure: Figure) -> list[tuple[str, str]]:
    """Pairs of legend entries that nothing but colour tells apart."""
    pixels = grey_pixels(figure)
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    entries = [(text.get_text(), _look(handle, pixels)) for legend in legends
               for text, handle in zip(legend.get_texts(), legend.legend_handles)]
    return [(one, other) for (one, first), (other, second) in combinations(entries, 2)
            if type(first) is type(second) and not _apart(first, second)]


def _look(handle, pixels: np.ndarray):
    """A line is its dash, marker and brightness; a swatch is what its pixels are: brightness, texture, direction."""
    if isinstance(handle, Line2D):
        return str(handle.get_linestyle()), str(handle.get_marker()), luminance(handle.get_color())
    area = handle.get_window_extent()
    top = pixels.shape[0]
    swatch = pixels[round(top - area.y1) + 2:round(top - area.y0) - 1, round(area.x0) + 2:round(area.x1) - 1]
    assert swatch.size > 50, "no swatch"
    down, right = np.abs(np.diff(swatch, axis=0)).mean(), np.abs(np.diff(swatch, axis=1)).mean()
    falling = np.abs(swatch[1:, 1:] - swatch[:-1, :-1]).mean()  # 0 along lines that fall to the right
    rising = np.abs(swatch[1:, :-1] - swatch[:-1, 1:]).mean()
    edge = pixels[round(top - area.y0) - 1, round(area.x0):round(area.x1)].min()  # the border
    return np.array([swatch.mean(), swatch.std(), down, right, falling, rising, edge / 3])


def _apart(first, second) -> bool:
    if isinstance(first, tuple):
        return first[:2] != second[:2] or abs(first[2] - second[2]) >= 0.15
    return bool(np.abs(first - second).max() >= APART)
