"""A scene as PNG bytes, painted by matplotlib: what an explorer leaves in a notebook that nobody runs."""
from __future__ import annotations

from io import BytesIO

from minipaged.viz.style import INK, MUTED, RC
from minipaged.viz.widgets.scene import WIDTH, Box, Scene, Words, look_of

_DPI = 110
_ALIGN = {"start": "left", "middle": "center", "end": "right"}
_LINES = {"curve": (INK, 2.0, "-"), "axis": (MUTED, 1.0, "-"), "grid": ("#DDDDDD", 1.0, "-"), "mark": (INK, 1.4, "--")}


def to_png(scene: Scene) -> bytes:
    """The picture; the same bytes each time with the same version of matplotlib."""
    from matplotlib import rc_context

    with rc_context(RC):  # whatever the reader's own settings are
        return _paint(scene)


def _paint(scene: Scene) -> bytes:
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    figure = Figure(figsize=(WIDTH / 100, scene.height / 100))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(scene.height, 0))
    axes.axis("off")
    points = 0.72  # of a typographic point in a hundredth of an inch, which is a pixel here
    for order, shape in enumerate(scene.shapes):
        if isinstance(shape, Box):
            axes.add_patch(Rectangle((shape.x, shape.y), shape.width, shape.height, zorder=order,
                                     **look_of(shape.look).patch(linewidth=0.8 * points)))
        elif isinstance(shape, Words):
            axes.text(shape.x, shape.y, shape.text, ha=_ALIGN[shape.align], va="baseline", zorder=order,
                      fontsize=shape.size * points, fontweight="bold" if shape.strong else "normal",
                      parse_math=False)
        else:
            colour, width, style = _LINES[shape.role]
            xs, ys = zip(*shape.points)
            axes.plot(xs, ys, color=colour, linewidth=width * points, linestyle=style, zorder=order)
    image = BytesIO()
    figure.savefig(image, format="png", dpi=_DPI, metadata={"Software": None})
    return image.getvalue()
