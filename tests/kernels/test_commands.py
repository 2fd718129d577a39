"""`minipaged race` and `minipaged kernels`: exit codes, one clear line for mistakes, skips that are counted."""

from __future__ import annotations

import argparse
import os

import pytest
import torch
from minipaged.kernels import build

from minipaged import kernels_cli, race_cli


def run(command, *words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args([str(word) for word in words]))


def test_race_prints_the_lines_and_exits_with_1(cxx, capsys):
    assert run(race_cli, build.CUDA_FOLDER / "v0_source.cu", "--quick") == 1
    said = capsys.readouterr().out
    assert "the same memory in two threads, with no barrier between them" in said
    assert "| qk_scores[t] = expf(qk_scores[t] - max_score);" in said
    assert "wrong result: case plain" in said and "v0_source.cu: 7 faults in 6 runs" in said
    assert "skipped: values: grouped" in said


def test_race_exits_with_0_when_nothing_is_found(cxx, capsys):
    assert run(race_cli, build.CUDA_FOLDER / "v3_online.cu", "--quick") == 0
    assert "v3_online.cu: no faults in 18 runs" in capsys.readouterr().out


def test_race_of_a_missing_file(capsys):
    assert run(race_cli, "nowhere.cu") == 2
    assert capsys.readouterr().err == "minipaged race: nowhere.cu is no file; give a .cu file\n"


def test_race_without_a_compiler(monkeypatch, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert run(race_cli, build.CUDA_FOLDER / "v3_online.cu") == 2
    said = capsys.readouterr().err
    assert said.startswith("minipaged race: CUDA on a CPU needs") and said.count("\n") == 1


def test_check_says_what_was_skipped_and_fails_when_a_part_fails(monkeypatch, capsys):
    from minipaged.kernels import check

    def no_compiler():
        raise build.KernelUnavailable("no compiler here")

    for name in ("_cuda", "_ladder", "_moves", "_triton"):
        monkeypatch.setattr(check, name, lambda *_: "done")
    for name in ("_ahead_of_time", "_nvcc"):
        monkeypatch.setattr(check, name, no_compiler)
    monkeypatch.setattr(check, "_races", lambda: "done")
    assert run(kernels_cli, "--check") == 0
    said = capsys.readouterr().out
    assert "skipped  nvcc compiles" in said and "no compiler here" in said and " 0 failed, " in said

    def wrong():
        raise AssertionError("off by 3")

    monkeypatch.setattr(check, "_races", wrong)
    assert run(kernels_cli, "--check") == 1
    said = capsys.readouterr().out
    assert "FAILED   races" in said and "off by 3" in said and " 1 failed, " in said


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure on")
def test_bench_without_a_gpu_measures_nothing_and_says_so(tmp_path, capsys):
    assert run(kernels_cli, "--bench", "--out", tmp_path) == 2
    said = capsys.readouterr()
    assert "no GPU here, so nothing was measured" in said.err and said.out == ""
    assert os.listdir(tmp_path) == []
