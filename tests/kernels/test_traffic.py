"""The counter: exact on a kernel whose traffic is known by hand, and telling about the ladder."""

from __future__ import annotations

import ctypes

import pytest
import torch
from minipaged.kernels import build, traffic

pytestmark = pytest.mark.usefixtures("cxx")

KERNEL = """
#include "cuda_on_cpu.h"
__global__ void known(const float* x, float* y) {
  __shared__ float box[64];
  int t = threadIdx.x;
  float a = x[t];                 // 2 warps x 1 request, 4 sectors each
  float b = x[t * 8];             // 2 warps x 1 request, 32 sectors each
  box[t] = a;                     // 2 requests, no conflict
  __syncthreads();                // 2 warps
  float c = box[t / 2 % 2 * 32];  // 2 requests; a warp's lanes read 2 words of one bank: 1 conflict each
  if (t % 2 == 0) y[t] = b + c;   // 2 requests, every other element: 4 sectors, half a warp
}
extern "C" int go(const float* x, float* y) {
  LAUNCH(known, dim3(1), dim3(64), 0, nullptr, x, y);
  return LAUNCH_STATUS();
}
"""


def test_a_kernel_counted_by_hand(tmp_path):
    source = tmp_path / "known.cu"
    source.write_text(KERNEL, encoding="utf-8")
    library = build.load(source, "count")
    storage = (ctypes.c_char * (4 * 640 + 32))()
    start = (ctypes.addressof(storage) + 31) // 32 * 32  # sectors are 32 bytes: begin on one
    x, y = ctypes.c_void_p(start), ctypes.c_void_p(start + 4 * 512)
    library.traffic_reset()
    library.traffic_watch(x, ctypes.c_size_t(4 * 576))
    assert library.go(x, y) == 0
    counts = traffic._Counts()
    library.traffic_read(ctypes.byref(counts))
    assert (counts.global_load_requests, counts.global_load_sectors) == (4, 2 * 4 + 2 * 32)
    assert counts.global_load_bytes == 2 * 64 * 4
    assert counts.unique_load_sectors == 64  # x[t] reads sectors that x[t * 8] reads too
    assert (counts.global_store_requests, counts.global_store_sectors) == (2, 8)
    assert counts.shared_requests == 4 and counts.shared_bank_conflicts == 2
    assert counts.barriers == 2 and counts.launched_blocks == 1
    assert counts.divergent_warp_blocks >= 2  # the store


@pytest.fixture(scope="module")
def ladder():
    return {step: traffic.count(step, *traffic.example()) for step in build.LADDER[1:]}


def test_why_each_rung_is_faster_than_the_one_below(ladder):
    v1, v2, v3, v4 = ladder.values()
    # v2: neighbouring lanes read neighbouring elements
    assert (
        v2.sectors_per_request < v1.sectors_per_request / 2
        and v2.global_load_sectors < v1.global_load_sectors / 2
    )
    # v2: shuffles instead of barriers
    assert v2.barriers < v1.barriers / 2 and v1.warp_operations == 0 < v2.warp_operations
    # v3: no scores in shared memory
    assert v3.shared_requests < v2.shared_requests / 2
    # v4: 16 bytes a lane, and each key once for its four query heads
    assert v4.global_load_requests < v3.global_load_requests / 8
    assert v4.global_load_sectors < v3.global_load_sectors / 3 and v4.reread < 1.5 < v3.reread


def test_the_printed_kernel_reads_everything_in_every_thread():
    """v0 takes one KV head a query head and whole pages; each of its 128 threads walks all values."""
    query, keys, values, tables, lens = traffic.example()
    arguments = (query[:, :2].contiguous(), keys, values, tables, torch.tensor([64, 48]))
    v0, v1 = (traffic.count(step, *arguments) for step in ("v0_source", "v1_repaired"))
    assert v0.global_load_requests > 3 * v1.global_load_requests > 0
    # sequences x heads x elements x warps: every thread writes the whole row. One more: the number of pages.
    assert v0.global_store_requests == 2 * 2 * 64 * 4 + 1


def test_counts_do_not_depend_on_the_run(ladder):
    again = traffic.count("v3_online", *traffic.example())
    assert again == ladder["v3_online"]


def test_no_rung_reads_less_than_the_data(ladder):
    """K and V of 104 tokens, 2 KV heads of 64 floats, 8 sectors a head: 3,328, and the queries and tables."""
    for counted in ladder.values():
        assert counted.unique_load_sectors >= 2 * 104 * 2 * 64 * 4 // 32


def test_the_table_names_every_rung():
    text = traffic.table(steps=("v3_online",))
    assert text.splitlines()[0] == "| | v3_online |" and "sectors a request" in text
