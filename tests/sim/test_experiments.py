"""Each experiment's claim, on direction and size, in its small form."""
from __future__ import annotations

import pytest

from minipaged.sim.experiments import EXPERIMENTS, run_experiment
from minipaged.sim.experiments.request_rate import LIMIT, crossing


@pytest.fixture(scope="module")
def table():
    """table(name) -> rows of the small form, run once."""
    known: dict[str, list[dict]] = {}

    def rows(name: str) -> list[dict]:
        if name not in known:
            report = run_experiment(name, small=True)
            assert report.name == name and report.source and report.reasons
            assert all(str(value) in report.text() for value in list(report.rows[0].values())[:1])
            known[name] = list(report.rows)
        return known[name]
    return rows


def test_memory_waste_is_within_four_points_of_the_paper(table):
    rows = {row["system"]: row for row in table("memory_waste")}
    for row in rows.values():
        if row["published used %"] is not None:
            assert abs(row["ours used %"] - row["published used %"]) < 4, row
        parts = sum(row[name] for name in ("ours used %", "reserved %", "internal %", "external %", "free %"))
        assert parts == pytest.approx(100, abs=0.3)
    assert rows["reserve the maximum"]["our batch"] == 7
    for kind in ("power of two", "true length"):  # the buddy allocator is what makes the figure
        assert rows[f"{kind}, first fit"]["ours used %"] > rows[
            f"reserve a {kind}" if kind[0] == "p" else f"reserve the {kind}"]["ours used %"] + 10


def test_block_size_is_flat_for_long_chats_and_not_for_short_ones(table):
    rows = {row["block size"]: row for row in table("block_size")}
    assert all(rows[size]["ShareGPT of 16 %"] > 90 for size in (16, 64, 128))
    assert rows[256]["ShareGPT of 16 %"] < rows[128]["ShareGPT of 16 %"] < 100
    assert rows[256]["Alpaca of 16 %"] < 65 and rows[128]["Alpaca of 16 %"] < 90


def test_request_rate_paging_sustains_more(table):
    rows = {row["system"]: row for row in table("request_rate")}
    assert 1.4 < rows["reserve the true length"]["ours paged is x"] < 2.7
    assert 2.7 < rows["reserve the maximum"]["ours paged is x"] < 8
    order = [row["sustained/s"] for row in table("request_rate")]
    assert order == sorted(order)


def test_crossing_is_on_the_line_between_two_rates():
    assert crossing((1.0, 2.0, 3.0), [0.05, 0.05, LIMIT + 0.05]) == pytest.approx(2.5)
    assert crossing((1.0, 2.0), [0.05, 0.06]) is None
    assert crossing((1.0, 2.0), [0.5, 0.6]) is None


def test_parallel_sampling_saves_more_with_long_prompts_and_more_samples(table):
    rows = {(row["workload"], row["samples"]): row["ours saved %"] for row in table("parallel_sampling")}
    assert 4 < rows["Alpaca", 2] < rows["Alpaca", 6] < 14
    assert 13 < rows["ShareGPT", 2] < rows["ShareGPT", 6] < 34


def test_beams_save_more_than_samples_and_more_when_they_mix(table):
    for row in table("beam_search"):
        bound = 100 * (row["width"] - 1) / row["width"]
        assert 20 < row["ours, turnover 0.1"] < row["ours, turnover 1"] < bound
        samples = {(one["workload"], one["samples"]): one["ours saved %"] for one in table("parallel_sampling")}
        assert row["ours, turnover 0.1"] > samples[row["workload"], row["width"]]


def test_a_shared_prefix_multiplies_throughput(table):
    one, five = table("shared_prefix")
    assert 1.3 < one["ours x over reserved"] < 3 and 3 < five["ours x over reserved"] < 5
    assert five["x over paged alone"] > one["x over paged alone"] > 1.3


def test_swap_depends_on_the_block_size_only_through_its_calls(table):
    small, large = table("recompute_or_swap")
    assert small["swap ms"] == large["swap ms"] and small["recompute ms"] == large["recompute ms"]
    assert small["swap with calls ms"] > 2 * large["swap with calls ms"]
    assert large["recompute ms"] < 1.2 * large["swap with calls ms"]
    assert small["recompute: preempted"] > 0 and small["swap: preempted"] > 0


def test_hit_rate_rises_with_the_cache_and_is_that_of_an_lru(table):
    rows = table("hit_rate")
    rates = [row["ours hit %"] for row in rows]
    assert rates == sorted(rates) and rates[0] < rates[-1] / 2
    for row in rows:
        assert row["LRU of ids hit %"] - 0.5 <= row["ours hit %"] <= row["LRU of ids hit %"] + 0.05


def test_continuous_batching_beats_static(table):
    rows = {row["system"]: row for row in table("batching")}
    assert rows["continuous, paged"]["ours x"] > 4
    assert rows["continuous, paged, 7 seats"]["ours x"] > 1.5
    assert rows["static, as many as fit"]["ours x"] > 1.1
    assert rows["static, rows of 7"]["rows a step"] < 5 < 6.5 < rows["continuous, paged, 7 seats"]["rows a step"]


def test_a_small_budget_bounds_gaps_and_delays_first_tokens(table):
    small, middle, large, whole = table("chunk_budget")
    assert small["gap p99 ms"] < middle["gap p99 ms"] < large["gap p99 ms"]
    assert small["gap max ms"] < large["gap max ms"] / 4
    assert small["TTFT p50 ms"] > middle["TTFT p50 ms"]
    assert whole["gap max ms"] > 2 * middle["gap max ms"]


def test_every_experiment_is_tested_and_an_unknown_one_is_named(table):
    assert len(EXPERIMENTS) == 10
    with pytest.raises(ValueError, match="did you mean hit_rate"):
        run_experiment("hitrate")
    assert run_experiment("hit-rate", small=True).to_dict()["experiment"] == "hit_rate"
