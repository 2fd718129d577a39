"""The Makefile, the CI script, tests/run.py and the README: the commands that a newcomer types."""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")


def make(root: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    clean = {name: value for name, value in os.environ.items() if name not in ("TORCH", "MAKEFLAGS", "MAKELEVEL")}
    return subprocess.run(["make", *arguments], cwd=root, capture_output=True, text=True, env={**clean, **environment})


@needs_make
def test_plain_make_prints_the_targets(root):
    text = make(root).stdout
    for target in "setup demo lab test test-full notebooks oracle-full mutants bench lint clean".split():
        assert re.search(rf"^  {target} ", text, re.MULTILINE), target


@needs_make
@pytest.mark.parametrize("target", ["demo", "lab", "test", "setup"])
def test_each_target_does_its_own_set_up_with_torch_first(root, target):
    steps = make(root, "-n", "-B", target).stdout
    first, second, third = (steps.index(text) for text in
                            ("torch==2.13.0", "-r requirements.lock", "--no-deps --no-build-isolation -e ."))
    assert steps.index("-m venv .venv") < first < second < third
    assert "://" not in steps  # no index is named unless TORCH asks for one


@needs_make
def test_torch_build_can_be_chosen(root):
    assert "download.pytorch.org/whl/cpu" in make(root, "-n", "-B", "setup", "TORCH=cpu").stdout
    assert "pypi.org/simple torch==2.13.0" in make(root, "-n", "-B", "setup", TORCH="cuda").stdout
    wrong = make(root, "-n", "setup", "TORCH=gpu")
    assert wrong.returncode != 0 and "TORCH=gpu is unknown" in wrong.stderr


@needs_make
def test_an_old_python_is_refused_in_one_line(root, tmp_path):
    """A python3 that says it is 3.9 stops the set-up before anything is made."""
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 'minipaged needs Python 3.11 or newer' >&2\nexit 1\n")
    old.chmod(0o755)
    done = make(root, "-B", "setup", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}")
    assert done.returncode != 0
    assert "needs Python 3.11" in done.stderr
    assert not (tmp_path / "venv").exists()


@needs_bash
def test_ci_script_is_sound_and_is_what_the_workflow_runs(root):
    script = root / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    workflow = yaml.safe_load((root / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    runs = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert runs == [".ci/run"]
    assert script.read_text(encoding="utf-8").rstrip().endswith("exec make test")


@pytest.fixture(scope="module")
def runner(root: Path):
    spec = importlib.util.spec_from_file_location("test_runner", root / "tests" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_test_folder_belongs_to_one_part(root, runner):
    shown = [folder for part in runner.PARTS for folder in runner.folders_of(part, root)]
    present = {"/".join(path.parent.relative_to(root).parts[:2]) for path in (root / "tests").rglob("test_*.py")}
    assert sorted(shown) == sorted(present | {"notebooks", "solutions"}), "a folder in no part, or in two"


def test_a_failing_part_fails_the_whole_and_the_others_run(runner, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # starts sooner
    monkeypatch.setattr(runner, "PARTS", {part: (minutes, folders, []) for part, (minutes, folders, _) in
                                          runner.PARTS.items()})
    bodies = {"alpha": "assert 1", "oracle": "assert 0", "browser": "import pytest; pytest.skip('no x')"}
    for folder, line in bodies.items():
        (tmp_path / "tests" / folder).mkdir(parents=True)
        (tmp_path / "tests" / folder / f"test_{folder}.py").write_text(f"def test_it():\n    {line}\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -rs\n")
    assert runner.main([], root=tmp_path) == 1
    text = capfd.readouterr().out
    rows = re.findall(r"^(\w+) +[\d.]+ +(\d+)  (.*) in [\d.]+s$", text, re.MULTILINE)
    assert rows == [("core", "240", "1 passed"), ("oracle", "180", "1 failed"), ("browser", "180", "1 skipped")]
    assert "failed: oracle" in text and "no x" in text  # a skip is printed as a skip
    assert re.search(r"=+ 1 failed, 1 passed, 1 skipped in [\d.]+s =+", text)
    (tmp_path / "tests" / "oracle" / "test_oracle.py").unlink()
    assert runner.main([], root=tmp_path) == 0
    assert "oracle" not in capfd.readouterr().out


def test_an_empty_tree_is_not_a_success(runner, tmp_path):
    (tmp_path / "tests").mkdir()
    assert runner.main([], root=tmp_path) == 1


def test_readme_names_what_exists(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9-]+):", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    code = "\n".join(re.findall(r"`+([^`]+)`+", text))
    named = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", code))
    assert {"demo", "test", "lab", "setup"} <= named <= targets
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (root / link).exists(), f"README links to {link}"
