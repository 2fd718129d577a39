"""Attacks on what a class is graded into: rows that can't be written, formulas, folders in each other."""
from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import threading
import zipfile

import pytest

from minipaged.cli import main
from minipaged.lab.grader import batch, folders
from minipaged.lab.grader.keeper import Keeper
from minipaged.lab.grader.results import as_csv

from .classroom import ALLOCATOR, RIGHT, SLOT, hand_in, notebook

KEY = b"a key of the class for tests"
POOL = """
class BlockAllocator:
    def __init__(self, n): self.free_count = n
    def allocate(self): return @VALUE@
    def free(self, block): pass
"""
BLOCKS = ["float('nan')", "float('-inf')", "{(1, 2): 3}", "{1: {None: b'x'}}", "['x' * 10**6] * 25",
          "[[[[]] * 90] * 90]", "'\\ud800' * 9", "b'\\xff'", "10**600", "-1", "True", "0.5", "'<b>'", "None"]


def grade(folder, results):
    rows = batch.grade_class(folder, results, labs=["03_blocks"], key=KEY)
    return {row["learner"]: {one["exercise"]: one for one in row["verdicts"]} for row in rows}


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "class"
    path.mkdir()
    return path


def test_no_block_that_an_allocator_gives_spoils_the_row_or_the_film(folder, tmp_path):
    for number, value in enumerate(BLOCKS):
        hand_in(folder, f"{number:02}", notebook({**RIGHT, ALLOCATOR: POOL.replace("@VALUE@", value)}))
    hand_in(folder, "z honest", notebook(RIGHT))
    found = grade(folder, tmp_path / "results")
    assert [found[name][ALLOCATOR]["status"] for name in found] == ["wrong"] * len(BLOCKS) + ["right"]
    assert all(found[name][SLOT]["points"] == 1 for name in found)
    for path in (tmp_path / "results").rglob("*"):
        assert path.is_dir() or path.stat().st_size < 300_000, path.name
    before = {path: path.read_bytes() for path in (tmp_path / "results").rglob("*") if path.is_file()}
    again = grade(folder, tmp_path / "results")
    assert again == found, "what was kept is what was judged"
    assert before == {path: path.read_bytes() for path in before}


def test_a_name_is_one_cell_of_text_in_every_spreadsheet():
    names = ["a;=1+1", "a\t=1+1", 'a";=1+1', "  =1+1", "\n@x", "-1", "＝1"]
    rows = [{"learner": name, "score": 0, "max_score": 0, "verdicts": [], "notes": [], "isolation": "full"}
            for name in names]
    text = as_csv(rows, ())
    for line in text.splitlines()[1:]:
        assert line.startswith('"') and line.endswith('"')
    cells = [row[0] for row in csv.reader(io.StringIO(text))][1:]
    assert cells == ["a;=1+1", "a =1+1", 'a";=1+1', "'=1+1", "'@x", "'-1", "'＝1"]
    for row in csv.reader(io.StringIO(text), delimiter=";"):  # as a spreadsheet reads it where ; parts cells
        assert len(row) == 1 and row[0][0] not in "=+-@＝"


