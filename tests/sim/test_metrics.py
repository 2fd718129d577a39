"""Metrics by hand, and exports that other programs read."""
from __future__ import annotations

import csv
import json
from array import array

import numpy as np
import pytest

from minipaged.formulas import WasteSplit
from minipaged.sim import metrics
from minipaged.sim.memory import MemorySample
from minipaged.sim.perfetto import save_perfetto, trace_events
from minipaged.sim.simulator import Counts, Record, SimResult, StepLog, finish_times
from minipaged.sim.traces import load_trace


@pytest.fixture
def run() -> SimResult:
    """Two requests, four steps that end at 1, 2, 4 and 5 s: A gets tokens at 1, 2, 5, B at 2 and 4."""
    steps = StepLog(array("d", [0, 1, 2, 4]), array("d", [1, 1, 2, 1]), array("i", [9, 6, 1, 1]),
                    array("i", [0, 1, 1, 1]), array("i", [1, 2, 2, 1]), array("i", [0, 0, 0, 0]),
                    array("i", [8, 6, 6, 8]), array("i", [1, 2, 1, 1]), array("i", [0, 0, 1, 1, 0]))
    records = [Record(0, 0.0, 9, scheduled=0.0, finish="length"), Record(1, 0.5, 5, scheduled=1.0, finish="length")]
    memory = [MemorySample(1.0, WasteSplit(used=10, reserved=2, internal=4, free=144), 2, 1)]
    result = SimResult("t", 10, 16, records, steps, memory, Counts(), array("i", [0, 1]))
    finish_times(result)
    return result


def test_times_of_requests(run):
    assert [(one.first_token, one.last_token, one.output_tokens) for one in run.records] == [(1, 5, 3), (2, 4, 2)]
    assert list(metrics.ttft(run)) == [1, 1.5]
    assert list(metrics.tpot(run)) == [2, 2]
    assert list(metrics.latency(run)) == [5, 3.5]
    assert sorted(metrics.inter_token_gaps(run)) == [1, 2, 3]


def test_rates_and_averages_over_time(run):
    report = metrics.summary(run)
    assert report["requests_per_s"] == 2 / 5 and report["output_tokens_per_s"] == 1
    assert report["running"] == pytest.approx((1 + 2 + 2 * 2 + 1) / 5)
    assert report["kv_usage"] == pytest.approx(1 - (8 + 6 + 2 * 6 + 8) / 5 / 10)
    assert report["memory"] == {"used": 10 / 160, "reserved": 2 / 160, "internal": 4 / 160, "external": 0,
                                "free": 144 / 160, "sharing_saved": 0.5}
    assert report["ttft"]["p90"] == np.percentile([1, 1.5], 90)


def test_goodput_counts_who_kept_every_limit(run):
    assert metrics.goodput(run, {"ttft": 1.2}) == 1 / 5
    assert metrics.goodput(run, {"ttft": 2, "tpot": 2, "latency": 5}) == 2 / 5
    assert metrics.goodput(run, {"latency": 4, "ttft": 1.2}) == 0
    with pytest.raises(ValueError, match="no 'speed'"):
        metrics.goodput(run, {"speed": 1})


def test_fairness_is_jain_s_index(run):
    slow = np.array([5 / (3 * 2), 3.5 / (2 * 2)])
    assert metrics.fairness(run) == pytest.approx(slow.sum() ** 2 / (2 * (slow**2).sum()))


def test_an_empty_run_has_no_numbers_and_no_error():
    report = metrics.summary(SimResult("t", 10, 16, [], StepLog(), [], Counts(), array("i")))
    assert report["ttft"] == {} and report["requests_per_s"] == 0 and report["memory"] == {}


def test_csv_has_a_line_a_request(run, tmp_path):
    metrics.save_requests(run, tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["last_token"]) for row in rows] == [5, 4]


def test_timeline_says_what_runs_at_each_moment(run, tmp_path):
    rows = metrics.timeline(run, points=10)
    assert [row["time"] for row in rows] == [0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5]
    assert [row["running"] for row in rows] == [1, 1, 2, 2, 2, 2, 2, 2, 1, 1]
    assert [row["tokens_per_s"] for row in rows[::2]] == [9, 6, 0.5, 0.5, 1]
    assert rows[2]["kv_usage"] == pytest.approx(0.4)
    run.steps.start[3] = 7  # nothing runs from 4 to 7
    assert [row["running"] for row in metrics.timeline(run, points=8)] == [1, 2, 2, 2, 0, 0, 0, 1]
    metrics.save_rows(rows, tmp_path / "t.csv")
    assert len((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()) == 11


def test_perfetto_spans_add_up(run, tmp_path):
    save_perfetto(run, tmp_path / "run.json")
    trace = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    events = trace["traceEvents"]
    assert {event["ph"] for event in events} == {"X", "C", "M"}
    for event in events:
        assert {"ph", "name", "pid", "tid", "ts"} <= event.keys()
        assert event["ph"] != "X" or event["dur"] > 0
    spans = {(event["tid"], event["name"]): (event["ts"], event["dur"]) for event in events
             if event["ph"] == "X" and event["name"] != "step"}
    assert spans[1, "prefill"] == (0, 1e6) and spans[1, "decode"] == (1e6, 4e6)
    assert spans[2, "queued"] == (0.5e6, 0.5e6)
    assert [event["args"]["KV blocks used"] for event in events if event["name"] == "KV blocks used"] == [2, 4, 4, 2]


def test_perfetto_can_be_cut(serve):
    result = serve(load_trace("poisson:n=20,rate=20"))
    events = trace_events(result, max_requests=3, max_steps=10)
    assert sum(event["name"] == "step" for event in events) == 10
    assert len({event["tid"] for event in events if event["pid"] == 2 and event["ph"] == "X"}) == 3


def test_memory_split_of_shared_blocks(serve):
    """Used slots count a shared block once; tails that samples have apart count each."""
    result = serve(load_trace("samples:n=2,rate=1000,input=64,output=40,num_samples=3,spread=fixed"), 100,
                   sample_every=1e-9, check_every=1)
    for sample in result.memory:
        split = sample.split
        assert split.total == 100 * 16 and split.external == 0
        assert split.used + split.reserved + split.internal == sample.used_blocks * 16
        assert sample.table_blocks >= sample.used_blocks
    assert any(sample.table_blocks - sample.used_blocks == 2 * 2 * 4 for sample in result.memory)


def test_a_tail_that_samples_still_share_is_counted_once(serve):
    """Right after the fork three tables hold the same five blocks; the last has room for 10 of its 16."""
    result = serve(load_trace("samples:n=1,input=70,output=40,num_samples=3,spread=fixed"), 100, sample_every=1e-9)
    first = result.memory[0]
    assert (first.table_blocks, first.used_blocks) == (15, 5)
    assert (first.split.used, first.split.reserved, first.split.internal) == (70, 10, 0)
