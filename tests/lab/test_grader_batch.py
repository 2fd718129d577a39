"""A class from notebooks to files: nothing is lost, a killed grader resumes, and the files are what others read."""
from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest

from minipaged.cli import main
from minipaged.lab import exercises
from minipaged.lab.grader import batch, submission

from ..grader_attacks.classroom import ALLOCATOR, RIGHT, SLOT, cells, code, hand_in, lab, notebook, wrong

KEY = b"a key of the class for tests"


def grade(folder, results, **options):
    """learner -> (points by exercise, all texts of the row)."""
    rows = batch.grade_class(folder, results, labs=["03_blocks"], key=KEY, **options)
    return {row["learner"]: ({one["exercise"]: one["points"] for one in row["verdicts"]},
                             " ".join([*row["notes"], *(note for one in row["verdicts"] for note in one["notes"])]))
            for row in rows}


def points(found, learner, exercise=SLOT):
    return found[learner][0][exercise]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "class"
    path.mkdir()
    return path


def files(results) -> dict[str, bytes]:
    return {str(path.relative_to(results)): path.read_bytes() for path in sorted(results.rglob("*")) if path.is_file()
            and path.name != "class.key"}


def processes() -> dict[int, int]:
    """pid -> the parent's, of all processes; empty where there is no ps."""
    if shutil.which("ps") is None:
        return {}
    lines = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(pid): int(parent) for pid, parent in map(str.split, lines)}


def descendants(pid: int) -> set[int]:
    found, table = {pid}, processes()
    while more := {one for one, parent in table.items() if parent in found} - found:
        found |= more
    return found - {pid}


def test_odd_submissions_each_get_a_row_and_the_others_their_points(folder, tmp_path):
    hand_in(folder, "right", notebook(RIGHT))
    hand_in(folder, "broken", "{\"cells\": [")
    hand_in(folder, "latin", b'{"cells": ["\xe9\xff"]}')
    hand_in(folder, "list", "[1, 2]")
    hand_in(folder, "deep", "[" * 100_000)
    hand_in(folder, "huge", b" " * (submission.MAX_BYTES + 1))
    hand_in(folder, "long", notebook([code("x = " + "1 < " * 20_000 + "1", f"x{number}") for number in range(30)]))
    odd = [{"source": 3}, {"source": [1], "metadata": [], "id": {}}, {}]
    hand_in(folder, "odd cells", json.dumps({"cells": [1, None, *({"cell_type": "code", **cell} for cell in odd)]}))
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("my homework", encoding="utf-8")
    (folder / "one.ipynb").write_text(notebook(RIGHT), encoding="utf-8")
    (folder / ".DS_Store").write_bytes(b"x")
    if hasattr(os, "mkfifo"):
        (folder / "link").symlink_to(folder / "right")
        (folder / "linked").mkdir()
        (folder / "linked" / "03_blocks.ipynb").symlink_to(folder / "right" / "03_blocks.ipynb")
        (folder / "device").mkdir()
        os.mkfifo(folder / "device" / "a.ipynb")
    found = grade(folder, tmp_path / "results")
    assert [name for name in found if points(found, name)] == ["one", "right"]
    for learner, words in {"broken": "not JSON", "latin": "not UTF-8: byte 12 is 0xe9", "list": "no list of cells",
                           "deep": "nested too deep", "huge": "16,777,217 bytes", "empty": "no notebook (.ipynb)",
                           "notes.txt": "does not end in .ipynb", "odd cells": "no cell 'blocks_slot'",
                           "long": "its code has 2,400,150 characters"}.items():
        assert words in found[learner][1], learner
    if hasattr(os, "mkfifo"):
        assert "it is a link" in found["link"][1] and "it is a link" in found["linked"][1]
        assert "no regular file" in found["device"][1]