def test_the_grades_as_json_can_be_printed_whatever_an_exception_says(folder, tmp_path):
    hand_in(folder, "learner", notebook({**RIGHT, SLOT: "def slot(*args):\n    raise ValueError('\\ud800\\x9b2J')"}))
    done = subprocess.run([sys.executable, "-m", "minipaged", "grade", str(folder), "-o", str(tmp_path / "results"),
                           "-j", "1", "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout)["rows"][0]["score"] == 1 and done.stdout.isascii()


def test_a_score_that_somebody_wrote_into_a_notebook_counts_nothing(folder, tmp_path):
    """In outputs, in metadata, in a zip with a right notebook, and with another cell's id."""
    outputs = [{"output_type": "stream", "name": "stdout", "text": "right 1/1"},
               {"output_type": "display_data", "metadata": {}, "data": {"application/json": {
                   "score": 99, "verdicts": [{"exercise": SLOT, "status": "right", "points": 1}]}}}]
    forged = json.loads(notebook({SLOT: "def slot(*args):\n    return 0"}))
    forged["cells"][-1]["outputs"] = outputs
    forged["metadata"] = {"nbgrader": {"score": 99}, "minipaged": {"score": 99}}
    hand_in(folder, "outputs", json.dumps(forged))
    path = hand_in(folder, "zip", notebook(RIGHT))
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as packed:
        packed.write(path, "03_blocks.ipynb")
    path.unlink()
    odd = {"cells": [{"cell_type": "code", "id": [1], "metadata": [1], "source": [1, None], "outputs": {}}, None, 7,
                     {"cell_type": ["code"], "source": 5}, {"cell_type": "code", "metadata": {"tags": {"setup": 1},
                                                                                               "nbgrader": [1]}}]}
    hand_in(folder, "odd", json.dumps(odd))
    hand_in(folder, "number", '{"cells": [' + "1" * 5000 + "]}")
    hand_in(folder, "twice", '{"cells": 5, "cells": [], "metadata": NaN, "n": 1e999}')
    found = grade(folder, tmp_path / "results")
    assert {name: found[name][SLOT]["points"] for name in found} == dict.fromkeys(found, 0.0)
    assert found["outputs"][SLOT]["status"] == "wrong" and len(found) == 5


@pytest.mark.parametrize("inside", ["work", "submissions", "pages", "a/b"])
def test_submissions_inside_the_results_are_refused_and_left_as_they_are(tmp_path, capsys, monkeypatch, inside):
    monkeypatch.chdir(tmp_path)
    path = hand_in(tmp_path / inside, "learner", notebook(RIGHT))
    assert main(["grade", inside, "-o", "."]) == 2
    assert "lies inside" in capsys.readouterr().err and path.exists()
    assert not (tmp_path / "class.key").exists()


def test_a_teachers_own_files_beside_the_results_stay(folder, tmp_path):
    hand_in(folder, "learner", notebook(RIGHT))
    results = tmp_path / "results"
    own = [results / "work" / "notes.txt", results / "draft.tmp", results / "pages" / "index.html",
           results / "work" / "x.tmp"]
    for path in own:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine", encoding="utf-8")
    grade(folder, results)
    assert [path.read_text(encoding="utf-8") for path in own] == ["mine"] * 4


def test_the_page_of_somebody_who_is_no_longer_there_goes(folder, tmp_path):
    hand_in(folder, "anna", notebook(RIGHT))
    gone = hand_in(folder, "ben", notebook({}))
    grade(folder, tmp_path / "results")
    gone.parent.rename(tmp_path / "ben")
    grade(folder, tmp_path / "results")
    for kind in ("pages", "gradescope"):
        assert [path.name[:5] for path in (tmp_path / "results" / kind).iterdir()] == ["anna-"]


@pytest.mark.parametrize("way", ["folder", "file"])
def test_a_second_grader_in_the_same_results_is_told_to_wait(folder, tmp_path, monkeypatch, way):
    if way == "file":  # as on Windows, which has no locks of folders
        monkeypatch.setattr(folders, "fcntl", None)
    elif folders.fcntl is None:
        pytest.skip("this system has no locks of folders")
    hand_in(folder, "learner", notebook(RIGHT))
    results = tmp_path / "results"
    results.mkdir()
    with folders.only_grader(results), pytest.raises(ValueError, match="another grader is at work"):
        grade(folder, results)
    assert grade(folder, results)["learner"][SLOT]["points"] == 1
    assert not (results / folders.LOCK).exists()


def test_an_answer_whose_keeper_died_is_run_again_and_a_fault_is_not_kept(folder, tmp_path, monkeypatch):
    hand_in(folder, "learner", notebook(RIGHT))
    starts, answer = [], Keeper.answer

    def dies(self, seconds):
        starts.append(self)
        if len(starts) in (1, 3, 4):  # the first time of the first exercise, and both of the second
            raise BrokenPipeError("the keeper was ended")
        return answer(self, seconds)

    monkeypatch.setattr(Keeper, "answer", dies)
    found = grade(folder, tmp_path / "results")["learner"]
    assert found[ALLOCATOR]["status"] == "right" and found[SLOT]["status"] == "incomplete"
    assert grade(folder, tmp_path / "results")["learner"][SLOT]["status"] == "right", "the next run tries again"


def test_two_names_never_share_a_file(folder):
    names = ["anna", "Anna", "anna.", "an na", "an_na", "李", "", "a" * 300, "a" * 301, "../../x", "con", "\x1b[2J"]
    slugs = [folders.slug(name) for name in names]
    assert len(set(slugs)) == len(names) and all(len(name) < 60 and not set("/.") & set(name) for name in slugs)
    assert all(len(name.rpartition("-")[2]) == 16 for name in slugs), "nobody finds a second name for a file"


def test_no_thread_and_no_folder_is_left(folder, tmp_path):
    hand_in(folder, "learner", notebook(RIGHT))
    threads = threading.active_count()
    grade(folder, tmp_path / "results")
    assert threading.active_count() == threads
    assert not [name for name in os.listdir(tmp_path / "results") if name.startswith(".")]
