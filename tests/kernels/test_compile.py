"""Every kernel compiles for real GPUs, without one, and uses what it should of them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from minipaged.kernels import build
from minipaged.kernels.checks import KernelUnavailable

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)


# (Triton, kernel, card): bytes. The compiler of Triton 3.7 spills two registers to fit a fourth block of 256 threads
# (64 registers each) on a multiprocessor; the ones of 3.8 and 3.9 fit it without.
KNOWN_SPILLS = {("3.7", "paged_prefill fp32 D64 G4", "sm_100"): 8}


def compiled(*arguments):
    """Run the ahead-of-time compiler in a process of its own, with an empty cache."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    with tempfile.TemporaryDirectory() as cache:
        environment |= {"TRITON_CACHE_DIR": cache, "TRITON_DEFAULT_FP_FUSION": "1"}
        command = [sys.executable, "-P", "-m", "minipaged.kernels.triton.aot", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(rows):
    assert rows
    version = importlib.metadata.version("triton").rpartition(".")[0]
    for row in rows:
        name = f"{row['kernel']} {row['arch']}"
        allowed = KNOWN_SPILLS.get((version, row["kernel"], row["arch"]), 0)
        assert row["stack"] <= allowed, f"{name} spills {row['stack']} bytes"
        assert row["shared"] <= 99 * 1024, f"{name} takes {row['shared']} bytes of shared memory"
        if row["kernel"].startswith("paged_") and "fp32" not in row["kernel"]:
            assert row["mma"] > 0, f"{name} does not use tensor cores"
            assert row["cp_async"] > 0, f"{name} does not load asynchronously"


@needs_triton
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_triton_kernels_compile_to_cubin(arch):
    rows = compiled("--few", arch)
    check(rows)
    names = {row["kernel"].split()[0] for row in rows}
    assert names == {"paged_decode", "paged_prefill", "combine", "reshape_and_cache", "copy_blocks"}


@needs_triton
@pytest.mark.full
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_all_triton_kernels_compile_everywhere(arch):
    check(compiled(arch))


@needs_triton
def test_prefill_tiles_leave_room_for_a_second_block():
    """Head size 128: at most half of a multiprocessor's 65,536 registers, for 256 threads. Both multiply as on
    no other card: sm_90 by four warps together, sm_100 in tensor memory."""
    rows = compiled("--only=paged_prefill bf16 D128 G4", "--only=paged_prefill fp32 D128 G1", "sm_90", "sm_100")
    check(rows)
    assert len(rows) == 4 and all(row["registers"] <= 128 for row in rows), rows


@needs_triton
def test_no_spill_where_the_compiler_would_spill_for_a_second_block():
    rows = compiled("--only=paged_prefill fp16 D128 G8", "--only=paged_prefill fp32 D128 G1", "sm_80")
    check(rows)
    assert len(rows) == 2


def _nvcc():
    try:
        return build.find_nvcc()
    except KernelUnavailable as missing:
        pytest.skip(str(missing))


def _no_spills(source, arch):
    rows = build.resource_usage(build.CUDA_FOLDER / source, arch)
    assert rows
    for row in rows:
        assert row["spills"] == 0 and row["stack"] == 0, f"{row} on {arch}"


@pytest.mark.parametrize("source", [f"{step}.cu" for step in build.LADDER[:4]] + ["cache_kernels.cu"])
def test_cuda_kernels_compile_with_nvcc(source):
    _nvcc()
    _no_spills(source, "sm_80")
    _no_spills(source, "sm_90")


@pytest.mark.full
@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90"])
@pytest.mark.parametrize("source", [f"{step}.cu" for step in build.LADDER] + ["cache_kernels.cu"])
def test_all_cuda_kernels_compile_with_nvcc(source, arch):
    _nvcc()
    _no_spills(source, arch)


def test_some_shapes_of_the_last_rung_compile_with_nvcc():
    """v4 has 36 shapes; the two that the race command uses stand for them in a short run."""
    _nvcc()
    rows = build.resource_usage(build.CUDA_FOLDER / "v4_split.cu", "sm_90", defines={"PAGED_RACE": 1})
    assert len(rows) == 3 and all(row["spills"] == 0 and row["stack"] == 0 for row in rows)


@pytest.mark.skipif(
    shutil.which("cuobjdump") is None and importlib.util.find_spec("triton") is None, reason="no cuobjdump"
)
def test_the_gpu_library_builds_and_loads_without_a_gpu(tmp_path, monkeypatch):
    """Loading needs no driver; only launching does. So the whole build path is checked here."""
    _nvcc()
    monkeypatch.setenv("MINIPAGED_CACHE", str(tmp_path))
    library = build.load(build.CUDA_FOLDER / "cache_kernels.cu", "gpu", archs=("sm_80", "sm_90"))
    assert library.copy_blocks and library.reshape_and_cache and library.launch_message(0)
