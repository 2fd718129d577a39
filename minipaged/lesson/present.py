"""One output with several forms: a widget to use, markdown to read without a kernel, plain text for the rest.

The widget's view is the one part that a notebook on disk leaves out, so a reader on a web page still sees the
whole text, and a test compares it. No chapter teaches this; all use it.
"""
from __future__ import annotations

from collections.abc import Callable

Widget = object


def in_notebook() -> bool:
    """Is there a kernel that shows rich output?"""
    from IPython.core.interactiveshell import InteractiveShell

    return InteractiveShell.initialized()


def present(text: str, markdown: str | None = None, widget: Callable[[], Widget] | None = None) -> None:
    """Show `text`; in a notebook also as `markdown`, and as the widget that `widget()` makes where ipywidgets is."""
    if not in_notebook():
        print(text)
        return
    from IPython.display import display

    bundle: dict[str, object] = {"text/plain": text}
    if markdown is not None:
        bundle["text/markdown"] = markdown
    if widget is not None:
        try:
            view = widget()._repr_mimebundle_()
        except ModuleNotFoundError as missing:
            if missing.name != "ipywidgets":
                raise
        else:
            bundle |= {kind: data for kind, data in view.items() if kind.endswith("widget-view+json")}
    display(bundle, raw=True)
