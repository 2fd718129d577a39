"""Show a figure together with a sentence that says what it shows (every chapter).

A picture alone is lost to a reader who cannot see it, to a viewer that does not draw it, and to a test: the
pixels differ between versions of matplotlib. So each figure is one output with three forms: the PNG, the
sentence as `text/plain`, and, if given, the data that was drawn, which strict nbval compares.
"""
from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATA_MIME = "application/vnd.minipaged.figure+json"
MIN_WORDS = 8


def show(fig: Figure, alt: str, data: object = None, dpi: int = 110) -> None:
    """Display `fig` with the sentence `alt` and close it. Outside a notebook the sentence is printed.

    `alt`: what the figure says, in 8 words or more; make it from the data. `data`: what was drawn, as JSON can
    hold it; it is stored as one compact text. Errors: ValueError for a short `alt`.
    """
    if len(alt.split()) < MIN_WORDS:
        raise ValueError(f"alt is {alt!r}, {len(alt.split())} words; say what the figure shows in {MIN_WORDS} or more")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.display import display
    from matplotlib import pyplot

    if not InteractiveShell.initialized():
        pyplot.close(fig)
        print(alt)
        return
    image = BytesIO()
    fig.savefig(image, format="png", dpi=dpi, bbox_inches="tight", metadata={"Software": None})
    pyplot.close(fig)  # or the notebook would draw it a second time, without the sentence
    bundle: dict[str, object] = {"image/png": image.getvalue(), "text/plain": alt}
    if data is not None:
        bundle[DATA_MIME] = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    display(bundle, raw=True, metadata={"image/png": {"alt": alt}})