def test_cells_that_were_moved_copied_split_deleted_or_renamed_cost_nothing_else(folder, tmp_path):
    answer = RIGHT[SLOT].replace("from minipaged.errors import BlockError\n\n", "")
    hand_in(folder, "deleted", notebook({ALLOCATOR: RIGHT[ALLOCATOR]}))
    twice = cells(RIGHT)
    hand_in(folder, "copied", notebook([*twice, twice[-1]]))
    split = [*cells({ALLOCATOR: RIGHT[ALLOCATOR]}), *cells({SLOT: "from minipaged.errors import BlockError"})[1:],
             *cells({SLOT: answer})[1:]]
    hand_in(folder, "split", notebook(split))
    stripped = [code(cell["source"], f"x{number}") for number, cell in enumerate(cells(RIGHT))]
    hand_in(folder, "stripped", notebook(stripped))
    hand_in(folder, "backwards", notebook(cells(RIGHT)[::-1]))
    hand_in(folder, "renamed", notebook(RIGHT)).rename(folder / "renamed" / "Kopie von lab (2).ipynb")
    helper = [cells(RIGHT)[0], code("WIDTH = 3\ndef helper(a, b):\n    return a // b, a % b\nprint(1 / 0)", "mine"),
              *cells({SLOT: answer.replace("position // block_size, position % block_size",
                                           "helper(position, block_size)")})[1:]]
    hand_in(folder, "helper", notebook(helper))
    magic = {SLOT: "%timeit 3\n!ls\n" + answer + "\nslot?\n"}
    hand_in(folder, "magic", notebook(magic))
    trying = {SLOT: answer + "\nprint(slot([], 3, 4))\n"}
    hand_in(folder, "raises below", notebook(trying))
    found = grade(folder, tmp_path / "results")
    assert {name: points(found, name) for name in found} == {
        "backwards": 1, "copied": 1, "deleted": 0, "helper": 1, "magic": 1, "raises below": 1, "renamed": 1, "split": 1,
        "stripped": 1}
    assert points(found, "deleted", ALLOCATOR) == 1 and "there is no cell 'blocks_slot'" in found["deleted"][1]
    assert "has 2 cells with the id 'blocks_slot'" in found["copied"][1]
    assert "'blocks_slot' has lost its id" in found["stripped"][1]
    assert "the cell raised BlockError in line 4" in found["raises below"][1]


