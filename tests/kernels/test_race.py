"""Deliberate faults in CUDA kernels, and the check that finds each one.

The faults are made by editing the course's own .cu files: a removed barrier, a 32-bit offset, a launch with too
little shared memory. Whoever changes a kernel so that a fault can no longer be put in gets a failure here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from minipaged.kernels import build
from minipaged.kernels.race import race

pytestmark = pytest.mark.usefixtures("cxx")
GOOD = ("v1_repaired", "v2_warp", "v3_online", "v4_split")
BARRIERS = {"v1_repaired": 3, "v2_warp": 3, "v3_online": 1, "v4_split": 2}


def text_of(name: str) -> str:
    return (build.CUDA_FOLDER / name).read_text(encoding="utf-8")


def edited(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """A copy of one of our files with pieces of text replaced."""
    text = text_of(name)
    for old, new in changes:
        assert old in text, f"{name} has no {old!r} any more"
        text = text.replace(old, new)
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def lines_with(name: str, *pieces: str) -> set[int]:
    return {
        n for n, line in enumerate(text_of(name).splitlines(), 1) if any(piece in line for piece in pieces)
    }


def test_the_printed_kernel_races_in_all_three_softmax_lines():
    report = race(build.CUDA_FOLDER / "v0_source.cu", looks=("tsan",), cases=("plain",))
    named = {line for found in report.findings if found.kind == "race" for line in found.lines}
    softmax = lines_with(
        "v0_source.cu", "max_score = fmaxf(", "expf(qk_scores[t] - max_score)", "qk_scores[t] /= sum"
    )
    assert len(softmax) == 3 and softmax <= named


def test_the_printed_kernel_is_wrong_under_every_order():
    report = race(build.CUDA_FOLDER / "v0_source.cu", looks=("values",), cases=("plain",))
    assert [found.kind for found in report.findings] == ["wrong result"]


@pytest.mark.parametrize("name", GOOD)
def test_the_repaired_kernels_are_clean(name):
    looks = ("values", "tsan", "asan") if name == "v4_split" else ("values", "tsan")
    report = race(build.CUDA_FOLDER / f"{name}.cu", looks=looks, seeds=(0, 1, 2))
    assert report.findings == [] and not report.skipped
    assert len(report.ran) == 3 * (3 + len(looks) - 1)


@pytest.mark.full
@pytest.mark.parametrize("name", GOOD)
def test_the_repaired_kernels_are_clean_under_every_look(name):
    report = race(build.CUDA_FOLDER / f"{name}.cu", seeds=tuple(range(12)))
    assert report.findings == [] and not report.skipped


@pytest.mark.parametrize("name, number", [(n, i) for n, count in BARRIERS.items() for i in range(count)])
def test_every_removed_barrier_is_a_race(tmp_path, name, number):
    pieces = text_of(f"{name}.cu").split("__syncthreads();")
    assert len(pieces) == BARRIERS[name] + 1
    text = (
        "__syncthreads();".join(pieces[: number + 1])
        + "__syncthreads();".join(["", *pieces[number + 1 :]])[16:]
    )
    file = tmp_path / f"{name}.cu"
    file.write_text(text, encoding="utf-8")
    assert text.count("__syncthreads();") == BARRIERS[name] - 1
    report = race(file, looks=("tsan",), cases=("grouped",))
    races = [found for found in report.findings if found.kind == "race"]
    assert races and all(found.lines for found in races)


SHIFT = """#include "cuda_on_cpu.h"
__global__ void shift(int* out) {
  __shared__ int box[64];
  int t = threadIdx.x;
  box[t] = t;
  __syncthreads();
  int right = t < 63 ? box[t + 1] : 64;
  box[t] = right;  // without a barrier before it
  __syncthreads();
  out[t] = box[t];
}
int main() {
  int out[64], wrong = 0;
  LAUNCH(shift, dim3(1), dim3(64), 0, nullptr, out);
  for (int t = 0; t < 64; t++) wrong += out[t] != t + 1;
  return wrong ? 9 : 0;
}
"""


def test_some_races_need_the_right_order_to_show_in_values(tmp_path):
    """Threads in order hide this one: each reads its neighbour before the neighbour writes. Other orders show it,
    and ThreadSanitizer needs no luck at all."""
    file = tmp_path / "shift.cu"
    file.write_text(SHIFT, encoding="utf-8")
    assert race(file, looks=("values",), seeds=(0,)).findings == []
    assert {f.kind for f in race(file, looks=("values",), seeds=(1, 2, 3, 4)).findings} == {"crash"}
    (found,) = race(file, looks=("tsan",)).findings
    assert found.kind == "race" and set(found.lines) == {7, 8}


def test_shared_memory_read_before_it_is_written_is_nan(tmp_path):
    file = edited(tmp_path, "v2_warp.cu", ("query[d] * p.scale;\n  __syncthreads();", "query[d] * p.scale;"))
    for seed in (0, 1, 2):
        (found,) = race(file, looks=("values",), cases=("plain",), seeds=(seed,)).findings
        assert found.kind == "wrong result" and "NaN" in found.text


def test_block_id_outside_the_pool(tmp_path):
    file = edited(tmp_path, "v1_repaired.cu", ("if (in_pool(p, block))", "if (true)"),
                  ("int block = table[t / p.block_size];", "int block = table[t / p.block_size] + 3000;"))  # fmt: skip
    report = race(file, looks=("asan",), cases=("plain",))
    found = report.findings[0]
    assert found.kind == "out of bounds"
    assert set(found.lines) <= lines_with("v1_repaired.cu", "score += query[d] * key[d]") and found.lines


def test_too_little_dynamic_shared_memory(tmp_path):
    file = edited(
        tmp_path, "v1_repaired.cu", ("(kThreads + (size_t)visible)", "(kThreads + (size_t)visible / 2)")
    )
    report = race(file, looks=("asan",), cases=("plain",))
    assert report.findings[0].kind == "out of bounds"
    assert "past the dynamic shared memory that the launch asked for" in report.findings[0].text


def test_a_32_bit_offset_overflows_in_a_large_pool(tmp_path):
    """The same edit that test_big_pool makes; here the sanitizer names the multiplication."""
    edited(
        tmp_path,
        "paged.cuh",
        ("return block * p.cache_stride_block", "return (int)block * (int)p.cache_stride_block"),
    )
    file = edited(tmp_path, "v1_repaired.cu")
    report = race(file, looks=("asan",), cases=("plain", "huge-pool"))
    assert any(f.kind == "overflow" and "signed integer overflow" in f.text for f in report.findings)
    assert not race(
        file, looks=("values",), cases=("plain",), seeds=(0,)
    ).findings  # nothing shows in a small pool


def test_a_program_of_its_own(tmp_path):
    """A file with a main is run as it is: the place for small experiments."""
    file = tmp_path / "sum.cu"
    file.write_text(
        '#include "cuda_on_cpu.h"\n'
        "__global__ void total(float* out, const float* x) {\n"
        "  __shared__ float sum;\n"
        "  if (threadIdx.x == 0) sum = 0.0f;\n"
        "  __syncthreads();\n"
        "  sum += x[threadIdx.x];\n"
        "  __syncthreads();\n"
        "  if (threadIdx.x == 0) *out = sum;\n"
        "}\n"
        "int main() {\n"
        "  float x[64] = {1}, out;\n"
        "  LAUNCH(total, dim3(1), dim3(64), 0, nullptr, &out, x);\n"
        "  return LAUNCH_STATUS();\n"
        "}\n",
        encoding="utf-8",
    )
    report = race(file, looks=("tsan",))
    assert {found.kind for found in report.findings} == {"race"}
    assert {line for found in report.findings for line in found.lines} == {6}
    file.write_text(
        file.read_text(encoding="utf-8").replace("sum += x[threadIdx.x]", "atomicAdd(&sum, x[threadIdx.x])"),
        encoding="utf-8",
    )
    assert race(file, looks=("tsan",)).findings == []


def test_the_end_of_a_shared_array(tmp_path):
    file = tmp_path / "over.cu"
    text = SHIFT.replace(
        "int right = t < 63 ? box[t + 1] : 64;", "int right = box[t + 1];\n  __syncthreads();"
    )
    file.write_text(text, encoding="utf-8")
    found = race(file, looks=("asan",)).findings
    assert found[0].kind == "out of bounds" and found[0].lines == (7,) and "index 64" in found[0].text


def test_launch_brackets_are_explained(tmp_path):
    file = tmp_path / "brackets.cu"
    file.write_text("int main() { kernel<<<1, 32>>>(); }\n", encoding="utf-8")
    with pytest.raises(build.BuildError, match=r"Write LAUNCH\(kernel, grid, block"):
        race(file)


def test_compiler_errors_are_shown(tmp_path):
    file = tmp_path / "broken.cu"
    file.write_text('#include "paged.cuh"\nint x = ;\n', encoding="utf-8")
    with pytest.raises(build.BuildError, match="broken.cu does not compile:(.|\n)*broken.cu:2"):
        race(file, looks=("values",))
