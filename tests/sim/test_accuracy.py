"""The simulator against a measured vLLM run, and the command that prints it."""
from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from minipaged.sim.traces import VLLM_RUN


def accuracy(root, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "benchmarks.sim_accuracy", *options], cwd=root, capture_output=True,
                          text=True)


@pytest.fixture(scope="module")
def rows(root) -> list[dict]:
    done = accuracy(root, "--json")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_statistic_is_within_half_a_percent_for_both_free_orders(rows):
    names = {(row["free_order"], row["metric"], row["stat"]) for row in rows}
    assert len(names) == len(rows) == 24
    for row in rows:
        assert row["error_pct"] == pytest.approx(100 * (row["ours"] / row["measured"] - 1), abs=0.002)
        assert abs(row["error_pct"]) < 0.5, row
        assert row["host_overhead_us"] == 0 and row["requests"] == 300


def test_the_free_order_reaches_the_allocator(rows):
    ours = [[row["ours"] for row in rows if row["free_order"] == order] for order in ("append", "unhashed_first")]
    assert ours[0] != ours[1]


def test_measured_values_are_those_of_the_published_summary(rows):
    lines = (VLLM_RUN / "summary.txt").read_text(encoding="utf-8").splitlines()
    published = {tuple(line.lower().split()[:2]): float(line.split()[2])
                 for line in lines if line.startswith(("TTFT", "TPOT", "Latency"))}
    for row in rows:
        assert row["measured"] == pytest.approx(published[row["metric"].lower(), row["stat"]], abs=0.05)


def test_prompts_that_begin_alike_matter(root, tmp_path):
    """Without the prompts' identities the same run is percents off: nothing else makes up for it."""
    done = accuracy(root, "--json", "--no-prefix-caching", "--free-order", "append")
    assert max(abs(json.loads(line)["error_pct"]) for line in done.stdout.splitlines()) > 1.5


def test_another_machine_s_files(root, tmp_path):
    """Other names, another grid, a gap in the table, no identities, an unknown model: read, or refused in a line."""
    for table in ("dense", "attention", "per_sequence"):
        lines = (VLLM_RUN / f"prof_{table}.csv").read_text(encoding="utf-8").splitlines()
        thin = [line for line in lines[1:] if not line.startswith("128,") and ",64," not in line[:20]]
        (tmp_path / f"{table}.csv").write_text("\n".join([lines[0], *thin]) + "\n", encoding="utf-8")
    requests = [json.loads(line) for line in (VLLM_RUN / "requests.jsonl").read_text(encoding="utf-8").splitlines()]
    with (tmp_path / "requests.jsonl").open("w", encoding="utf-8") as file:
        for row in requests[:40]:
            del row["hash_ids"]
            file.write(json.dumps(row) + "\n")
    options = ("--profile", str(tmp_path), "--requests", str(tmp_path / "requests.jsonl"), "--blocks", "2000",
               "--max-num-seqs", "32", "--json", "--host-overhead-us", "100")
    refused = accuracy(root, *options)
    assert refused.returncode == 2 and "--layers" in refused.stderr and refused.stderr.count("\n") == 1
    shutil.copy(VLLM_RUN / "prof_meta.yaml", tmp_path)
    done = accuracy(root, *options)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["requests"] for row in found} == {40} and {row["host_overhead_us"] for row in found} == {100}
    assert {row["num_layers"] for row in found} == {32}
