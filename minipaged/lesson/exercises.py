"""Links to exercises by their ids, with minutes and level from the exercise itself."""
from __future__ import annotations

from minipaged.lesson.present import present


def exercise_links(*ids: str) -> None:
    """Show a list of exercises as links into exercises/. Errors: ValueError names an id that does not exist."""
    from minipaged.lab import exercises

    known = {exercise.id: exercise for exercise in exercises.all()}
    if unknown := [name for name in ids if name not in known]:
        raise ValueError(f"no exercise {unknown[0]!r}; `minipaged learn list` shows all")
    text, markdown = [], []
    for exercise in (known[name] for name in ids):
        cost = f"{exercise.minutes} minutes, {exercise.level}"
        path = f"../exercises/{exercise.chapter}.ipynb"
        text.append(f"{exercise.title} ({exercise.id}; {cost}): {exercise.goal} {path}")
        markdown.append(f"- [{exercise.title}]({path}) ({cost}, `{exercise.id}`). {exercise.goal}")
    present("\n".join(text), "\n".join(markdown))
