"""The simulated GPU itself: what it computes, what it refuses, what it reports."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess

import pytest
from minipaged.kernels import build
from minipaged.kernels.checks import KernelUnavailable

PROGRAM = """
#include "cuda_on_cpu.h"
__global__ void different(int* o) {
  if (threadIdx.x < 16) __syncthreads();
  else
    __syncthreads();
  o[threadIdx.x] = 1;
}
__global__ void left_early(int* o) {
  if (threadIdx.x >= 40) return;
  __syncthreads();
  o[threadIdx.x] = 1;
}
__global__ void half_comes(int* o) {
  int v = threadIdx.x;
  if (threadIdx.x < 16) v = __shfl_xor_sync(0xffffffffu, v, 1);
  o[threadIdx.x] = v;
}
__global__ void outside_mask(int* o) {
  int v = threadIdx.x;
  if (threadIdx.x % 32 < 16) v = __shfl_sync(0xffffu, v, 20);
  o[threadIdx.x] = v;
}
__global__ void not_in_mask(int* o) {
  int v = threadIdx.x;
  v = __shfl_xor_sync(0xffffu, v, 1);
  o[threadIdx.x] = v;
}
__global__ void other_masks(int* o) {
  int v = threadIdx.x;
  v = __shfl_xor_sync(threadIdx.x % 32 == 3 ? 0xffffu : 0xffffffffu, v, 1);
  o[threadIdx.x] = v;
}
__global__ void barrier_and_shuffle(int* o) {
  if (threadIdx.x < 32) __syncthreads();
  else o[threadIdx.x] = __shfl_sync(~0u, 1, 0);
  __syncthreads();
}
__global__ void right(int* o) {
  __shared__ int last[2];
  int lane = threadIdx.x % 32, v = lane;
  for (int flip = 16; flip; flip /= 2) v += __shfl_xor_sync(~0u, v, flip);   // 496
  if (lane < 16) v += __shfl_down_sync(0xffffu, v, 8, 16);                    // half a warp: 992
  unsigned even = __ballot_sync(~0u, lane % 2 == 0);                          // 0x55555555
  bool any = __any_sync(~0u, lane == 31), all = __all_sync(~0u, lane < 31);
  int up = __shfl_up_sync(~0u, lane, 1);
  if (lane == 31) last[threadIdx.x / 32] = up;                                // 30
  __syncthreads();
  atomicAdd(&o[64], 1);
  atomicMax(&o[65], (int)threadIdx.x);
  o[threadIdx.x] = v == (lane < 16 ? 992 : 496) && even == 0x55555555u && any && !all && last[0] + last[1] == 60;
}
#define CASE(name) if (!strcmp(which, #name)) LAUNCH(name, dim3(2), dim3(64), 0, nullptr, o)
int main(int, char** argv) {
  static int o[66];
  const char* which = argv[1];
  CASE(different); CASE(left_early); CASE(half_comes); CASE(outside_mask); CASE(not_in_mask); CASE(other_masks);
  CASE(barrier_and_shuffle); CASE(right);
  if (!strcmp(which, "threads")) LAUNCH(right, dim3(1), dim3(2048), 0, nullptr, o);
  if (!strcmp(which, "empty")) LAUNCH(right, dim3(0), dim3(64), 0, nullptr, o);
  if (!strcmp(which, "shared")) LAUNCH(right, dim3(1), dim3(64), 49153, nullptr, o);
  if (!strcmp(which, "opted in")) { ALLOW_SHARED(right, 49153); LAUNCH(right, dim3(1), dim3(64), 49153, nullptr, o); }
  int good = 0;
  for (int i = 0; i < 64; i++) good += o[i] == 1;
  int status = LAUNCH_STATUS();
  printf("status %d good %d count %d max %d | %s", status, good, o[64], o[65], launch_message(status));
  return 0;
}
"""


@pytest.fixture(scope="module")
def program(cxx, tmp_path_factory):
    file = tmp_path_factory.mktemp("sim") / "threads.cu"
    file.write_text(PROGRAM, encoding="utf-8")
    return build.build(file, program=True)


def run(program, which, seed=0):
    environment = dict(os.environ, CUDA_ON_CPU_SEED=str(seed))
    return subprocess.run(
        [str(program), which], capture_output=True, text=True, env=environment, check=True
    ).stdout


def line_of(kernel, piece):
    lines = PROGRAM.splitlines()
    start = next(i for i, line in enumerate(lines) if f"void {kernel}(" in line)
    return next(i for i in range(start, len(lines)) if piece in lines[i]) + 1


@pytest.mark.parametrize("seed", range(5))
def test_warp_operations_votes_atomics(program, seed):
    assert run(program, "right", seed).startswith("status 0 good 64 count 128 max 63 |")


def test_threads_at_different_barriers(program):
    said = run(program, "different")
    first = line_of("different", "__syncthreads")
    assert "threads wait at different __syncthreads in block (0,0,0)" in said
    assert f"threads 0-15 waits at __syncthreads, line {first}" in said
    assert f"threads 16-63 waits at __syncthreads, line {first + 2}" in said


def test_threads_that_left_before_a_barrier(program):
    said = run(program, "left_early")
    assert "some threads exited before __syncthreads in block (0,0,0)" in said
    assert "threads 40-63 has exited" in said


def test_full_mask_with_half_a_warp(program):
    said = run(program, "half_comes")
    assert "warp operation waits for lanes that have exited" in said and "mask 0xffffffff" in said
    assert f"threads 0-15 waits at a warp operation, line {line_of('half_comes', '__shfl')}" in said


def test_a_shuffle_from_a_lane_outside_the_mask(program):
    assert "shuffle reads a lane outside the mask" in run(program, "outside_mask")


def test_a_lane_that_is_not_in_its_own_mask(program):
    assert "the calling lane is not in its own mask" in run(program, "not_in_mask")


def test_lanes_with_different_masks(program):
    assert "lanes of one mask came with different masks" in run(program, "other_masks")


def test_a_warp_that_waits_for_another_kind_of_barrier(program):
    said = run(program, "barrier_and_shuffle")
    # Threads 32-63 end their shuffle and wait at the second barrier, threads 0-31 at the first.
    assert "threads wait at different __syncthreads" in said


@pytest.mark.parametrize(
    "which, message",
    [
        ("threads", "2048 threads a block"),
        ("empty", "0 blocks"),
        ("shared", "49153 bytes of shared memory, 49152 without"),
    ],
)
def test_launches_that_a_gpu_refuses(program, which, message):
    said = run(program, which)
    assert "status 1 " in said and message in said


def test_more_shared_memory_after_asking(program):
    assert run(program, "opted in").startswith("status 0")


def test_the_printed_kernel_ends_at_48_kb(cxx):
    """12,288 scores fill 48 KB; the source text's kernel does not ask for more, the repaired one does."""
    import torch
    from minipaged.kernels import cuda_ops, grid

    keys = torch.zeros(1, 16, 1, 64)
    tables = torch.zeros(1, 769, dtype=torch.int32)
    arguments = (torch.zeros(1, 1, 64), keys, keys, tables, torch.tensor([16]))
    with pytest.raises(RuntimeError, match="49216 bytes of shared memory, 49152 without"):
        cuda_ops.paged_decode(*arguments, step="v0_source")
    inputs = grid.make_inputs(grid.Case(192, 64, 1), [12400], num_kv_heads=1)
    assert grid.judge(
        "decode", lambda *a, **k: cuda_ops.paged_decode(*a, step="v1_repaired", **k), inputs, None
    ).passed


