"""An explorer: a few settings, a pure function of them, and what it gives as a picture and a sentence.

    explorer = waste_explorer()
    explorer                            the last line of a cell: sliders, picture and sentence
    explorer.at(block_size=64)          an explorer like it that stands elsewhere
    explorer.sentence, explorer.data    what it shows now

It is plain Python; only when it is shown does it make a widget (`view.py`). Its output holds a static twin: the
PNG, the sentence as `text/plain` and the numbers behind both, so a notebook that nobody runs shows it too, and
strict nbval compares it.
"""
from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from minipaged.viz.show import DATA_MIME, MIN_WORDS, rounded
from minipaged.viz.widgets.png import to_png
from minipaged.viz.widgets.scene import Scene
from minipaged.viz.widgets.svg import to_svg

#: results kept, so that a slider that comes back shows at once what it showed
_KEPT = 64


class Control(NamedTuple):
    """One setting: its name in `at` and in the function, its label, its values in order, and the first one.

    `words` says each value in the control, where the value alone does not; `unit` follows it. `slider`: the
    values have an order; else they are a list to choose from.
    """

    name: str
    label: str
    values: tuple[Hashable, ...]
    start: Hashable
    unit: str = ""
    words: tuple[str, ...] = ()
    slider: bool = True

    def texts(self) -> list[str]:
        """What the control says at each value."""
        said = self.words or [f"{value:,}" if isinstance(value, int) else f"{value}" for value in self.values]
        return [f"{text} {self.unit}".strip() for text in said]


class Shown(NamedTuple):
    """What the settings give: a drawing, a sentence of 8 words or more with its numbers, and the numbers."""

    scene: Scene
    sentence: str
    data: Mapping[str, object]


class Explorer:
    """Settings and what they give. `show`: a pure function of the controls' values, by name, to `Shown`.

    Errors: ValueError for a start, or a value in `at`, that its control does not have, naming those it has.
    """

    def __init__(self, title: str, controls: tuple[Control, ...], show: Callable[..., Shown],
                 values: Mapping[str, Hashable] | None = None, _kept: dict | None = None) -> None:
        self.title, self.controls, self._show = title, controls, show
        self._kept: dict[tuple, Shown] = {} if _kept is None else _kept
        self.values: dict[str, Hashable] = {control.name: control.start for control in controls}
        self.move(**(values or self.values))

    def at(self, **values: Hashable) -> Explorer:
        """Another explorer of the same kind, with these settings changed."""
        return Explorer(self.title, self.controls, self._show, {**self.values, **values}, self._kept)

    def move(self, **values: Hashable) -> Shown:
        """Change settings of this one; what it shows now."""
        known = {control.name: control for control in self.controls}
        for name, value in values.items():
            if name not in known:
                raise ValueError(f"{self.title!r} has no setting {name!r}; it has {', '.join(known)}")
            if value not in known[name].values:
                raise ValueError(f"{name} is {value!r}; it can be {', '.join(map(repr, known[name].values))}")
        self.values.update(values)
        return self.shown

    @property
    def shown(self) -> Shown:
        key = tuple(self.values.values())
        if key not in self._kept:
            shown = self._show(**self.values)
            if len(shown.sentence.split()) < MIN_WORDS:
                raise ValueError(f"{self.title!r} says only {shown.sentence!r}; {MIN_WORDS} words or more are needed")
            while len(self._kept) >= _KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = shown
        return self._kept[key]

    @property
    def sentence(self) -> str:
        """The settings and what they give, in words."""
        said = (f"{control.label}: {control.texts()[control.values.index(self.values[control.name])]}"
                for control in self.controls)
        return f"{self.title} ({'; '.join(said)}). {self.shown.sentence}"

    @property
    def data(self) -> Mapping[str, object]:
        """The numbers that the picture and the sentence are made of."""
        return self.shown.data

    def svg(self) -> str:
        return to_svg(self.shown.scene, f"{self.title}; the sentence below says what the picture shows")

    def png(self) -> bytes:
        return to_png(self.shown.scene)

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> tuple[dict, dict]:
        """The widget where one can be shown, and always the static twin beside it."""
        bundle: dict[str, object] = {
            "text/plain": self.sentence, "image/png": self.png(),
            DATA_MIME: json.dumps(rounded({"settings": self.values, **self.data}), ensure_ascii=False,
                                  separators=(",", ":"))}
        return {**bundle, **self._live()}, {"image/png": {"alt": self.sentence}}

    def _live(self) -> dict[str, object]:
        """The widget's part of the output; {} without anywidget, when the picture stands alone."""
        try:
            from minipaged.viz.widgets.view import ExplorerView
        except ModuleNotFoundError as error:
            if error.name not in ("anywidget", "ipywidgets", "traitlets"):
                raise
            return {}
        found = ExplorerView(self)._repr_mimebundle_()
        data = found[0] if isinstance(found, tuple) else found or {}
        return {kind: value for kind, value in data.items() if kind != "text/plain"}
