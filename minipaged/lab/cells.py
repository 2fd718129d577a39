"""Cells of lab notebooks: what nbgrader's metadata says, and the starter of an answer cell (all labs).

A notebook is read as JSON, without nbformat: `minipaged learn` and the grader read what learners have edited.
"""
from __future__ import annotations

import re
from collections.abc import Iterable

_BEGIN, _END = re.compile(r"^(?P<indent>\s*)### BEGIN SOLUTION\s*$"), re.compile(r"^\s*### END SOLUTION\s*$")
STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")  # in nbgrader's words


class MarkerError(ValueError):
    """Solution markers that do not come in pairs."""


def grade_id(exercise_id: str) -> str:
    """An exercise's id as nbgrader and notebooks allow it: "blocks.allocator" -> "blocks_allocator"."""
    return exercise_id.replace(".", "_")


def check_id(exercise_id: str) -> str:
    """The grade_id of the cell that checks an exercise."""
    return f"{grade_id(exercise_id)}_check"


def strip_solution(source: str) -> str:
    """The cell as a learner gets it. Raises MarkerError."""
    kept: list[str] = []
    inside = False
    for line in source.splitlines():
        if begin := _BEGIN.match(line):
            if inside:
                raise MarkerError("### BEGIN SOLUTION twice, without ### END SOLUTION between")
            inside = True
            kept += [begin["indent"] + text for text in STUB]
        elif _END.match(line):
            if not inside:
                raise MarkerError("### END SOLUTION without ### BEGIN SOLUTION")
            inside = False
        elif not inside:
            kept.append(line)
    if inside:
        raise MarkerError("### BEGIN SOLUTION without ### END SOLUTION")
    return "\n".join(kept)


def without_markers(source: str) -> str:
    """A solution as a person would write it."""
    return "\n".join(line for line in source.splitlines() if not (_BEGIN.match(line) or _END.match(line)))


def source_of(cell: dict) -> str:
    """The text of a cell; nbformat allows a list of lines. An odd cell has none."""
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def code_cells(notebook: object) -> list[dict]:
    """The code cells of a notebook as JSON has it; odd things are left out."""
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    return [cell for cell in cells if isinstance(cell, dict) and cell.get("cell_type") == "code"] if isinstance(
        cells, list) else []


def answers(cells: Iterable[dict], exercise_id: str) -> list[dict]:
    """The answer cells of one exercise: those with its grade_id."""
    return [cell for cell in cells if _metadata(cell, "nbgrader").get("grade_id") == grade_id(exercise_id)]


def setup(cells: Iterable[dict]) -> list[dict]:
    """The cells that answers may rely on, such as the imports."""
    return [cell for cell in cells if "setup" in (_metadata(cell).get("tags") or ())]


def _metadata(cell: dict, name: str | None = None) -> dict:
    metadata = cell.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if name is not None:
        metadata = metadata.get(name)
    return metadata if isinstance(metadata, dict) else {}
