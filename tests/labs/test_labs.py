"""Every lab: unsolved it fails in a sentence, solved it passes, and nothing of the solution reaches a learner."""
from __future__ import annotations

import importlib.util
import json
import re
import time
from collections import Counter

import pytest

from minipaged.lab import cells, exercises
from minipaged.lab.answer import from_source
from minipaged.lab.checks import judge

ALL = exercises.all()
BY_ID = pytest.mark.parametrize("exercise", ALL, ids=[one.id for one in ALL])
CHAPTERS = sorted({one.chapter for one in ALL})


@pytest.fixture(scope="module")
def builder(root):
    spec = importlib.util.spec_from_file_location("solutions_build", root / "solutions" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def code_of(root, folder, exercise):
    """The setup and the answer cell of an exercise, as one text."""
    notebook = json.loads((root / folder / f"{exercise.chapter}.ipynb").read_text(encoding="utf-8"))
    code = cells.code_cells(notebook)
    return "\n".join(map(cells.source_of, [*cells.setup(code), *cells.answers(code, exercise.id)]))


@BY_ID
def test_unsolved_it_fails_with_a_sentence(root, exercise):
    result = judge(exercise, vars(from_source(code_of(root, "exercises", exercise))))  # the cell itself must run
    assert not result.passed
    assert "Not written yet" in result.message and "Traceback" not in result.message


@BY_ID
def test_solved_it_passes_in_time(root, exercise):
    objects = vars(from_source(code_of(root, "solutions", exercise)))
    for case in exercise.examples:
        exercise.expected(case)  # imports what it needs
    start = time.process_time()
    result = judge(exercise, objects)
    seconds = time.process_time() - start
    assert result.passed, result.message
    assert seconds < (10 if {"triton", "g++"} & set(exercise.needs) else 2)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_run_all_cells_of_an_unsolved_lab_raises_nothing(root, chapter, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    notebook = json.loads((root / "exercises" / f"{chapter}.ipynb").read_text(encoding="utf-8"))
    names = {"__name__": "notebook"}
    for cell in cells.code_cells(notebook):
        exec(compile(cells.source_of(cell), f"<{cell['id']}>", "exec", dont_inherit=True), names)
    assert capsys.readouterr().out.count("✗") >= len(exercises.of_chapter(chapter))


@BY_ID
def test_the_definition_is_complete(exercise):
    assert 3 <= exercise.minutes <= 60
    assert len(set(exercise.hints)) == 3 and all(len(text.split()) >= 5 for text in exercise.hints)
    assert len(exercise.misconceptions) >= 4
    assert len({one.id for one in exercise.misconceptions}) == len(exercise.misconceptions)
    assert len({one.message for one in exercise.misconceptions}) == len(exercise.misconceptions)
    assert exercise.examples and json.loads(json.dumps(exercise.examples)) == list(exercise.examples)


@BY_ID
def test_cases_are_plain_and_the_same_each_time(exercise):
    import random

    for seed in range(20):
        case = exercise.case(random.Random(seed))
        assert json.loads(json.dumps(case)) == case == exercise.case(random.Random(seed))


def test_nothing_of_the_solutions_is_in_the_exercises(root):
    words = re.compile(r"(BEGIN|END) SOLUTION|Traceback|/home/|/Users/|/work/|\\\\Users")
    for chapter in CHAPTERS:
        student = json.loads((root / "exercises" / f"{chapter}.ipynb").read_text(encoding="utf-8"))
        solved = json.loads((root / "solutions" / f"{chapter}.ipynb").read_text(encoding="utf-8"))
        text = "\n".join(cells.source_of(cell) for cell in student["cells"])
        assert not words.search(text)
        assert all(not cell.get("outputs") for cell in student["cells"])
        for cell in solved["cells"]:
            for part in re.findall(r"### BEGIN SOLUTION\n(.*?)\s*### END SOLUTION", cells.source_of(cell), re.DOTALL):
                assert part.strip() not in "\n".join(cells.source_of(one) for one in cells.code_cells(student))


def test_the_built_labs_are_those_of_the_sources(builder, capsys):
    assert builder.main(["--check"]) == 0, capsys.readouterr().err


def test_ids_of_cells_are_unique_and_those_of_exercises(root):
    for chapter in CHAPTERS:
        notebook = json.loads((root / "exercises" / f"{chapter}.ipynb").read_text(encoding="utf-8"))
        ids = Counter(cell["id"] for cell in notebook["cells"])
        assert max(ids.values()) == 1
        for exercise in exercises.of_chapter(chapter):
            assert ids[cells.grade_id(exercise.id)] == ids[cells.check_id(exercise.id)] == 1


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_nbgrader_reads_the_notebooks(root, chapter):
    nbformat = pytest.importorskip("nbformat")
    v3 = pytest.importorskip("nbgrader.nbgraderformat.v3")
    notebook = nbformat.read(root / "exercises" / f"{chapter}.ipynb", as_version=4)
    v3.MetadataValidatorV3().validate_nb(notebook)
