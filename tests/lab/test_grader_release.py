"""What a teacher hands out and uploads, and the statistics: releases, nbgrader, Gradescope, a cluster."""
from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from minipaged.cli import main
from minipaged.lab.cells import grade_id
from minipaged.lab.grader import batch, stats

from ..grader_attacks.classroom import ALLOCATOR, RIGHT, SLOT, hand_in, lab, notebook, wrong

KEY = b"a key of the class for tests"
CLASS = [RIGHT, {}, {ALLOCATOR: wrong(ALLOCATOR), SLOT: RIGHT[SLOT]}, {ALLOCATOR: RIGHT[ALLOCATOR], SLOT: wrong(SLOT)},
         {ALLOCATOR: wrong(ALLOCATOR, 1), SLOT: wrong(SLOT, 1)}, {SLOT: RIGHT[SLOT]}, {ALLOCATOR: RIGHT[ALLOCATOR]},
         {ALLOCATOR: RIGHT[ALLOCATOR], SLOT: "def slot(*args):\n    return 1 / 0"},
         {ALLOCATOR: "class BlockAllocator:\n    pass", SLOT: RIGHT[SLOT]},
         {ALLOCATOR: "class Something:\n    pass", SLOT: RIGHT[SLOT]}]


def filled(text: str, answers: dict[str, str]) -> str:
    """A released notebook as a learner hands it in: other cells as they were."""
    content = json.loads(text)
    for cell in content["cells"]:
        for name, source in answers.items():
            if cell.get("id") == grade_id(name):
                cell["source"] = source
    return json.dumps(content)


def release(form: str, target: Path, root: Path, *more: str) -> Path:
    assert main(["release", form, "--lab", "03_blocks", "-o", str(target), "--course", str(root), *more]) == 0
    return target


def test_the_zip_for_learners_holds_the_stripped_notebook_and_is_the_same_bytes_twice(tmp_path, root):
    first, second = release("zip", tmp_path / "a.zip", root), release("zip", tmp_path / "b.zip", root)
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert archive.namelist() == ["03_blocks.ipynb", "README.txt"]
        text = archive.read("03_blocks.ipynb").decode()
    assert "YOUR CODE HERE" in text and "SOLUTION" not in text


def test_a_released_notebook_goes_the_whole_way(tmp_path, root):
    """Hand out, hand in, grade: from the zip alone."""
    with zipfile.ZipFile(release("zip", tmp_path / "a.zip", root)) as archive:
        text = archive.read("03_blocks.ipynb").decode()
    (tmp_path / "class").mkdir()
    for number, answers in enumerate(CLASS[:5]):
        hand_in(tmp_path / "class", f"learner {number}", filled(text, answers))
    rows = batch.grade_class(tmp_path / "class", tmp_path / "results", key=KEY)
    assert [row["score"] for row in rows] == [2, 0, 1, 1, 0]
    assert [one["status"] for one in rows[1]["verdicts"][:2]] == ["unfinished", "unfinished"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="run_autograder is a bash script, and bash is not here")
@pytest.mark.parametrize("count", [4, pytest.param(10, marks=pytest.mark.full)])
def test_the_gradescope_autograder_runs_in_a_plain_folder_without_network(tmp_path, root, count):
    key = tmp_path / "class.key"
    key.write_bytes(KEY)
    archive = release("gradescope", tmp_path / "a.zip", root, "--key", str(key))
    (tmp_path / "class").mkdir()
    for number, answers in enumerate(CLASS[-count:]):
        hand_in(tmp_path / "class", f"{number}", notebook(answers))
    ours = batch.grade_class(tmp_path / "class", tmp_path / "results", labs=["03_blocks"], key=KEY)
    folder = tmp_path / "autograder"
    shutil.unpack_archive(archive, folder / "source")
    wrapped = ["unshare", "-n"] if shutil.which("unshare") and hasattr(os, "getuid") and os.getuid() == 0 else []
    (folder / "bin").mkdir()
    (folder / "bin" / "python3.11").symlink_to(sys.executable)  # what setup.sh installs
    for number, row in enumerate(ours):
        shutil.rmtree(folder / "submission", ignore_errors=True)
        shutil.copytree(tmp_path / "class" / str(number), folder / "submission")
        done = subprocess.run([*wrapped, "bash", str(folder / "source" / "run_autograder")], cwd=folder, check=True,
                              capture_output=True, text=True, env={
                                  "AUTOGRADER_ROOT": str(folder), "PATH": f"{folder / 'bin'}:/usr/bin:/bin"})
        found = json.loads((folder / "results" / "results.json").read_text(encoding="utf-8"))
        assert found["score"] == row["score"], (number, done.stderr)
        assert [test["score"] for test in found["tests"]] == [one["points"] for one in row["verdicts"]]
    assert not list(folder.glob(".minipaged-*"))


