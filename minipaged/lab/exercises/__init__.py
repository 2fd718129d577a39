"""All exercises, one module a chapter: EXERCISES, in the order in which they stand in its lab."""
from __future__ import annotations

import difflib
import importlib
import pkgutil
from functools import cache

from minipaged.lab.exercise import Exercise


@cache
def all() -> tuple[Exercise, ...]:  # noqa: A001 - read as exercises.all()
    """Every exercise in the order of the course."""
    modules = [importlib.import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)
               if not found.name.startswith("_")]
    groups = sorted((module.EXERCISES for module in modules), key=lambda group: group[0].chapter)
    exercises = tuple(exercise for group in groups for exercise in group)
    ids = [exercise.id for exercise in exercises]
    if twice := [name for name in ids if ids.count(name) > 1]:
        raise ValueError(f"the exercise id {twice[0]!r} is used twice")
    return exercises


def find(exercise_id: str) -> Exercise:
    """The exercise with this id. Raises KeyError whose text names the nearest ids."""
    table = {exercise.id: exercise for exercise in all()}
    if exercise_id not in table:
        near = difflib.get_close_matches(str(exercise_id), table, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "`minipaged learn list` shows all"
        raise KeyError(f"there is no exercise {exercise_id!r}; {hint}")
    return table[exercise_id]


def of_chapter(chapter: str) -> tuple[Exercise, ...]:
    """The exercises of one chapter, such as "03_blocks"."""
    return tuple(exercise for exercise in all() if exercise.chapter == chapter)


def after(exercise_id: str) -> Exercise | None:
    """The one that follows in the course, None at the end."""
    exercises = all()
    index = exercises.index(find(exercise_id)) + 1
    return exercises[index] if index < len(exercises) else None
