"""Reading what was handed in: nothing that lies in a folder stops the class, or holds it up."""
from __future__ import annotations

import os
import socket
import time

import pytest

from minipaged.lab import exercises
from minipaged.lab.grader import submission

from ..grader_attacks.classroom import RIGHT, cells, code, hand_in, notebook

BLOCKS = exercises.of_chapter("03_blocks")
posix = pytest.mark.skipif(os.name != "posix", reason="links, sockets and such names are POSIX's")


def read_all(folder):
    return {learner: submission.read(learner, path, BLOCKS) for learner, path in submission.submissions(folder)}


def notes(found):
    return " ".join(text for _, text in found.notes)


@posix
def test_links_that_lead_nowhere_round_or_too_far_are_named(tmp_path):
    (tmp_path / "too long").symlink_to("a" * 300)
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "nowhere").symlink_to("nothing")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "up").symlink_to("..")
    (tmp_path / "inside" / "a.ipynb").symlink_to("b" * 300)
    (tmp_path / "inside" / "here.ipynb").symlink_to(".")
    found = read_all(tmp_path)
    assert {name: "it is a link" in notes(one) for name, one in found.items()} == dict.fromkeys(
        ["inside", "nowhere", "round", "too long"], True)


@posix
def test_a_socket_and_names_with_control_characters_are_read_like_others(tmp_path, monkeypatch):
    hand_in(tmp_path, "a\x1b[2J\n\u202e=1", notebook(RIGHT))
    hand_in(tmp_path, os.fsdecode(b"\xff\x01"), notebook(RIGHT))
    (tmp_path / "socket").mkdir()
    monkeypatch.chdir(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("a.ipynb")
        found = read_all(tmp_path)
    assert [len(one.cells) for one in found.values()] == [2, 0, 2]
    assert "a.ipynb can't be read" in notes(found["socket"])


def test_a_folder_and_a_file_of_one_name_are_two_learners(tmp_path):
    hand_in(tmp_path, "anna", notebook(RIGHT))
    (tmp_path / "anna.ipynb").write_text(notebook({}), encoding="utf-8")
    assert [(name, len(one.cells)) for name, one in read_all(tmp_path).items()] == [("anna", 2), ("anna (2)", 0)]


@pytest.mark.parametrize("text", [
    "x = 0x" + "f" * 5000, "def g():\n    return f\"\"\"{'''\\\n'''}\"\"\"", "x = '\ud800'", "import \ud800",
    "\x0c\ufeffx = 1", "x = 1\x00", "x = " + "(" * 3000, "x = " + "[" * 150 + "]" * 150,
    "if a: pass\n" + "elif a: pass\n" * 5000, "'\\d' '\\\x1b'", "x = 1_" * 9,
    "@(" * 900, "class A(" * 900, "lambda: " * 5000 + "1", "{" * 180 + "1:",
], ids=lambda text: text[:12].encode("ascii", "backslashreplace").decode())
def test_no_text_of_a_cell_stops_the_reading_or_costs_the_answers(tmp_path, text):
    hand_in(tmp_path, "a", notebook([code(text, "own"), *cells(RIGHT)]))
    started = time.process_time()
    found = read_all(tmp_path)["a"]
    assert list(found.cells) == list(RIGHT) and time.process_time() - started < 5


@pytest.mark.parametrize("text", [
    '{"cells": NaN}', '{"cells": [NaN, Infinity, -Infinity, 1e999]}', '{"cells": [' + "1" * 9000 + "]}",
    '{"cells": [{"cell_type": "code", "source": ["\\ud800", 3, null], "id": "\\ud800"}]}', '{"cells": {"0": 1}}',
    '{"cells": [], "cells": [[]]}', "[" * 100_000, '{"a":' * 100_000, '"cells"', "", "\ufeff{}", '{"worksheets": []}',
], ids=lambda text: text[:24].encode("ascii", "backslashreplace").decode() or "empty")
def test_odd_json_is_a_submission_without_answers(tmp_path, text):
    hand_in(tmp_path, "a", text)
    found = read_all(tmp_path)["a"]
    assert found.cells == {} and len(notes(found)) < 1000


def test_many_large_notebooks_cost_little_time_and_memory_and_the_first_ones_count(tmp_path):
    path = hand_in(tmp_path, "a", notebook(RIGHT))
    junk = '{"cells":[' + "[]," * 400_000 + "1]}"
    lists = notebook([code("x = [" + "[]," * 30_000 + "]", f"x{number}") for number in range(5)])
    texts = notebook([code("x = '" + "\\x00" * 24_000 + "'", f"y{number}") for number in range(5)])
    for number in range(12):
        for name, text in (("junk", junk), ("lists", lists), ("texts", texts)):
            (path.parent / f"{name}{number}.ipynb").write_text(text, encoding="utf-8")
    started = time.process_time()
    found = read_all(tmp_path)["a"]
    assert time.process_time() - started < 12
    assert found.cells == {name: [text] for name, text in RIGHT.items()}
    assert sum(map(len, found.shared)) <= submission.MAX_SHARED_TEXT
    assert "more than 1,000,000 parts" in notes(found) and "of all notebooks together" in notes(found)
