"""A scene as one SVG text: what an explorer shows on the screen. Hatches are patterns, one for each look."""
from __future__ import annotations

from html import escape

from minipaged.viz.style import INK, MUTED, PAPER
from minipaged.viz.widgets.scene import WIDTH, Box, Line, Scene, Shape, Words, look_of

#: matplotlib's hatch letters as paths in a square of 8 pixels that repeats
_HATCH_PATHS = {
    "/": "M-2,2L2,-2M0,8L8,0M6,10L10,6", "\\": "M-2,6L2,10M0,0L8,8M6,-2L10,2", "x": "M0,0L8,8M0,8L8,0",
    "-": "M0,4H8", "|": "M4,0V8", "+": "M0,4H8M4,0V8", ".": "M3,4a1,1 0 1 0 2,0a1,1 0 1 0 -2,0",
    "o": "M1.5,4a2.5,2.5 0 1 0 5,0a2.5,2.5 0 1 0 -5,0",
}
_LINES = {"curve": (INK, 2.0, ""), "axis": (MUTED, 1.0, ""), "grid": ("#DDDDDD", 1.0, ""), "mark": (INK, 1.4, "4 3")}


def to_svg(scene: Scene, label: str) -> str:
    """The scene as `<svg>`; `label` names it for a reader who does not see it. Same scene, same text."""
    looks = list(dict.fromkeys(shape.look for shape in scene.shapes if isinstance(shape, Box)))
    patterns = "".join(_pattern(name) for name in looks)
    body = "".join(map(_element, scene.shapes))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {scene.height:g}" role="img" '
            f'aria-label="{escape(label)}" font-family="DejaVu Sans, Verdana, sans-serif" fill="{INK}">'
            f'<defs>{patterns}</defs><rect width="{WIDTH}" height="{scene.height:g}" fill="{PAPER}"/>{body}</svg>')


def _pattern_id(look: str) -> str:
    return "minipaged-look-" + look.replace(" ", "-")


def _pattern(name: str) -> str:
    """The hatch of a look as a pattern; nothing for a plain look."""
    look = look_of(name)
    if not look.hatch:
        return ""
    return (f'<pattern id="{_pattern_id(name)}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f'<rect width="8" height="8" fill="{look.facecolor}"/>'
            f'<path d="{_HATCH_PATHS[look.hatch[0]]}" stroke="{look.edgecolor}" stroke-width="1.2" fill="none"/>'
            '</pattern>')


def _element(shape: Shape) -> str:
    if isinstance(shape, Box):
        look = look_of(shape.look)
        fill = f"url(#{_pattern_id(shape.look)})" if look.hatch else look.facecolor
        return (f'<rect x="{shape.x:g}" y="{shape.y:g}" width="{shape.width:g}" height="{shape.height:g}" '
                f'fill="{fill}" stroke="{look.edgecolor}" stroke-width="0.8"/>')
    if isinstance(shape, Words):
        weight = ' font-weight="bold"' if shape.strong else ""
        return (f'<text x="{shape.x:g}" y="{shape.y:g}" text-anchor="{shape.align}" font-size="{shape.size:g}"'
                f'{weight}>{escape(shape.text)}</text>')
    return _line(shape)


def _line(shape: Line) -> str:
    colour, width, dashes = _LINES[shape.role]
    points = " ".join(f"{x:g},{y:g}" for x, y in shape.points)
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashed}/>'
