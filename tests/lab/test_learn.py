"""`minipaged learn` in a terminal, on notebooks as a learner has saved them."""
from __future__ import annotations

import json
import shutil

import pytest

from minipaged.cli import main
from minipaged.lab import cells, exercises, progress

RIGHT = """\
def slot(block_table, position, block_size):
    logical, offset = divmod(position, block_size)
    if logical >= len(block_table):
        raise BlockError("behind")
    return block_table[logical] * block_size + offset
"""


@pytest.fixture(autouse=True)
def course(root, tmp_path, monkeypatch):
    """A copy of the course's notebooks, and a progress file of its own."""
    for folder in ("exercises", "solutions"):
        (tmp_path / folder).mkdir()
        for file in (root / folder).glob("*.ipynb"):
            shutil.copy(file, tmp_path / folder)
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.delenv("MINIPAGED_EXERCISES", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def learn(capsys, *words):
    code = main(["learn", *words])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err
    return code, shown.out + shown.err


def notebook(course, chapter="03_blocks"):
    path = course / "exercises" / f"{chapter}.ipynb"
    return path, json.loads(path.read_text(encoding="utf-8"))


def write(course, exercise, source):
    path, book = notebook(course, exercises.find(exercise).chapter)
    for cell in cells.answers(cells.code_cells(book), exercise):
        cell["source"] = source
    path.write_text(json.dumps(book), encoding="utf-8")


def test_the_way_through_an_exercise(course, capsys):
    first = exercises.all()[0].id
    assert first in learn(capsys)[1]
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 1 and "Not written yet" in shown and "(line 4 of its cell)" in shown
    write(course, "blocks.slot", RIGHT)
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 0 and shown.startswith("✓")
    assert progress.read()["blocks.slot"] == {"checks": 2, "passed": True}
    assert "✓ blocks.slot" in learn(capsys, "list")[1]
    assert f"1 of {len(exercises.all())} passed" in learn(capsys, "progress")[1]


def test_without_an_id_the_next_one_is_meant(course, capsys):
    for exercise in exercises.all():
        progress.record_check(exercise.id, True)
    assert "You have passed every exercise" in learn(capsys)[1]
    entries = progress.read()
    entries["blocks.slot"]["passed"] = False
    progress.write(entries)
    assert "blocks.slot" in learn(capsys, "next")[1]


def test_hints_come_one_after_the_other(capsys):
    hints = exercises.find("blocks.slot").hints
    for number in (0, 1, 2, 2):
        assert hints[number] in learn(capsys, "hint", "blocks.slot")[1]
    assert progress.read()["blocks.slot"]["hints"] == 3


def test_reset_restores_one_and_leaves_the_others(course, capsys):
    before = notebook(course)[0].read_bytes()
    write(course, "blocks.slot", RIGHT)
    write(course, "blocks.allocator", "mine = 1")
    assert learn(capsys, "reset", "blocks.slot")[0] == 0
    code = cells.code_cells(notebook(course)[1])
    assert "raise NotImplementedError()" in cells.source_of(cells.answers(code, "blocks.slot")[0])
    assert cells.source_of(cells.answers(code, "blocks.allocator")[0]) == "mine = 1"
    learn(capsys, "reset", "blocks.allocator")
    assert notebook(course)[0].read_bytes() == before
    code, shown = learn(capsys, "reset")
    assert code == 2 and "name the exercise" in shown


def test_a_deleted_cell_comes_back_and_a_copied_one_is_told(course, capsys):
    path, book = notebook(course)
    book["cells"] = [cell for cell in book["cells"] if cell["id"] != "blocks_slot"]
    path.write_text(json.dumps(book), encoding="utf-8")
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 2 and "`minipaged learn reset blocks.slot` restores it" in shown
    assert learn(capsys, "reset", "blocks.slot")[0] == 0
    path, book = notebook(course)
    place = [cell["id"] for cell in book["cells"]].index("blocks_slot")
    assert book["cells"][place - 1]["id"] == "blocks_slot_text"
    book["cells"].append(dict(book["cells"][place], id="copy"))
    path.write_text(json.dumps(book), encoding="utf-8")
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 2 and "has 2 cells with the id blocks_slot; delete all but one" in shown


def test_the_solution_comes_after_a_pass_or_by_force(capsys):
    code, shown = learn(capsys, "solution", "blocks.slot")
    assert code == 2 and "not passed yet" in shown
    code, shown = learn(capsys, "solution", "--force", "blocks.slot")
    assert code == 0 and "divmod" in shown and "SOLUTION" not in shown
    assert progress.read()["blocks.slot"]["forced"] is True
    assert "seen before passing: blocks.slot" in learn(capsys, "progress")[1]


@pytest.mark.parametrize("source, sentence", [
    ("def slot(:\n    pass", "Python can't read line 1, 'def slot(:'"),
    ("1 / 0", "running its cell raises ZeroDivisionError"),
    ("import sys\nsys.exit(0)", "running its cell raises SystemExit"),
    ("import os\nos._exit(0)", "before the check was over"),
    ("print('✓ right')", "`slot` is not defined here"),
    ("", "`slot` is not defined here"),
])
def test_cells_that_do_not_run_are_told(course, capsys, source, sentence):
    write(course, "blocks.slot", source)
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 1 and sentence in shown
    assert not progress.read()["blocks.slot"]["passed"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [1, null]}'])
def test_a_broken_notebook_is_told(course, capsys, text):
    (course / "exercises" / "03_blocks.ipynb").write_text(text, encoding="utf-8")
    for action in ("check", "reset"):
        code, shown = learn(capsys, action, "blocks.slot")
        assert code == 2 and "03_blocks.ipynb" in shown and shown.count("\n") == 1


def test_it_works_in_a_folder_below_and_says_where_notebooks_should_be(course, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(course / "exercises")
    assert learn(capsys, "check", "blocks.slot")[0] == 1
    monkeypatch.chdir("/")
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 2 and "MINIPAGED_EXERCISES" in shown
    monkeypatch.setenv("MINIPAGED_EXERCISES", str(course / "exercises"))
    assert learn(capsys, "check", "blocks.slot")[0] == 1


def test_lists_are_data_too(capsys):
    rows = json.loads(learn(capsys, "list", "--json")[1])
    assert [row["id"] for row in rows] == [one.id for one in exercises.all()]
    assert json.loads(learn(capsys, "progress", "--json")[1])["file"].endswith("progress.json")
    assert all(row["level"] == "easy" for row in json.loads(learn(capsys, "list", "--json", "--level", "easy")[1]))


def test_a_wrong_id_or_action_is_one_line(capsys):
    for words in (("check", "blocks.slots"), ("jump",), ("hint", "3")):
        code, shown = learn(capsys, *words)
        assert code == 2 and shown.count("\n") == 1


def test_a_check_speaks_of_the_terminal_and_of_the_next_one_that_is_not_passed(course, capsys):
    write(course, "blocks.slot", RIGHT.replace("* block_size", "* 1"))
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 1 and "`minipaged learn hint blocks.slot`" in shown and 'hint("' not in shown
    for exercise in exercises.all():
        progress.record_check(exercise.id, exercise.id not in ("blocks.slot", "waste.tail"))
    write(course, "blocks.slot", RIGHT)
    code, shown = learn(capsys, "check", "blocks.slot")
    assert code == 0 and "(waste.tail, easy, 8 minutes)" in shown
