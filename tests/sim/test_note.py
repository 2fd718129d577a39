"""The note minipaged/sim/README.md says what the programs print."""
from __future__ import annotations

import re
import subprocess
import sys

import pytest

from minipaged.sim.experiments import EXPERIMENTS, run_experiment


@pytest.fixture(scope="module")
def note(root) -> str:
    return (root / "minipaged" / "sim" / "README.md").read_text(encoding="utf-8")


def test_the_accuracy_in_the_note_is_what_the_benchmark_prints(root, note):
    done = subprocess.run([sys.executable, "-m", "benchmarks.sim_accuracy", "--free-order", "append"], cwd=root,
                          capture_output=True, text=True)
    assert done.stdout.strip() in note


def test_the_python_in_the_note_runs(note):
    names: dict = {}
    exec(re.search(r"```python\n(.*?)```", note, re.DOTALL)[1], names)
    assert names["report"]["finished"] == 100 and names["report"]["swapped_blocks"] > 0 and len(names["rows"]) == 50


def test_the_note_has_every_experiment(note):
    assert re.findall(r"^### (\w+)$", note, re.MULTILINE) == list(EXPERIMENTS)


@pytest.mark.full
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_tables_in_the_note_are_what_the_experiments_print(note, name):
    assert run_experiment(name).text() in note
