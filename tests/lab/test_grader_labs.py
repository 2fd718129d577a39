"""Every lab of the course in the grader: its solutions are right, its stripped notebook scores nothing."""
from __future__ import annotations

import shutil

from minipaged.lab import exercises
from minipaged.lab.grader import batch


def test_all_solutions_are_right_and_all_unsolved_labs_score_nothing(tmp_path, root):
    labs = sorted({exercise.chapter for exercise in exercises.all()})
    for name in ("solutions", "exercises"):
        (tmp_path / "class" / name).mkdir(parents=True)
        for lab in labs:
            shutil.copy(root / name / f"{lab}.ipynb", tmp_path / "class" / name)
    unsolved, solved = batch.grade_class(tmp_path / "class", tmp_path / "results", labs=labs, key=b"k" * 20)
    assert {one["exercise"]: one["message"] for one in solved["verdicts"] if one["status"] != "right"} == {}
    assert {one["exercise"]: one["status"] for one in unsolved["verdicts"] if one["status"] != "unfinished"} == {}
    assert unsolved["score"] == 0 and solved["score"] == len(exercises.all())
