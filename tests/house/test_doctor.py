"""`minipaged doctor`: a line for each thing, an honest exit code, advice where something is not here."""
from __future__ import annotations

import json
import shutil

from minipaged import doctor


def test_the_table_has_a_line_for_each_check_and_advice_for_what_is_not_ok(capsys):
    code = doctor.run()
    text = capsys.readouterr().out
    for finding in doctor.examine():
        assert finding.found in text
        assert finding.advice in text
        assert finding.advice or finding.status == "ok", finding
    assert code == (1 if "Missing:" in text else 0)


def test_json_is_one_object_with_the_same_findings(capsys):
    code = doctor.run(as_json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["ok"] is (code == 0)
    assert [one["name"] for one in report["findings"]] == [name for name, _, _ in doctor.CHECKS]


def test_something_required_that_is_missing_gives_exit_code_1(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "CHECKS", [("libraries", True, doctor._package("no-such-package-here"))])
    assert doctor.run() == 1
    text = capsys.readouterr().out
    assert "missing  libraries  not installed: no-such-package-here" in text and "make setup" in text


def test_something_optional_that_is_missing_is_off(capsys, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    optional = [check for check in doctor.CHECKS if check[0] in ("nvcc", "C++ compiler")]
    monkeypatch.setattr(doctor, "CHECKS", optional)
    assert doctor.run() == 0
    assert capsys.readouterr().out.count("off ") == 2


def test_a_check_that_breaks_is_a_finding(monkeypatch):
    def breaks(name):
        raise ImportError("a library is damaged")
    monkeypatch.setattr(doctor, "CHECKS", [("torch", True, breaks), ("GPU", False, breaks)])
    assert [(one.status, one.found) for one in doctor.examine()] == [
        ("missing", "ImportError: a library is damaged"), ("off", "ImportError: a library is damaged")]


def test_a_program_that_does_not_start_is_off(tmp_path):
    broken = tmp_path / "nvcc"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    finding = doctor._program(lambda: str(broken), "Install it.")("nvcc")
    assert (finding.status, finding.advice) == ("off", "Install it.") and "exit code 3" in finding.found
