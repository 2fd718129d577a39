"""The widgets of predictions and quizzes: choices as buttons, texts in which `code` is code.

Tab goes from one button to the next, the space bar takes one. Radio buttons would look better and do not work:
JupyterLab takes the arrow keys for itself.
"""
from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence

from minipaged.lesson.present import Widget

#: a button of ipywidgets cuts a long text off; these wrap it
_STYLE = """<style>.minipaged-lesson button { white-space: normal; height: auto; min-height: 28px; text-align: left;
line-height: 1.4; padding: 4px 10px } .minipaged-lesson .widget-html-content { line-height: 1.5; white-space: normal }
</style>"""


def panel(*children: Widget) -> Widget:
    """Everything that one prediction or one quiz shows, from top to bottom."""
    import ipywidgets

    return ipywidgets.VBox([*children, ipywidgets.HTML(_STYLE)]).add_class("minipaged-lesson")


def as_html(text: str) -> str:
    """Plain text for an HTML widget, with `x` as code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text, quote=False))


def announced(text: str) -> str:
    """A text that a screen reader says when it appears."""
    return f'<span role="alert">{as_html(text)}</span>'


def choice_buttons(choices: Sequence[str], chosen: Callable[[int], None]) -> Widget:
    """A column of buttons; `chosen` gets the position of the one that was pressed. The last one carries a mark."""
    import ipywidgets

    buttons = [ipywidgets.Button(layout={"width": "auto", "max_width": "100%"}) for _ in choices]

    def mark(pressed: Widget | None) -> None:
        for button, choice in zip(buttons, choices):
            button.description = f"{'●' if button is pressed else '○'} {choice.replace('`', '')}"

    def press(pressed: Widget) -> None:
        mark(pressed)
        chosen(buttons.index(pressed))

    mark(None)
    for button in buttons:
        button.on_click(press)
    return ipywidgets.VBox(buttons, layout={"align_items": "flex-start"})
