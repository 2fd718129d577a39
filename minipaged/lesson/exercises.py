"""Links to exercises by their ids or by their chapter, with minutes and level from the exercise itself."""
from __future__ import annotations

from minipaged.lesson.present import present


def exercise_links(*names: str) -> None:
    """Show exercises as links into exercises/. `names`: ids such as "formulas.kv-bytes", or a chapter: all of its own.

    Errors: ValueError names an id that does not exist, or a chapter without exercises.
    """
    from minipaged.lab import exercises

    every = exercises.all()
    chosen = []
    for name in names:
        found = [exercise for exercise in every if name in (exercise.id, exercise.chapter)]
        if not found:
            raise ValueError(f"no exercise {name!r}; `minipaged learn list` shows all")
        chosen += found
    text, markdown = [], []
    for exercise in chosen:
        cost = f"{exercise.minutes} minutes, {exercise.level}"
        path = f"../exercises/{exercise.chapter}.ipynb"
        text.append(f"{exercise.title} ({exercise.id}; {cost}): {exercise.goal} {path}")
        markdown.append(f"- [{exercise.title}]({path}) ({cost}, `{exercise.id}`). {exercise.goal}")
    present("\n".join(text), "\n".join(markdown))