def test_a_grader_that_is_killed_resumes_with_the_same_bytes(folder, tmp_path):
    for number in range(8):
        answers = {**RIGHT, SLOT: wrong(SLOT, number % 3)} if number % 2 else RIGHT
        hand_in(folder, f"learner {number}", notebook(answers))
    hand_in(folder, "x endless", notebook({**RIGHT, SLOT: "def slot(*args):\n    while True:\n        pass"}))
    key = tmp_path / "key"
    key.write_bytes(KEY)
    command = [sys.executable, "-m", "minipaged", "grade", str(folder), "--key", str(key), "--lab", "03_blocks",
               "-j", "2"]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = subprocess.Popen([*command, "-o", str(killed)], stdout=subprocess.DEVNULL, cwd=tmp_path)
    end = time.monotonic() + 60
    while not list(killed.glob("submissions/*.json")) and time.monotonic() < end:
        time.sleep(0.01)
    started = descendants(process.pid)
    process.send_signal(getattr(signal, "SIGKILL", signal.SIGTERM))
    process.wait()
    end = time.monotonic() + 20
    while (left := started & processes().keys()) and time.monotonic() < end:
        time.sleep(0.1)
    assert left == set(), "workers and learners' processes end with the grader"
    before = {path.name: path.stat().st_mtime_ns for path in killed.glob("submissions/*.json")}
    assert 0 < len(before) < 9
    with (killed / "grades.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 9, "each learner had a row from the start"
    for results in (killed, whole):
        assert subprocess.run([*command, "-o", str(results)], stdout=subprocess.DEVNULL, cwd=tmp_path).returncode == 0
    assert files(killed) == files(whole)
    after = {path.name: path.stat().st_mtime_ns for path in killed.glob("submissions/*.json")}
    assert {name: after[name] for name in before} == before, "what was done is not done again"


def test_grading_again_gives_the_same_bytes_and_a_new_key_other_cases(folder, tmp_path):
    hand_in(folder, "right", notebook(RIGHT))
    hand_in(folder, "wrong", notebook({**RIGHT, ALLOCATOR: wrong(ALLOCATOR)}))
    grade(folder, tmp_path / "one")
    grade(folder, tmp_path / "two", jobs=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    exercise = exercises.find(SLOT)
    from minipaged.lab.grader.judging import cases

    first, again, other = (cases(exercise, key) for key in (KEY, bytes(KEY), b"another key of the class"))
    assert first == again and first != other and len(first) == len(exercise.examples) + 40


def test_a_changed_submission_is_graded_again(folder, tmp_path):
    path = hand_in(folder, "learner", notebook({**RIGHT, SLOT: wrong(SLOT)}))
    assert points(grade(folder, tmp_path / "results"), "learner") == 0
    path.write_text(notebook(RIGHT), encoding="utf-8")
    assert points(grade(folder, tmp_path / "results"), "learner") == 1


def test_the_command_prints_a_line_a_learner_and_writes_every_format(folder, tmp_path, capsys):
    hand_in(folder, "=cmd|'/c calc'!A1", notebook({**RIGHT, ALLOCATOR: wrong(ALLOCATOR)}))
    hand_in(folder, "<script>alert(1)</script> 李".replace("/", "_"), notebook(RIGHT))
    results = tmp_path / "results"
    assert main(["grade", str(folder), "-o", str(results), "-j", "1"]) == 0
    text = capsys.readouterr().out
    assert f"{len(RIGHT)} / {len(lab())}  <script>" in text and "2 submissions" in text
    rows = list(csv.DictReader(io.StringIO((results / "grades.csv").read_text(encoding="utf-8"))))
    assert [row["learner"][:5] for row in rows] == ["<scri", "'=cmd"], "no formula for a spreadsheet"
    table = json.loads((results / "grades.json").read_text(encoding="utf-8"))
    assert [row["score"] for row in table["rows"]] == [len(RIGHT), len(RIGHT) - 1]
    suites = ElementTree.parse(results / "junit.xml").getroot()
    assert [suite.get("tests") for suite in suites] == [str(len(lab()))] * 2
    for path in (results / "gradescope").iterdir():
        one = json.loads(path.read_text(encoding="utf-8"))
        assert one["score"] == sum(test["score"] for test in one["tests"])
        assert {test["status"] for test in one["tests"]} <= {"passed", "failed"}
    for path in [*(results / "pages").iterdir(), results / "index.html"]:
        assert "<script" not in path.read_text(encoding="utf-8")


def test_a_page_shows_the_run_and_the_likely_cause_but_no_expected_value(folder, tmp_path):
    source = RIGHT[ALLOCATOR].replace("self.free_list.pop()", "self.free_list[-1]")
    hand_in(folder, "learner", notebook({ALLOCATOR: source, SLOT: "def slot(*args):\n    return 424242"}))
    grade(folder, tmp_path / "results")
    page = next((tmp_path / "results" / "pages").iterdir()).read_text(encoding="utf-8")
    assert "you look at a free block but leave it in the list" in page
    assert "<th scope=col>P0</th>" in page and "A takes P" in page
    assert "424242" in page and "expected" not in page.lower() and "should" not in page.lower()


@pytest.mark.parametrize("arguments, words", [
    (["nowhere"], "nowhere is no folder"), (["."], "lies inside"), (["{folder}"], "is empty"),
    (["{folder}", "--lab", "99_nothing"], "there is no lab '99_nothing'"),
    (["{folder}", "--key", "{short}"], "no class key"),
])
def test_what_the_teacher_can_put_right_is_one_line(folder, tmp_path, capsys, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short").write_text("abc", encoding="utf-8")
    arguments = [text.format(folder=folder, short=tmp_path / "short") for text in arguments]
    assert main(["grade", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


_FORGED_TENSOR = """
import struct, sys
def slot(*args):
    frame = sys._getframe()
    while "number" not in frame.f_locals or "self" not in frame.f_locals:
        frame = frame.f_back
    protocol, number = frame.f_globals["protocol"], frame.f_locals["number"]
    parts = [number, "value", None, [], [], False]
    made = [protocol.encode(part) for part in parts]
    made[2] = b"X\\x07float32\\x00" + struct.pack("<If", 4, 1.0)
    frame.f_locals["self"].write(protocol.frame(b"t" + struct.pack("<I", 6) + b"".join(made)))
    while True:
        pass
"""


def test_a_lab_without_torch_never_loads_it(folder, tmp_path):
    answer = "import sys\ndef slot(*args):\n    return f'torch {\"torch\" in sys.modules} there'"
    hand_in(folder, "learner", notebook({**RIGHT, SLOT: answer}))
    hand_in(folder, "sends a tensor", notebook({**RIGHT, SLOT: _FORGED_TENSOR}))
    program = f"""
import sys
from pathlib import Path
from minipaged.lab.grader.batch import grade_class
rows = grade_class(Path({str(folder)!r}), Path({str(tmp_path / 'results')!r}), labs=["03_blocks"], key=b"k" * 20)
print(rows[0]["verdicts"][1]["status"], "torch" in sys.modules, "matplotlib" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["wrong", "False", "False"]
    table = (tmp_path / "results" / "grades.json").read_text(encoding="utf-8")
    assert "torch False there" in table and "an object of type torch.Tensor" in table


@pytest.mark.full
def test_two_hundred_submissions_take_less_than_four_minutes(folder, tmp_path):
    """Right, wrong and hostile ones of three exercises on two cores; the median of one is at most a second."""
    from ..grader_attacks.attacks import ATTACKS

    right = {**RIGHT, "blocks.grow": "from minipaged.errors import OutOfBlocks\n\n"
             "def grow(block_table, num_tokens, num_new, block_size, free_blocks):\n"
             "    need = max(0, -(-(num_tokens + num_new) // block_size) - len(block_table))\n"
             "    if need > len(free_blocks):\n        raise OutOfBlocks('too few')\n"
             "    return [*block_table, *free_blocks[:need]], free_blocks[need:]\n"}
    hostile = list(ATTACKS.values())
    for number in range(200):
        answers = dict(right)
        if number % 10 in (1, 4, 7):
            name = list(right)[number % 3]
            answers[name] = wrong(name, number % 5)
        if number % 10 in (2, 5):
            answers[SLOT] = hostile[number * 7 % len(hostile)].code.replace("@PORT@", "9")
        hand_in(folder, f"learner {number:03}", notebook(answers))
    started = time.monotonic()
    rows = batch.grade_class(folder, tmp_path / "results", labs=["03_blocks"], key=KEY, jobs=2)
    took = time.monotonic() - started
    assert took < 240
    assert len(rows) == 200 and all(row["score"] == row["max_score"] for row in rows[::10])
    seconds = []
    chosen = batch.exercises_of(["03_blocks"])
    for learner, path in submission.submissions(folder)[:40]:
        one = batch.task(submission.read(learner, path, chosen), chosen, KEY, hidden=[folder], work=tmp_path)
        started = time.monotonic()
        batch.grade_one(one)
        seconds.append(time.monotonic() - started)
    batch.close_keepers()
    assert sorted(seconds)[20] <= 1
    print(f"200 in {took:.0f} s, median {sorted(seconds)[20]:.2f} s, slowest {max(seconds):.1f} s")
