"""The widget of an explorer: `explorer.js` shows the controls; every move comes here, is computed, and goes back.

Two synchronised values carry everything. `asked` is what the reader wants: {"turn": 7, "values": {...}}, each
value as its position in its control. `answer` is what was computed for it: {"turn": 7, "svg": ..., "sentence": ...}.
The browser waits for the answer before it asks again, so a slider that is dragged asks as often as we can answer.
"""
from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

from minipaged.viz.widgets.explorer import Explorer

_HERE = Path(__file__).parent


class ExplorerView(anywidget.AnyWidget):
    """One explorer on the screen, in one or several places."""

    _esm = _HERE / "explorer.js"
    _css = _HERE / "explorer.css"
    title = traitlets.Unicode().tag(sync=True)
    controls = traitlets.List().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        positions = {control.name: control.values.index(explorer.values[control.name])
                     for control in explorer.controls}
        super().__init__(
            title=explorer.title,
            controls=[{"name": control.name, "label": control.label, "texts": control.texts(),
                       "slider": control.slider, "start": positions[control.name]} for control in explorer.controls],
            asked={"turn": 0, "values": positions}, answer=self._answer(0))
        self.observe(self._move, "asked")

    def _answer(self, turn: int) -> dict:
        return {"turn": turn, "svg": self._explorer.svg(), "sentence": self._explorer.shown.sentence}

    def _move(self, change: dict) -> None:
        chosen = change["new"]["values"]
        turn = change["new"]["turn"]
        try:
            self._explorer.move(**{control.name: control.values[chosen[control.name]]
                                   for control in self._explorer.controls})
            self.answer = self._answer(turn)
        except ValueError as error:  # settings that cannot be served: the engine's own sentence says why
            self.answer = {**self.answer, "turn": turn, "sentence": str(error)}
