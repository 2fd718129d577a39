"""What runs on Gradescope: one submission in, results.json out, whatever happens in between.

`grade.py` of the autograder's zip calls `main`. The folder has Gradescope's form: source/ is the zip, submission/ what
the learner uploaded, results/ what is shown. "incomplete, 0 points" is written first, so that an autograder that is
stopped leaves a result that is true.
"""
from __future__ import annotations

import json
import os
from pathlib import Path

from minipaged.lab.grader import batch
from minipaged.lab.grader.folders import WORK, as_json, write_atomically
from minipaged.lab.grader.results import as_gradescope, tidy
from minipaged.lab.grader.submission import read


def main(root: Path) -> None:
    """Grade root/submission into root/results/results.json."""
    source, results = root / "source", root / "results"
    results.mkdir(exist_ok=True)
    if os.name == "posix" and os.getuid() == 0:
        os.chmod(source, 0o700)  # where Landlock and namespaces are missing, this still keeps the answers from others
    exercises = batch.exercises_of(json.loads((source / "labs.json").read_text(encoding="utf-8")))
    submission = read("submission", root / "submission", exercises)
    row = batch.incomplete(submission, exercises)
    write_atomically(results / "results.json", as_json(as_gradescope(tidy(row), exercises)))
    key = (source / "class.key").read_bytes().strip()
    try:
        row = batch.grade_one(batch.task(submission, exercises, key, hidden=[root], work=root / WORK))
    finally:
        batch.close_keepers()
    write_atomically(results / "results.json", as_json(as_gradescope(tidy(row), exercises)))