def test_gradescope_gets_a_result_whatever_is_uploaded(tmp_path):
    from minipaged.lab.grader.gradescope import main as run

    for name in ("source", "submission"):
        (tmp_path / name).mkdir()
    (tmp_path / "source" / "labs.json").write_text('["03_blocks"]', encoding="utf-8")
    (tmp_path / "source" / "class.key").write_bytes(KEY)
    (tmp_path / "submission" / "a.ipynb").write_bytes(b"\xff")
    run(tmp_path)
    found = json.loads((tmp_path / "results" / "results.json").read_text(encoding="utf-8"))
    assert found["score"] == 0 and "not UTF-8" in found["output"] and len(found["tests"]) == len(lab())


@pytest.mark.full
def test_nbgrader_takes_our_course_and_gives_the_same_scores(tmp_path, root):
    """generate_assignment, ten submissions, autograde, export: nbgrader's own commands."""
    folder = Path(sys.executable).parent
    if not (folder / "nbgrader").exists():
        pytest.skip("nbgrader is not installed beside this Python: pip install -e .[labs]")
    course = release("nbgrader", tmp_path / "course", root)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}

    def nbgrader(*arguments: str) -> None:
        subprocess.run([str(folder / "nbgrader"), *arguments], cwd=course, check=True, env=environment,
                       capture_output=True)

    nbgrader("generate_assignment", "03_blocks")
    text = (course / "release" / "03_blocks" / "03_blocks.ipynb").read_text(encoding="utf-8")
    assert "SOLUTION" not in text
    for number, answers in enumerate(CLASS):
        path = course / "submitted" / f"s{number}" / "03_blocks" / "03_blocks.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(filled(text, answers), encoding="utf-8")
    nbgrader("autograde", "03_blocks")
    nbgrader("export")
    with (course / "grades.csv").open(encoding="utf-8", newline="") as file:
        theirs = {row["student_id"]: float(row["raw_score"]) for row in csv.DictReader(file)}
    rows = batch.grade_class(course / "submitted", tmp_path / "results", labs=["03_blocks"], key=KEY)
    assert theirs == {row["learner"]: row["score"] for row in rows}


def test_a_release_that_cannot_be_made_says_what_to_do_in_one_line(tmp_path, root, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for arguments, words in ((["zip", "--lab", "77_none"], "there is no lab '77_none'"),
                             (["nbgrader", "--lab", "03_blocks", "--course", str(root), "-o", str(tmp_path / "full")],
                              "not empty")):
        assert main(["release", *arguments]) == 2
        error = capsys.readouterr().err
        assert words in error and error.count("\n") == 1


def test_statistics_of_a_small_class(tmp_path, capsys):
    (tmp_path / "class").mkdir()
    for number, answers in enumerate(CLASS[:5]):
        hand_in(tmp_path / "class", f"{number}", notebook(answers))
    batch.grade_class(tmp_path / "class", tmp_path / "results", labs=["03_blocks"], key=KEY)
    first = stats.items(stats.load(tmp_path / "results"))[0]
    assert first["id"] == ALLOCATOR and first["learners"] == 5 and first["difficulty"] == 0.4
    assert first["statuses"] == {"missing": 1, "right": 2, "wrong": 2}
    assert first["misconceptions"] == {"double-free": 1, "unknown-block": 1}
    assert main(["stats", str(tmp_path / "results")]) == 0
    text = capsys.readouterr().out
    assert "blocks.allocator" in text and "40%" in text and "double-free" in text
    assert main(["stats", str(tmp_path / "results"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["exercises"][0] == first
    assert main(["stats", str(tmp_path)]) == 2 and "minipaged grade" in capsys.readouterr().err


def test_discrimination_is_a_correlation():
    assert stats.correlation([0, 1, 0, 1], [1, 2, 1, 2]) == 1.0
    assert stats.correlation([0, 1, 0, 1], [2, 1, 2, 1]) == -1.0
    assert stats.correlation([1, 1, 1], [1, 2, 3]) is None and stats.correlation([], []) is None
    assert stats.correlation([0, 0, 1, 1], [0, 1, 0, 1]) == 0.0


@pytest.mark.full
def test_a_cluster_of_two_workers_gives_the_same_results(tmp_path):
    distributed = pytest.importorskip("distributed", reason="the extra [cluster] is not installed")
    (tmp_path / "class").mkdir()
    for number, answers in enumerate(CLASS[:4]):
        hand_in(tmp_path / "class", f"{number}", notebook(answers))
    here = batch.grade_class(tmp_path / "class", tmp_path / "here", labs=["03_blocks"], key=KEY)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
                                  dashboard_address=None) as cluster, distributed.Client(cluster):
        there = batch.grade_class(tmp_path / "class", tmp_path / "there", labs=["03_blocks"], key=KEY, jobs=-1,
                                  backend="dask")
    assert here == there
    assert (tmp_path / "here" / "grades.csv").read_bytes() == (tmp_path / "there" / "grades.csv").read_bytes()
