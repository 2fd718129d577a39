"""A class to grade: notebooks as a learner would hand them in, made from texts."""
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from minipaged.lab import exercises
from minipaged.lab.cells import grade_id
from minipaged.lab.exercises import blocks

ALLOCATOR, SLOT = "blocks.allocator", "blocks.slot"
RIGHT = {ALLOCATOR: blocks.ALLOCATOR, SLOT: blocks.SLOT}
SETUP = "from minipaged.errors import BlockError, OutOfBlocks\nfrom minipaged.lab import check, hint, use"


def code(source: str, cell_id: str, **metadata: object) -> dict:
    return {"cell_type": "code", "id": cell_id, "metadata": metadata, "source": source, "outputs": [],
            "execution_count": None}


def cells(answers: dict[str, str], setup: str = SETUP) -> list[dict]:
    """The cells of a lab: the imports, then an answer cell for each exercise."""
    return [code(setup, "setup", tags=["setup"]),
            *(code(source, grade_id(name), nbgrader={"grade": False, "grade_id": grade_id(name), "locked": False,
                                                     "schema_version": 3, "solution": True, "task": False})
              for name, source in answers.items())]


def notebook(answers: dict[str, str] | Sequence[dict], setup: str = SETUP) -> str:
    """A notebook's JSON, from answers or from cells."""
    listed = cells(answers, setup) if isinstance(answers, dict) else list(answers)
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


def hand_in(folder: Path, learner: str, text: str | bytes) -> Path:
    """Put a notebook into a class; its path."""
    path = folder / learner / "03_blocks.ipynb"
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return path


def wrong(exercise_id: str, number: int = 0) -> str:
    """A plausible wrong answer."""
    return exercises.find(exercise_id).misconceptions[number].source


def lab() -> tuple[str, ...]:
    """The ids of all exercises of lab 03."""
    return tuple(exercise.id for exercise in exercises.of_chapter("03_blocks"))
