"""Build the labs from their sources: what a learner opens, the executed solutions, and the starters.

    python solutions/build.py                 all of them (`make labs`)
    python solutions/build.py 03_blocks       one
    python solutions/build.py --check         run nothing: which is stale, which breaks a rule

A source is solutions/NN_topic.py in the percent form, with nbgrader's metadata (schema 3) in the `# %%` line. From
it come exercises/NN_topic.ipynb, stripped; solutions/NN_topic.ipynb, executed; and the starters of its code cells
in minipaged/lab/starters.json, from which `minipaged learn reset` restores an exercise. How to write one:
minipaged/lab/README.md. The cells are read and run as those of the chapters: notebooks/build.py.
"""
from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import re
import sys
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from minipaged.lab import exercises
from minipaged.lab.cells import MarkerError, check_id, grade_id, strip_solution
from minipaged.lab.exercise import Exercise

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
STARTERS = ROOT / "minipaged" / "lab" / "starters.json"
FORBIDDEN = re.compile(r"(BEGIN|END) SOLUTION|Traceback|/home/|/Users/|/work/|[A-Z]:\\\\Users")
_HEADING = re.compile(r"\{\{exercise ([^}]*)\}\}")


def _chapter_builder():
    """notebooks/build.py, which is no package."""
    spec = importlib.util.spec_from_file_location("notebooks_build", ROOT / "notebooks" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chapters = _chapter_builder()
SourceError = chapters.SourceError


def heading(exercise: Exercise) -> str:
    """What stands above an exercise: all that is known of it, written once, in its definition."""
    return (f"## {exercise.title}\n\n"
            f"*{exercise.minutes} minutes · {exercise.level} · chapter "
            f"[{exercise.chapter}](../notebooks/{exercise.chapter}.ipynb) · `{exercise.id}`*\n\n"
            f"**Goal.** {exercise.goal}")


def folded_hints(exercise: Exercise) -> str:
    """The three hints, each closed until it is asked for."""
    names = ("a question", "a sketch", "nearly the code")
    return "\n\n".join(f"<details><summary>Hint {number}: {name}</summary>\n\n{text}\n\n</details>"
                       for number, (name, text) in enumerate(zip(names, exercise.hints), 1))


def read(source: Path) -> NotebookNode:
    """The source as a notebook with headings and hints. Errors: SourceError."""
    notebook = chapters.read_source(source)
    placed = []
    for cell in notebook.cells:
        match = _HEADING.search(cell.source) if cell.cell_type == "markdown" else None
        if match is None:
            continue
        try:
            exercise = exercises.find(match[1].strip())
        except KeyError as error:
            raise SourceError(f"{source.name}: {error.args[0]}") from None
        placed.append(exercise.id)
        cell.source = f"{cell.source.replace(match[0], heading(exercise))}\n\n{folded_hints(exercise)}"
        cell.id = f"{grade_id(exercise.id)}_text"
    if found := _complaints(notebook, source.stem, placed):
        raise SourceError(f"{source.name}: {found[0]}")
    return notebook


def _complaints(notebook: NotebookNode, chapter: str, placed: list[str]) -> list[str]:
    """Is every exercise of the chapter there, in order, with an answer and a check cell?"""
    wanted = [exercise.id for exercise in exercises.of_chapter(chapter)]
    if placed != wanted:
        return [f"its {{{{exercise ...}}}} headings are {placed}; the exercises of {chapter} are {wanted}"]
    if not any("setup" in cell.metadata.get("tags", []) for cell in notebook.cells):
        return ['no cell has tags=["setup"]: the one with the imports needs it']
    graded = {cell.id: cell for cell in notebook.cells if "nbgrader" in cell.metadata}
    order = [name for one in wanted for name in (grade_id(one), check_id(one))]
    if list(graded) != order:
        return [f"the cells with nbgrader metadata are {list(graded)}; they should be {order}"]
    found = []
    for one in wanted:
        answer, check = graded[grade_id(one)], graded[check_id(one)]
        if answer.metadata.nbgrader != _metadata(grade_id(one), points=None):
            found.append(f"the answer cell of {one} should have nbgrader={json.dumps(_metadata(grade_id(one), None))}")
        if check.metadata.nbgrader != _metadata(check_id(one), points=1):
            found.append(f"the check cell of {one} should have nbgrader={json.dumps(_metadata(check_id(one), 1))}")
        if check.source != f'check("{one}")':
            found.append(f'the check cell of {one} should be: check("{one}")')
        if "### BEGIN SOLUTION" not in answer.source:
            found.append(f"the answer cell of {one} has no ### BEGIN SOLUTION")
    return found


def _metadata(name: str, points: int | None) -> dict:
    metadata = {"grade": points is not None, "grade_id": name, "locked": points is not None, "schema_version": 3,
                "solution": points is None, "task": False}
    return metadata if points is None else metadata | {"points": points}


def stripped(notebook: NotebookNode) -> NotebookNode:
    """What a learner opens. Errors: SourceError for markers that do not match, or for what must not be there."""
    student = copy.deepcopy(notebook)
    for cell in student.cells:
        if cell.cell_type == "code":
            try:
                cell.source = strip_solution(cell.source)
            except MarkerError as error:
                raise SourceError(f"cell {cell.id}: {error}") from None
            cell.outputs, cell.execution_count = [], None
        if found := FORBIDDEN.search(cell.source):
            raise SourceError(f"cell {cell.id} would show a learner {found[0]!r}")
    return student


def starters(notebooks: dict[str, NotebookNode], before: dict[str, dict]) -> str:
    """The code cells of the stripped labs, {notebook: {cell id: source}}; those of other labs as they were."""
    table = before | {name: {cell.id: cell.source for cell in notebook.cells if cell.cell_type == "code"}
                      for name, notebook in notebooks.items()}
    return json.dumps(dict(sorted(table.items())), indent=1, ensure_ascii=False) + "\n"


def execute(notebook: NotebookNode) -> list[str]:
    """Run the solutions and leave out what a second run would not repeat; what breaks a rule is returned."""
    kept = {cell.id: cell.metadata for cell in notebook.cells}
    chapters.execute(notebook, HERE)
    chapters.normalise(notebook)
    for cell in notebook.cells:
        cell.metadata = kept[cell.id]
        cell.metadata.pop("execution", None)
    return chapters.problems(notebook) + _failed_checks(notebook)


def _failed_checks(notebook: NotebookNode) -> list[str]:
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith("check("):
            text = "".join(output.get("text", "") for output in cell.outputs)
            if not text.startswith("✓"):
                found.append(f"{cell.source} is not passed by the solution: {text.strip()[:300]}")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python solutions/build.py",
                                     description="Build the labs from their sources, or check them.",
                                     epilog="example: python solutions/build.py --check 03_blocks")
    parser.add_argument("names", nargs="*", help="which ones, such as 03_blocks; all if none is named")
    parser.add_argument("--check", action="store_true", help="run nothing; say what is stale or breaks a rule")
    args = parser.parse_args(argv)

    sources = {path.stem: path for path in sorted(HERE.glob("[0-9]*.py"))}
    if unknown := [name for name in args.names if name not in sources]:
        parser.error(f"no source {unknown[0]!r} in {HERE}; there are: {', '.join(sources) or 'none'}")
    failed = False
    students: dict[str, NotebookNode] = {}
    for name in args.names or sources:
        try:
            notebook = read(sources[name])
            students[name] = stripped(notebook)
            found = (_check_one if args.check else _build_one)(name, notebook, students[name])
        except Exception as error:  # a cell that fails: say which lab, go on with the others
            found = [f"{type(error).__name__}: {error}"]
        failed = failed or bool(found)
        for line in found or ["up to date" if args.check else "built"]:
            print(f"{name}: {line}", file=sys.stderr if found else sys.stdout)
    failed = _finish(students, sources, args.check) or failed
    return 1 if failed else 0


