"""The commands simulate, sweep and experiment: what they print, write and refuse."""
from __future__ import annotations

import argparse
import json
import subprocess
import sys

import pytest

from minipaged.sim import experiment_cli, simulate_cli, sweep_cli

TRACE = ["--trace", "poisson:n=20,rate=20,input=100,output=20"]


@pytest.fixture
def call(capsys):
    """call(module, arguments) -> (exit code, what it printed)."""
    def run(module, *arguments: str) -> tuple[int, str]:
        parser = argparse.ArgumentParser(epilog="example")
        module.add_arguments(parser)
        code = module.run(parser.parse_args(arguments))
        return code, capsys.readouterr().out
    return run


def test_simulate_prints_a_table_with_the_source_of_its_constants(call):
    code, text = call(simulate_cli, *TRACE, "--slo", "ttft=1,tpot=0.05")
    assert code == 0
    for part in ("llama-3.1-8b on a100-80g", "datasheet", "host overhead 0 us", "20 of 20 requests", "ttft", "p99",
                 "goodput", "prefix hits", "computed"):
        assert part in text


def test_simulate_json_is_the_same_twice(call):
    texts = [call(simulate_cli, *TRACE, "--json", "--check-every", "5")[1] for _ in range(2)]
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["costs"]["cost_model"] == "roofline"


def test_simulate_writes_what_it_is_asked_for(call, tmp_path):
    call(simulate_cli, *TRACE, "--perfetto", str(tmp_path / "run.json"), "--csv", str(tmp_path / "r.csv"),
         "--timeline", str(tmp_path / "t.csv"))
    assert len((tmp_path / "t.csv").read_text(encoding="utf-8").splitlines()) == 501
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["traceEvents"]
    assert len((tmp_path / "r.csv").read_text(encoding="utf-8").splitlines()) == 21


def test_simulate_with_measured_operators(call):
    from minipaged.sim.traces import VLLM_RUN
    _, text = call(simulate_cli, *TRACE, "--profile", str(VLLM_RUN), "--gpu", "rtx-4090", "--host-overhead-us", "50")
    assert "RTX 4090, profiled" in text and "host overhead 50 us" in text
    with pytest.raises(ValueError, match="is of meta-llama/Llama-3.1-8B; --model says llama-2-7b"):
        call(simulate_cli, *TRACE, "--profile", str(VLLM_RUN), "--gpu", "a100-80g", "--model", "llama-2-7b")


def test_simulate_skips_bad_lines_and_says_so(call, tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text("arrival_s,input_tokens,output_tokens\n0,5,3\nx,5,3\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3"):
        call(simulate_cli, "--trace", str(path))
    parser = argparse.ArgumentParser()
    simulate_cli.add_arguments(parser)
    simulate_cli.run(parser.parse_args(["--trace", str(path), "--skip-bad", "--json"]))
    out, err = capsys.readouterr()
    assert "line 3 left out" in err and json.loads(out)["skipped_lines"] == 1


@pytest.mark.parametrize("arguments, reason", [
    (["--slo", "ttft"], "ttft=1.0"), (["--slo", "speed=1"], "no limit 'speed'"), (["--every", "0"], "every is 0"),
    (["--gpu", "b17"], "unknown card"), (["--model", "gpt-9"], "unknown model"), (["--rate", "0"], "rate of 0"),
    (["--memory", "oracle", "--check-every", "5"], "check-every"), (["--blocks", "0"], "num_blocks is 0")])
def test_simulate_refuses_in_a_sentence(call, arguments, reason):
    with pytest.raises(ValueError, match=reason):
        call(simulate_cli, *TRACE, *arguments)


def test_until_stops_early(call):
    _, text = call(simulate_cli, "--trace", "poisson:n=50,rate=1", "--until", "5", "--json")
    report = json.loads(text)
    assert report["finished"] < 50 and 5 <= report["seconds"] < 6


def test_sweep_prints_its_grid(call, tmp_path):
    code, text = call(sweep_cli, *TRACE, "--vary", "rate=5,50", "--out", str(tmp_path / "s.csv"))
    assert code == 0 and "TTFT mean ms" in text and "2 runs in" in text
    code, text = call(sweep_cli, *TRACE, "--vary", "memory=max", "--out", str(tmp_path / "s.csv"), "--json")
    assert code == 1 and json.loads(text)["error"]


def test_experiment_prints_published_beside_ours(call):
    code, text = call(experiment_cli, "hit_rate", "--small")
    assert code == 0 and "Published:" in text and "ours hit %" in text
    assert json.loads(call(experiment_cli, "hit_rate", "--small", "--json")[1])["experiment"] == "hit_rate"
    with pytest.raises(ValueError, match="memory_waste"):
        call(experiment_cli)


def test_the_speed_benchmark_prints_time_memory_and_the_cost_of_a_token(root):
    done = subprocess.run([sys.executable, "-m", "benchmarks.sim_speed", "--requests", "400", "--json"], cwd=root,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["requests"], row["prefix_caching"]) for row in rows] == [(100, False), (200, False), (400, False),
                                                                         (400, True)]
    assert all(row["cpu_s"] > 0 and row["us_per_token"] > 0 for row in rows)
    assert all(row["peak_mb"] is None or row["peak_mb"] < 1000 for row in rows)
