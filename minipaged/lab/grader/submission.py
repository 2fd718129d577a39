"""Reading what a learner handed in, whatever it is: cells by exercise, and a sentence for everything that is odd.

Nothing is run here and nothing is followed: no link, no device, no file that is too large. An answer is found by the
`grade_id` of its cell, else by the cell's id, else by the name that it defines, so a renamed file, a lost
metadata block or an edited notebook costs nothing. A cell that was copied or split is run in its order, as in Jupyter.
"""
from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minipaged.lab.cells import check_id, code_cells, grade_id, source_of
from minipaged.lab.exercise import Exercise
from minipaged.lab.grader.statements import defined, shared_part, without_magics

MAX_BYTES = 16 * 1024 * 1024  # of one notebook
MAX_CELLS = 2_000
MAX_SOURCE = 100_000          # characters of one cell
MAX_CODE = 500_000            # of all code cells of a submission
MAX_PARTS = 1_000_000         # lists and dicts in the JSON of all notebooks of a submission: each costs time to read
MAX_NOTEBOOKS = 40
MAX_SHARED = 500             # statements of a submission that answers may build on
MAX_SHARED_TEXT = 200_000    # their characters


@dataclass
class Submission:
    """One learner's work. `cells`: exercise id -> sources in order; `shared`: imports and helpers of other cells;
    `notes`: (exercise id or "", sentence); `digest`: of all that was read."""

    learner: str
    cells: dict[str, list[str]] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    digest: str = ""


class Unreadable(ValueError):
    """A file that is no notebook that we read; the message goes to the learner's row."""


def submissions(folder: Path) -> list[tuple[str, Path]]:
    """(learner, path) for each folder and file of a class, by name. Errors: ValueError for an empty class."""
    found = {}
    for path in sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name)):
        if path.name.startswith("."):
            continue
        name = os.fsencode(path.name).decode("utf-8", "backslashreplace")
        name = name.removesuffix(".ipynb") if not os.path.isdir(path) else name  # Path.is_dir raises for odd links
        while name in found:  # alice/ beside alice.ipynb
            name += " (2)"
        found[name] = path
    if not found:
        raise ValueError(f"{folder} is empty: there is nothing to grade")
    return list(found.items())


def read(learner: str, path: Path, exercises: Sequence[Exercise]) -> Submission:
    """Never raises for anything a learner can put there."""
    found = Submission(learner)
    digest = hashlib.sha256()
    try:
        notebooks = list(_notebooks(path))
    except Unreadable as error:
        notebooks, found.notes = [], [("", str(error))]
    except OSError as error:
        notebooks, found.notes = [], [("", f"the folder can't be read: {error.strerror}")]
    if not notebooks and not found.notes:
        found.notes.append(("", "there is no notebook (.ipynb) in this submission"))
    parts, code = MAX_PARTS, MAX_CODE  # that are left for the rest of the notebooks
    for name, file in notebooks:
        try:
            raw = _bytes(file)
            digest.update(raw)
            if (count := raw.count(b"[") + raw.count(b"{")) > parts:
                raise Unreadable(f"the notebooks up to here have more than {MAX_PARTS:,} parts. Clear the outputs of "
                                 "your notebook and hand it in again")
            parts -= count
            sources = _code_cells(raw, code)
            code -= sum(len(source) for _, source, _ in sources)
        except Unreadable as error:
            found.notes.append(("", f"{name}: {error}"))
            continue
        except OSError as error:
            found.notes.append(("", f"{name} can't be read: {error.strerror}"))
            continue
        _sort_cells(found, name, sources, exercises)
    for exercise in exercises:
        if exercise.id not in found.cells:
            found.notes.append((exercise.id, f"there is no cell {grade_id(exercise.id)!r}, and none that "
                                             f"defines {exercise.names[0]}"))
    digest.update(json.dumps(found.notes, ensure_ascii=True).encode())
    found.digest = digest.hexdigest()
    return found