def _build_one(name: str, notebook: NotebookNode, student: NotebookNode) -> list[str]:
    _write(ROOT / "exercises" / f"{name}.ipynb", chapters.to_text(student))
    if found := execute(notebook):
        return found
    _write(HERE / f"{name}.ipynb", chapters.to_text(notebook))
    return []


def _check_one(name: str, notebook: NotebookNode, student: NotebookNode) -> list[str]:
    target, executed = ROOT / "exercises" / f"{name}.ipynb", HERE / f"{name}.ipynb"
    if not target.exists() or not executed.exists():
        return ["not built yet; run `make labs`"]
    found = [] if target.read_text(encoding="utf-8") == chapters.to_text(student) else [
        "exercises: stale, the source says something else"]
    built = nbformat.read(executed, as_version=4)
    return found + chapters.stale(notebook, built) + chapters.problems(built) + _failed_checks(built)


def _finish(students: dict[str, NotebookNode], sources: dict[str, Path], check: bool) -> bool:
    """The starters, and notebooks that no source makes. True when something is wrong."""
    failed = False
    before = json.loads(STARTERS.read_text(encoding="utf-8")) if STARTERS.exists() else {}
    text = starters(students, {name: cells for name, cells in before.items() if name in sources})
    if not check:
        _write(STARTERS, text)
    elif not STARTERS.exists() or STARTERS.read_text(encoding="utf-8") != text:
        print(f"{STARTERS.name}: stale; run `make labs`", file=sys.stderr)
        failed = True
    for orphan in sorted(path for folder in (HERE, ROOT / "exercises") for path in folder.glob("*.ipynb")
                         if path.stem not in sources):
        print(f"{orphan.relative_to(ROOT).as_posix()}: a notebook without a source", file=sys.stderr)
        failed = True
    return failed


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    raise SystemExit(main())
