"""Recorded results: shown as recorded, compared where they can be made again, never invented."""
from __future__ import annotations

import json

import pytest
from minipaged.kernels import KernelUnavailable

from minipaged.lesson import recorded as module
from minipaged.lesson.recorded import recorded


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    monkeypatch.delenv("MINIPAGED_RECORD", raising=False)
    one = {"date": "2026-11-30", "machine": "a box with no GPU", "value": [1, 2]}
    (tmp_path / "99_test.json").write_text(json.dumps({"pair": one}), encoding="utf-8")
    return tmp_path


def unavailable():
    raise KernelUnavailable("no compiler here")


@pytest.mark.parametrize("measure", [unavailable, lambda: (1, 2)])
def test_the_output_says_when_and_where_and_is_the_same_on_every_machine_that_agrees(folder, capsys, measure):
    assert recorded("99_test", "pair", measure) == [1, 2]
    said = capsys.readouterr().out
    assert said.startswith("Recorded on 2026-11-30: a box with no GPU. Run again here, where") and said.count("\n") == 1


def test_a_missing_package_is_no_error(folder):
    def measure():
        raise ModuleNotFoundError("No module named 'triton'", name="triton")
    assert recorded("99_test", "pair", measure) == [1, 2]


def test_a_difference_is_said_and_what_was_measured_here_counts(folder, capsys):
    assert recorded("99_test", "pair", lambda: [1, 3]) == [1, 3]
    assert "Here it is different: [1, 3]\nRecorded was:         [1, 2]" in capsys.readouterr().out


def test_what_is_only_recorded_says_nothing_of_running_again(folder, capsys):
    assert recorded("99_test", "pair", lambda: [7], again=False) == [1, 2]
    assert capsys.readouterr().out == "Recorded on 2026-11-30: a box with no GPU.\n"


def test_nothing_is_invented(folder):
    for measure, again in ((unavailable, True), (lambda: [1], True), (lambda: [1], False)):
        with pytest.raises(KeyError, match="was not recorded"):
            recorded("99_test", "other", measure, again=again)


def test_recording_writes_what_is_read_again(folder, monkeypatch, capsys):
    monkeypatch.setenv("MINIPAGED_RECORD", "1")
    assert recorded("99_test", "other", lambda: {"a": (1,)}) == {"a": [1]}
    monkeypatch.delenv("MINIPAGED_RECORD")
    assert recorded("99_test", "other", unavailable) == {"a": [1]}
    assert recorded("99_test", "pair", unavailable) == [1, 2]
