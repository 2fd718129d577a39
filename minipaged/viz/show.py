"""Show a figure together with a sentence that says what it shows (every chapter).

A picture alone is lost to a reader who cannot see it, to a viewer that does not draw it, and to a test: the
pixels differ between versions of matplotlib. So each figure is one output with three forms: the PNG, the
sentence as `text/plain`, and the data that was drawn as one short text, which strict nbval compares. A notebook that
runs has a fourth one, HTML with picture and sentence, for nbconvert, which leaves the sentence of a PNG out.

    show(waste_stack(splits))                       a Picture of minipaged.viz.figures brings all three
    show(fig, "Two bars: 20 and 96 percent ...")    a figure of your own
"""
from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from minipaged.viz.style import DPI, RC

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA_MIME = "application/vnd.minipaged.figure+json"
MIN_WORDS = 8


@dataclass(frozen=True)
class Picture:
    """A figure, the sentence that says what it shows, and what was drawn as plain data.

    Errors: ValueError for a sentence of fewer than 8 words.
    """

    figure: Figure
    alt: str
    data: object = None

    def __post_init__(self) -> None:
        if len(self.alt.split()) < MIN_WORDS:
            raise ValueError(f"alt is {self.alt!r}, {len(self.alt.split())} words; say what the figure shows in "
                             f"{MIN_WORDS} or more")

    def png(self, dpi: int = DPI) -> bytes:
        """The same bytes each time, for the same version of matplotlib."""
        from matplotlib import rc_context

        image = BytesIO()
        with rc_context(RC):
            self.figure.savefig(image, format="png", dpi=dpi, bbox_inches="tight", metadata={"Software": None})
        return image.getvalue()

    def compact_data(self) -> str:
        """The data as one JSON text; floats with four significant digits, to be equal on every machine."""
        return json.dumps(rounded(self.data), ensure_ascii=False, separators=(",", ":"))

    def save(self, path: str | Path) -> None:
        """Write the PNG."""
        Path(path).write_bytes(self.png())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        """What Jupyter shows when a picture is the last expression of a cell."""
        image = self.png()
        bundle: dict[str, object] = {"image/png": image, "text/plain": self.alt, "text/html": as_html(image, self.alt)}
        if self.data is not None:
            bundle[DATA_MIME] = self.compact_data()
        return bundle, {"image/png": {"alt": self.alt}}


def show(what: Picture | Figure, alt: str = "", data: object = None) -> None:
    """Display a picture. Outside a notebook its sentence is printed.

    For a bare figure: `alt` says what it shows in 8 words or more, made from the data; `data` is what was drawn,
    as JSON can hold it. Errors: ValueError for a short `alt`.
    """
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display

    picture = what if isinstance(what, Picture) else Picture(what, alt, data)
    if InteractiveShell.initialized():
        bundle, metadata = picture._repr_mimebundle_()
        display(bundle, raw=True, metadata=metadata)
    else:
        print(picture.alt)
    if not isinstance(what, Picture):  # a figure of pyplot would be drawn a second time, without the sentence
        from matplotlib import pyplot

        pyplot.close(what)


def as_html(image: bytes, alt: str) -> str:
    """A PNG and its sentence as an element of HTML."""
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{b64encode(image).decode("ascii")}">'


def rounded(value: object) -> object:
    """`value` with every float cut to four significant digits, in lists and dicts too."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {str(name): rounded(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(item) for item in value]
    return value
