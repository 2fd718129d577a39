"""The progress file: atomic, versioned, by ids; a bad one is told and not overwritten."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from minipaged.lab import hint, progress


@pytest.fixture(autouse=True)
def file(tmp_path, monkeypatch):
    path = tmp_path / "progress.json"
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(path))
    return path


def test_checks_and_hints_are_counted_and_passed_stays(file):
    progress.record_check("blocks.slot", False)
    progress.record_check("blocks.slot", True)
    progress.record_check("blocks.slot", False)
    progress.record_hint("blocks.slot", 2)
    progress.record_hint("blocks.slot", 1)
    assert progress.read() == {"blocks.slot": {"checks": 3, "passed": True, "hints": 2}}
    assert json.loads(file.read_text(encoding="utf-8"))["version"] == 1


def test_a_learners_answer_under_nbgrader_is_not_the_teachers_progress(file, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    progress.record_check("blocks.slot", True)
    assert not file.exists()
    monkeypatch.setenv("NBGRADER_EXECUTION", "validate")  # the learner's own button
    progress.record_check("blocks.slot", True)
    assert progress.read()["blocks.slot"]["passed"]


def test_unknown_exercises_are_kept(file):
    file.write_text(json.dumps({"version": 1, "exercises": {"later.one": {"passed": True, "new": 1}}}),
                    encoding="utf-8")
    progress.record_check("blocks.slot", True)
    assert progress.read()["later.one"] == {"passed": True, "new": 1}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 9, "exercises": {}}', '{"exercises": {}}', "\x00"])
def test_a_bad_file_is_told_and_left_as_it_is(file, text, capsys):
    file.write_text(text, encoding="utf-8")
    with pytest.raises(progress.ProgressError, match="progress.json"):
        progress.read()
    progress.record_check("blocks.slot", True)  # the check itself goes on
    assert "progress was not recorded" in capsys.readouterr().out
    hint("blocks.slot")
    hint("blocks.slot", 3)
    hint("blocks.slot", 4)
    shown = capsys.readouterr().out
    assert "Hint 1 of 3" in shown and "Hint 3 of 3" in shown and "4 is none of them" in shown
    assert file.read_text(encoding="utf-8") == text


def test_a_folder_may_be_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(tmp_path))
    assert progress.progress_file() == tmp_path / "progress.json"


def test_without_the_variable_it_lies_in_the_platforms_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("MINIPAGED_PROGRESS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    assert progress.progress_file().parts[-2:] == ("minipaged", "progress.json")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_kill_leaves_a_whole_file(file):
    program = ("from minipaged.lab import hint, progress\nimport itertools\n"
               "for n in itertools.count():\n    progress.update(f'a.b{n % 50}', checks=n, text='x' * 2000)")
    for delay in (0.05, 0.1, 0.15, 0.2):
        worker = subprocess.Popen([sys.executable, "-c", program], env=os.environ)
        until = time.monotonic() + 20
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(delay)
        worker.kill()
        worker.wait()
        assert progress.read()
