"""The checks reject wrong answers by name, and let right ones pass. All of them: `python -m tests.mutants`."""
from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys

import pytest

#: of so many exercises one gives a wrong answer of this kind to the sample in CI
EVERY = {"written": 1, "generated": 3, "right": 3}


@pytest.fixture(scope="module")
def mutants(root):
    sys.path.insert(0, str(root))  # it takes the root off again
    spec = importlib.util.spec_from_file_location("lab_mutants", root / "tests" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def complaints(numbers):
    return numbers["survivors"] + numbers["not_named"] + numbers["rejected_right"]


def test_a_sample_is_rejected_by_name_and_a_right_answer_passes(mutants):
    drawn: dict[tuple[str, str], object] = {}
    for one in sorted(mutants.answers.candidates(), key=lambda one: hashlib.sha256(f"{one}".encode()).digest()):
        if int.from_bytes(hashlib.sha256(one.exercise.encode()).digest()) % EVERY[one.kind] == 0:
            drawn.setdefault((one.exercise, one.kind), one)
    numbers = mutants.summary(mutants.try_all(list(drawn.values()), 2))
    assert complaints(numbers) == []
    assert numbers["written"] == len(mutants.exercises.all())


def test_each_exercise_has_three_right_answers_and_knows_its_equivalents(mutants):
    right = [one.exercise for one in mutants.answers.right_answers()]
    wrong = [one.id for one in mutants.exercises.all() if right.count(one.id) < 3]
    assert wrong == []
    assert set(right) <= {one.id for one in mutants.exercises.all()}
    assert all(len(reason.split()) >= 4 for table in mutants.known_equivalents().values() for reason in table.values())


@pytest.mark.full
def test_all_wrong_answers_are_rejected_and_all_right_ones_pass(mutants, root):
    done = subprocess.run([sys.executable, "-m", "tests.mutants", "--json"], cwd=root, capture_output=True, text=True,
                          encoding="utf-8")
    numbers = json.loads(done.stdout)
    assert complaints(numbers) == []
    assert numbers["killed"] >= 0.98 * (numbers["mutants"] - numbers["equivalent"])
