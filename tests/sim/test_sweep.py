"""A sweep: a grid, a tidy CSV that resumes, the same on a cluster."""
from __future__ import annotations

import csv
import json

import pytest

from minipaged.sim import sweep as sweep_module
from minipaged.sim.scenario import Scenario
from minipaged.sim.sweep import grid, parse_vary, read_rows, run_sweep

BASE = Scenario(trace="poisson:n=15,rate=20,input=100,output=20", blocks=200)
VARIED = {"block_size": [8, 16], "policy": ["fcfs", "static"]}


@pytest.fixture
def runs(monkeypatch) -> list[Scenario]:
    """What is really run."""
    done: list[Scenario] = []
    real = Scenario.row
    monkeypatch.setattr(sweep_module, "_run", lambda scenario: done.append(scenario) or real(scenario))
    return done


def test_a_row_a_run_with_all_options_and_numbers(tmp_path, runs):
    rows = run_sweep(grid(BASE, VARIED), tmp_path / "s.csv")
    assert [(row["block_size"], row["policy"]) for row in rows] == [("8", "fcfs"), ("8", "static"), ("16", "fcfs"),
                                                                    ("16", "static")]
    with (tmp_path / "s.csv").open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == rows
    assert all(float(row["ttft_mean"]) > 0 and row["trace"] == BASE.trace and not row["error"] for row in rows)


@pytest.mark.parametrize("cut", [40, -40])  # within the options, within the numbers
def test_what_is_in_the_file_is_not_run_again(tmp_path, runs, cut):
    path = tmp_path / "s.csv"
    run_sweep(grid(BASE, VARIED), path)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:cut])  # interrupted while it wrote the third row
    runs.clear()
    run_sweep(grid(BASE, VARIED), path)
    assert [(one.block_size, one.policy) for one in runs] == [(16, "fcfs"), (16, "static")]
    assert path.read_bytes() == whole
    runs.clear()
    run_sweep(grid(Scenario(trace=BASE.trace, blocks=201), VARIED), path)  # another base: other runs
    assert len(runs) == 4


def test_an_interrupt_keeps_the_rows_so_far(tmp_path, monkeypatch):
    path, real = tmp_path / "s.csv", Scenario.row

    def stop(scenario):
        if scenario.block_size == 16:
            raise KeyboardInterrupt
        return real(scenario)
    monkeypatch.setattr(sweep_module, "_run", stop)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(grid(BASE, VARIED), path)
    assert [row["block_size"] for row in read_rows(path)] == ["8", "8"]


def test_a_run_that_cannot_be_is_a_row_with_its_error(tmp_path):
    rows = run_sweep(grid(BASE, {"memory": ["max", "paged"]}), tmp_path / "s.csv")
    assert "max_model_len" in rows[0]["error"] and rows[1]["error"] == ""
    assert rows[0].get("ttft_mean", "") == ""


def test_another_file_is_not_overwritten(tmp_path):
    (tmp_path / "notes.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="notes.csv is not the CSV of a sweep"):
        run_sweep([BASE], tmp_path / "notes.csv")
    assert (tmp_path / "notes.csv").read_text(encoding="utf-8") == "a,b\n1,2\n"


@pytest.mark.parametrize("text, expected", [
    ("block-size=8,16", ("block_size", [8, 16])), ("prefix_caching=on,off", ("prefix_caching", [True, False])),
    ("rate=1.5", ("rate", [1.5])), ("trace=poisson:n=3,rate=2|multi_turn", ("trace", ["poisson:n=3,rate=2",
                                                                                  "multi_turn"]))])
def test_vary_is_read_by_the_option_s_type(text, expected):
    assert parse_vary(text) == expected


@pytest.mark.parametrize("text", ["nothing=1", "block_size", "block_size=x", "policy=best", "prefix_caching=perhaps"])
def test_a_wrong_vary_is_refused(text):
    with pytest.raises(ValueError, match="--vary"):
        parse_vary(text)


def test_two_processes_give_the_same_file(tmp_path):
    for name, jobs in (("one.csv", 1), ("two.csv", 2)):
        run_sweep(grid(BASE, VARIED), tmp_path / name, jobs=jobs)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


def test_a_dask_cluster_of_two_workers_gives_the_same_file(tmp_path):
    """The extra [cluster]; workers are processes on the loopback interface."""
    distributed = pytest.importorskip("distributed", reason="dask is not here: pip install 'minipaged[cluster]'")
    run_sweep(grid(BASE, VARIED), tmp_path / "here.csv")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None,
                                  local_directory=str(tmp_path)) as cluster, distributed.Client(cluster) as client:
        run_sweep(grid(BASE, VARIED), tmp_path / "there.csv", backend="dask", jobs=-1)
        ran_on = client.run(lambda: __import__("os").getpid())
    assert len(set(ran_on.values())) == 2
    assert (tmp_path / "there.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def test_json_numbers_survive_the_csv(tmp_path):
    row = run_sweep([BASE], tmp_path / "s.csv")[0]
    assert float(row["ttft_mean"]) == BASE.row()["ttft_mean"] and json.dumps(row)