def _notebooks(path: Path) -> Iterator[tuple[str, Path]]:
    """(shown name, file) in order; links and hidden folders are not entered."""
    if path.is_symlink():
        raise Unreadable("it is a link; hand in the notebook itself")
    if not os.path.isdir(path):
        if path.suffix != ".ipynb":
            raise Unreadable("it is no notebook: the file's name does not end in .ipynb")
        yield path.name, path
        return
    count = 0
    for folder, folders, files in os.walk(path, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(Path(folder).relative_to(path).parts) >= 3:
            folders.clear()
        for name in sorted(files):
            if name.endswith(".ipynb") and not name.startswith("."):
                count += 1
                if count > MAX_NOTEBOOKS:
                    return
                yield os.fsencode(name).decode("utf-8", "backslashreplace"), Path(folder, name)


def _bytes(path: Path) -> bytes:
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if path.is_symlink():
        raise Unreadable("it is a link; hand in the notebook itself")
    number = os.open(path, flags)
    with open(number, "rb") as file:
        state = os.fstat(number)
        if not stat.S_ISREG(state.st_mode):
            raise Unreadable("it is no regular file")
        if state.st_size > MAX_BYTES:
            raise Unreadable(f"it has {state.st_size:,} bytes; at most {MAX_BYTES:,} are read. Clear the outputs "
                             "of your notebook and hand it in again")
        return file.read(MAX_BYTES)


def _code_cells(raw: bytes, most: int) -> list[tuple[str, str, bool]]:
    """(id, source, has it the tag setup) of the code cells; the id is the grade_id, else the cell's own, else "".
    `most`: characters that they may have together."""
    try:
        notebook = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8: byte {error.start} is {raw[error.start]:#04x}") from None
    except RecursionError:
        raise Unreadable("it is no notebook: its JSON is nested too deep") from None
    except ValueError as error:
        raise Unreadable(f"it is no notebook: it is not JSON ({str(error)[:80]})") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise Unreadable("it is no notebook: it has no list of cells")
    if len(cells) > MAX_CELLS:
        raise Unreadable(f"it has {len(cells):,} cells; at most {MAX_CELLS:,} are read")
    found = [(_cell_id(cell), source_of(cell)[:MAX_SOURCE], _is_setup(cell)) for cell in code_cells(notebook)]
    if (size := sum(len(source) for _, source, _ in found)) > most:
        raise Unreadable(f"its code has {size:,} characters; at most {MAX_CODE:,} are read, of all notebooks together")
    return [cell for cell in found if cell[1].strip()]


def _cell_id(cell: dict) -> str:
    mark = _part(cell.get("metadata"), "nbgrader")
    name = _part(mark, "grade_id") or cell.get("id")
    return name if isinstance(name, str) else ""


def _is_setup(cell: dict) -> bool:
    tags = _part(cell.get("metadata"), "tags")
    return isinstance(tags, list) and "setup" in tags


def _part(thing: object, name: str) -> object:
    return thing.get(name) if isinstance(thing, dict) else None


def _sort_cells(found: Submission, name: str, sources: list[tuple[str, str, bool]],
                exercises: Sequence[Exercise]) -> None:
    """Add a notebook's cells to the submission."""
    ids = {grade_id(exercise.id): exercise.id for exercise in exercises}
    checks = {check_id(exercise.id) for exercise in exercises}
    cells: dict[str, list[str]] = {}
    others: list[tuple[str, bool, list[str]]] = []  # source, is it a setup cell, what it defines
    for cell_id, source, is_setup in sources:
        if cell_id in ids:
            cells.setdefault(ids[cell_id], []).append(without_magics(source))
        elif cell_id not in checks:
            source = without_magics(source)
            others.append((source, is_setup, defined(source)))
    for exercise in exercises:
        if exercise.id in cells:
            if len(cells[exercise.id]) > 1:
                found.notes.append((exercise.id, f"{name} has {len(cells[exercise.id])} cells with the id "
                                                 f"{grade_id(exercise.id)!r}; they were run in their order"))
            continue
        lost = [source for source, _, names in others if set(exercise.names) & set(names)]
        if lost:
            cells[exercise.id] = lost
            others = [other for other in others if other[0] not in lost]
            found.notes.append((exercise.id, f"{name}: the cell {grade_id(exercise.id)!r} has lost its id; it was "
                                             f"known by its name {exercise.names[0]}"))
    for exercise_id, answer in cells.items():
        if exercise_id in found.cells:
            found.notes.append((exercise_id, f"{name} answers it again; the first notebook counts"))
        else:
            found.cells[exercise_id] = answer
    left = MAX_SHARED_TEXT - sum(map(len, found.shared))
    for source, is_setup, _ in others:
        for text in shared_part(source, is_setup):
            left -= len(text)
            if left >= 0 and len(found.shared) < MAX_SHARED:
                found.shared.append(text)
