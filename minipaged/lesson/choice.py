"""A row of choices as buttons: Tab goes from one to the next, the space bar takes one. Predictions and quizzes.

Radio buttons would look better and do not work: JupyterLab takes the arrow keys for itself.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from minipaged.lesson.present import Widget


def choice_buttons(choices: Sequence[str], chosen: Callable[[int], None]) -> Widget:
    """A column of buttons; `chosen` gets the position of the one that was pressed. The last one carries a mark."""
    import ipywidgets

    buttons = [ipywidgets.Button(description=f"○ {choice}", layout={"width": "auto", "max_width": "100%"})
               for choice in choices]

    def press(pressed: ipywidgets.Button) -> None:
        for button, choice in zip(buttons, choices):
            button.description = f"{'●' if button is pressed else '○'} {choice}"
        chosen(buttons.index(pressed))

    for button in buttons:
        button.on_click(press)
    return ipywidgets.VBox(buttons, layout={"align_items": "flex-start"})
