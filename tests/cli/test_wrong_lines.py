"""A wrong command line: one sentence on stderr, exit code 2, and before any work is done."""
from __future__ import annotations

import json

import pytest

from minipaged.cli import main
from minipaged.output_file import check_writable


def complaint(line: str, capsys) -> str:
    assert main(line.split()) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize("line, meant", [
    ("simulate --policy round_robn", "round_robin"), ("learn nex", "next"), ("release zp --lab 03_blocks", "zip")])
def test_a_choice_that_is_nearly_right_is_named(line, meant, capsys):
    assert f"did you mean {meant}?" in complaint(line, capsys)


@pytest.mark.parametrize("line", [
    "demo --events {}", "simulate --csv {}", "simulate --timeline {}", "simulate --perfetto {}",
    "sweep --vary block_size=8,16 --out {}", "gallery -o {}"])
def test_a_file_that_cannot_be_written_is_told_before_the_work(line, capsys, tmp_path, monkeypatch):
    """Each of these would take from seconds to minutes."""
    def work(*args, **kwargs):
        raise AssertionError("the work has begun")

    for place in ("minipaged.sim.scenario.Scenario.load", "minipaged.sim.sweep_cli.run_sweep",
                  "minipaged.viz.gallery.gallery_page", "minipaged.runtime.engine.LLM.__init__"):
        monkeypatch.setattr(place, work)
    path = tmp_path / "missing" / "file"
    assert f"{path}: No such file" in complaint(line.format(path), capsys)


def test_the_look_leaves_no_file_and_changes_none(tmp_path):
    new, old = tmp_path / "new.csv", tmp_path / "old.csv"
    old.write_text("kept\n", encoding="utf-8")
    check_writable(new, None, old)
    assert not new.exists() and old.read_text(encoding="utf-8") == "kept\n"
    with pytest.raises(OSError):
        check_writable(tmp_path)


@pytest.mark.parametrize("line", ["sweep --vary block_size=8 --out x.csv --jobs 0", "grade . -o out -j 0"])
def test_no_processes_is_no_number_of_processes(line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--jobs is 0" in complaint(line, capsys)


def test_the_list_of_figures_is_data_with_json(capsys):
    assert main(["gallery", "--list", "--json", "03"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows and all("03" in row["chapters"] and row["usage"].startswith(row["name"]) for row in rows)
