"""`panel()`: the way through the labs inside a notebook: choose, check, hint, progress (all labs).

Buttons and a list that also work by keyboard; without a kernel the same list stands there as text.
"""
from __future__ import annotations

import html
import sys
from collections.abc import Callable, Sequence

from minipaged.lab import exercises, progress
from minipaged.lab.checks import gather, judge
from minipaged.lab.exercise import Exercise
from minipaged.lab.hints import next_hint
from minipaged.lesson.present import present


def panel(chapter: str | None = None) -> None:
    """Show the exercises of a chapter, such as "03_blocks", or of the course, with what you have done.

    Check takes your functions and classes from the notebook. Raises ValueError for a chapter without exercises.
    """
    chosen = exercises.all() if chapter is None else exercises.of_chapter(chapter)
    if not chosen:
        chapters = dict.fromkeys(one.chapter for one in exercises.all())
        raise ValueError(f"chapter {chapter!r} has no exercises; there are {', '.join(chapters)}")
    namespace = sys._getframe(1).f_globals
    rows = _rows(chosen)
    present("\n".join(f"{mark} {name}: {text}" for mark, name, text in rows), _markdown(rows),
            lambda: _widget(chosen, namespace))


def _rows(chosen: Sequence[Exercise]) -> list[tuple[str, str, str]]:
    """(mark, id, what it is) for each."""
    try:
        entries = progress.read()
    except progress.ProgressError:
        entries = {}  # check and hint will say what is wrong with the file
    return [("✓" if entries.get(one.id, {}).get("passed") else "·", one.id,
             f"{one.title} ({one.level}, {one.minutes} minutes)") for one in chosen]


def _markdown(rows: Sequence[tuple[str, str, str]]) -> str:
    lines = [f"| {mark} | `{name}` | {text} |" for mark, name, text in rows]
    return "\n".join(["| done | exercise | |", "|---|---|---|", *lines])


def _widget(chosen: Sequence[Exercise], namespace: dict):
    import ipywidgets

    def options() -> list[tuple[str, str]]:
        return [(f"{mark} {text}", name) for mark, name, text in _rows(chosen)]

    choice = ipywidgets.Dropdown(options=options(), description="Exercise",
                                 layout=ipywidgets.Layout(width="auto", max_width="46em"))
    said = ipywidgets.HTML()

    def button(label: str, tip: str, action: Callable[[Exercise], str]) -> object:
        def press(_: object) -> None:
            exercise = exercises.find(choice.value)
            try:
                said.value = _as_html(action(exercise))
            except (OSError, progress.ProgressError) as error:
                said.value = _as_html(str(error))
            choice.options = options()
            choice.value = exercise.id

        made = ipywidgets.Button(description=label, tooltip=tip)
        made.on_click(press)
        return made

    def check(exercise: Exercise) -> str:
        result = judge(exercise, gather(exercise, (), namespace))
        progress.record_check(exercise.id, result.passed)
        return result.message

    def about(exercise: Exercise) -> str:
        return f"{exercise.title}\n{exercise.goal}\nYou define: {'; '.join(map(str, exercise.members))}"

    buttons = [button("About", "what the exercise asks for", about),
               button("Check", "check what you have defined in this notebook", check),
               button("Hint", "the next hint: a question, a sketch, nearly the code",
                      lambda exercise: next_hint(exercise.id))]
    return ipywidgets.VBox([choice, ipywidgets.HBox(buttons), said])


def _as_html(text: str) -> str:
    return f'<pre style="white-space: pre-wrap; line-height: 1.4" role="status">{html.escape(text)}</pre>'