def test_nothing_is_built_twice_and_nothing_stale_is_used(cxx, tmp_path, monkeypatch):
    monkeypatch.setenv("MINIPAGED_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "answer.cu"
    source.write_text('#include "cuda_on_cpu.h"\nextern "C" int answer() { return 42; }\n', encoding="utf-8")
    first = build.build(source)
    written = first.stat().st_mtime_ns
    assert build.build(source) == first and first.stat().st_mtime_ns == written
    assert build.load(source).answer() == 42
    source.write_text(source.read_text(encoding="utf-8").replace("42", "43"), encoding="utf-8")
    assert build.build(source) != first and build.load(source).answer() == 43
    assert build.build(source, defines={"X": 1}) != build.build(source)


def test_two_simulated_gpus_in_one_process(cxx, tmp_path):
    """Each library has its own shared memory and state, however alike their symbols are."""
    libraries = []
    for value in (1, 2):
        source = tmp_path / f"gpu{value}.cu"
        source.write_text(
            '#include "cuda_on_cpu.h"\n'
            "extern __shared__ int box[];\nDYNAMIC_SHARED(int, box)\n"
            "__global__ void k(int* o) {\n"
            f"  box[threadIdx.x] = {value};\n  __syncthreads();\n  o[threadIdx.x] = box[31 - threadIdx.x];\n}}\n"
            'extern "C" int go(int* o) { LAUNCH(k, dim3(1), dim3(32), 128, nullptr, o); return LAUNCH_STATUS(); }\n',
            encoding="utf-8",
        )
        libraries.append(build.load(source))
    for _ in range(2):
        for value, library in enumerate(libraries, 1):
            out = (ctypes.c_int * 32)()
            assert library.go(out) == 0 and list(out) == [value] * 32


def test_no_compiler_is_said_clearly(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    expected = "was not found. Install g" if platform.system() == "Linux" else "needs Linux"
    with pytest.raises(KernelUnavailable, match=expected):
        build.find_cpu_compiler()


def test_no_nvcc_is_said_clearly(monkeypatch):
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(KernelUnavailable, match="pip install nvidia-cuda-nvcc"):
        build.find_nvcc()
