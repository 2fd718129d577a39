"""A learner's lab notebooks as files: finding them, reading and running an answer, restoring a starter.

Used by `minipaged learn` outside Jupyter. A notebook is JSON; only the cells of the exercise are touched.
"""
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from minipaged.lab import cells
from minipaged.lab.exercise import Exercise

FOLDER = "exercises"
STARTERS = Path(__file__).with_name("starters.json")
SECONDS = 60  # for a check in the terminal, kernels included


class NotebookError(ValueError):
    """A notebook that can't be found, read or changed. The message names it and says what to do."""


def find_folder(start: Path | None = None) -> Path:
    """The folder exercises/ here or above. MINIPAGED_EXERCISES names another. Raises NotebookError."""
    chosen = os.environ.get("MINIPAGED_EXERCISES")
    if chosen:
        return Path(chosen).expanduser()
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if here.name == FOLDER and folder == here:
            return here
        if (folder / FOLDER).is_dir():
            return folder / FOLDER
    raise NotebookError(f"there is no folder {FOLDER}/ here or above {here}; go to the folder of the course, or set "
                        "MINIPAGED_EXERCISES to where your notebooks are")


def load(path: Path) -> dict:
    """The notebook as JSON. Raises NotebookError."""
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotebookError(f"{path} is not there; `git checkout {FOLDER}` brings it back") from None
    except (OSError, ValueError, RecursionError) as error:
        raise NotebookError(f"{path} can't be read as a notebook ({error}); save it again in Jupyter") from None
    if not cells.code_cells(notebook):
        raise NotebookError(f"{path} has no code cells; `git checkout {FOLDER}` brings the lab back")
    return notebook


def answer_sources(exercise: Exercise, folder: Path) -> list[str]:
    """What the learner has written: the setup cells, last the answer cell. Raises NotebookError."""
    path = folder / f"{exercise.chapter}.ipynb"
    code = cells.code_cells(load(path))
    found = cells.answers(code, exercise.id)
    if len(found) != 1:
        name = cells.grade_id(exercise.id)
        raise NotebookError(f"{path} has {len(found)} cells with the id {name}; delete all but one" if found else
                            f"{path} has no cell with the id {name}; `minipaged learn reset {exercise.id}` restores it")
    return [cells.source_of(cell) for cell in (*cells.setup(code), *found)]


def run_check(exercise: Exercise, folder: Path) -> tuple[bool, str]:
    """Check the saved notebook in a process of its own: (passed, what to show). Raises NotebookError."""
    sources = answer_sources(exercise, folder)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "answer.json"
        file.write_text(json.dumps(sources), encoding="utf-8")
        try:
            done = subprocess.run([sys.executable, "-m", "minipaged.lab.run_answer", exercise.id, str(file)],
                                  capture_output=True, text=True, encoding="utf-8", errors="replace",
                                  stdin=subprocess.DEVNULL, timeout=SECONDS,
                                  env={**os.environ, "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "agg"})
        except subprocess.TimeoutExpired:
            return False, (f"✗ {exercise.title}: your code did not come to an end within {SECONDS} s; is there a loop "
                           "outside of the functions?")
    if done.returncode not in (0, 1) or not done.stdout.strip():
        return False, (f"✗ {exercise.title}: Python stopped with code {done.returncode} before the check was over; "
                       "does your code end the program?")
    return done.returncode == 0, done.stdout.rstrip("\n")


def starters() -> dict[str, dict[str, str]]:
    """notebook -> {cell id: source}, as the labs were built."""
    return json.loads(STARTERS.read_text(encoding="utf-8"))


def reset(exercise: Exercise, folder: Path) -> None:
    """Put the starter of one exercise back; every other cell stays as it is. Raises NotebookError."""
    path = folder / f"{exercise.chapter}.ipynb"
    notebook = load(path)
    name = cells.grade_id(exercise.id)
    source = starters()[exercise.chapter][name]
    found = cells.answers(cells.code_cells(notebook), exercise.id)
    if found:
        cell = found[0]
        drop = [id(other) for other in found[1:]]
        notebook["cells"] = [other for other in notebook["cells"] if id(other) not in drop]
    else:  # it was deleted: after its text, or at the end
        cell = {"cell_type": "code", "id": name, "metadata": {"nbgrader": {
            "grade": False, "grade_id": name, "locked": False, "schema_version": 3, "solution": True, "task": False}}}
        ids = [other.get("id") for other in notebook["cells"]]
        place = ids.index(f"{name}_text") + 1 if f"{name}_text" in ids else len(ids)
        notebook["cells"].insert(place, cell)
    cell.update(source=source.splitlines(keepends=True), outputs=[], execution_count=None)
    _write(path, notebook)


def _write(path: Path, notebook: dict) -> None:
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    with open(handle, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.replace(name, path)


def solution_text(exercise: Exercise, folder: Path) -> str:
    """Our answer, from the solutions that come with the course. Raises NotebookError where they are not."""
    path = folder.parent / "solutions" / f"{exercise.chapter}.ipynb"
    if not path.exists():
        raise NotebookError(f"the solutions are not here ({path}); your teacher may have kept them")
    found = cells.answers(cells.code_cells(load(path)), exercise.id)
    return cells.without_markers("\n".join(map(cells.source_of, found)))
