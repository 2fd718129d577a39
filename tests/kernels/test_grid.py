"""Every kernel on every page size, head size, group and number format, at the contexts where kernels break.

`make test` runs a pairwise cover of the grid, `make test-full` all of it.
"""

from __future__ import annotations

import itertools
from functools import partial

import pytest
import torch
from minipaged.kernels import cuda_ops, grid

PAIRWISE = grid.pairwise_cases()
# ids need single words for pytest's -k
IDS = [str(case).replace(" ", "-") for case in PAIRWISE]
FULL = list(grid.every_case())
FULL_IDS = [str(case).replace(" ", "-") for case in FULL]
FLOAT_ONLY = ("v1_repaired", "v2_warp", "v3_online")


def few_contexts(case: grid.Case) -> list[int]:
    """For the interpreter, which is slow: empty, one past a page, and a ragged one."""
    page = case.block_size
    return [0, page + 1, min(2 * page + 19, page + 60)]


def passes(kind, kernel, case, contexts=None, device="cpu"):
    verdict = grid.judge(kind, kernel, grid.make_inputs(case, contexts).to(device), case.window)
    assert verdict.passed, f"{case}: {kind} is off by {verdict.error:.3g}, allowed {verdict.allowed:.3g}"


def test_the_cover_has_every_pair():
    axes = (grid.BLOCK_SIZES, grid.HEAD_DIMS, grid.GROUPS, grid.DTYPES, grid.WINDOWS, grid.LAYOUTS)
    rows = [(c.block_size, c.head_dim, c.group, c.dtype, c.window, c.layout) for c in PAIRWISE]
    for i, j in itertools.combinations(range(len(axes)), 2):
        assert {(r[i], r[j]) for r in rows} == set(itertools.product(axes[i], axes[j]))


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("case", PAIRWISE, ids=IDS)
def test_cuda_decode(cxx, case, splits):
    passes("decode", partial(cuda_ops.paged_decode, num_splits=splits), case)


@pytest.mark.parametrize("step", FLOAT_ONLY)
@pytest.mark.parametrize("case", [c for c in PAIRWISE if c.dtype == "float32"], ids=str)
def test_lower_rungs(cxx, case, step):
    passes("decode", partial(cuda_ops.paged_decode, step=step), case)


@pytest.mark.parametrize("case", PAIRWISE[::3], ids=IDS[::3])
def test_cuda_prefill(cxx, case):
    passes("prefill", cuda_ops.paged_prefill, case, few_contexts(case))


@pytest.mark.parametrize("case", PAIRWISE, ids=IDS)
def test_triton_decode(triton_kernels, device, case):
    splits = 1 + PAIRWISE.index(case) % 2
    passes(
        "decode", partial(triton_kernels.paged_decode, num_splits=splits), case, few_contexts(case), device
    )


@pytest.mark.parametrize("case", PAIRWISE, ids=IDS)
def test_triton_prefill(triton_kernels, device, case):
    passes("prefill", triton_kernels.paged_prefill, case, few_contexts(case), device)


@pytest.mark.parametrize("contexts", [[0], [0, 0, 0], [1], [15], [16], [17], [0, 31, 1, 33]], ids=str)
def test_edges_of_the_context(cxx, triton_kernels, device, contexts):
    case = grid.Case(16, 64, 4)
    for splits in (1, 4):  # with four splits most of them are empty: all partial results may be -inf
        passes("decode", partial(cuda_ops.paged_decode, num_splits=splits), case, contexts)
        passes("decode", partial(triton_kernels.paged_decode, num_splits=splits), case, contexts, device)


@pytest.mark.parametrize("head_dim", [16, 32, 48, 112, 256])
def test_head_sizes_outside_the_grid(cxx, triton_kernels, device, head_dim):
    case = grid.Case(16, head_dim, 2, "float16")
    passes("decode", cuda_ops.paged_decode, case)
    passes("decode", triton_kernels.paged_decode, case, [21], device)


def test_an_odd_head_size_works_in_triton(triton_kernels, device):
    passes("decode", triton_kernels.paged_decode, grid.Case(4, 13, 2), [9], device)


def test_many_small_tiles_give_the_same_as_one(triton_kernels, device):
    passes(
        "decode",
        partial(triton_kernels.paged_decode, keys_per_tile=16, num_splits=2),
        grid.Case(8, 64, 3),
        [75],
        device,
    )


def test_a_row_whose_window_begins_after_the_first_tile(triton_kernels, device):
    """Its largest score is still -inf when that tile is done: no NaN may come of it."""
    case = grid.Case(8, 32, 1, window=5)
    inputs = grid.make_inputs(case, [40])
    inputs.new_query, inputs.query_start_loc = torch.randn(32, 2, 32), torch.tensor([0, 32])
    kernel = partial(triton_kernels.paged_prefill, keys_per_tile=16)
    assert grid.judge("prefill", kernel, inputs.to(device), case.window).passed


def test_a_batch_may_be_empty(cxx, triton_kernels, device):
    for kernel, where in ((cuda_ops.paged_decode, "cpu"), (triton_kernels.paged_decode, device)):
        inputs = grid.make_inputs(grid.Case(), [3]).to(where)
        query, keys, values, tables, lens = inputs.decode
        assert kernel(query[:0], keys, values, tables[:0], lens[:0]).shape == query[:0].shape


def test_out_is_written_with_its_own_strides(cxx, triton_kernels, device):
    """A view into a wider tensor receives the result, and nothing beside it changes."""
    for kernel, where in ((cuda_ops.paged_decode, "cpu"), (triton_kernels.paged_decode, device)):
        inputs = grid.make_inputs(grid.Case(16, 64, 2), [5, 20]).to(where)
        wide = torch.full((2, 6, 72), 7.0, device=where)
        out = wide[:, 1:5, :64]
        kernel(*inputs.decode, out=out)
        assert torch.equal(out, kernel(*inputs.decode))
        wide[:, 1:5, :64] = 7.0
        assert bool((wide == 7.0).all())


@pytest.mark.full
@pytest.mark.parametrize("case", FULL, ids=FULL_IDS)
def test_whole_grid_cuda(cxx, case):
    passes("decode", partial(cuda_ops.paged_decode, num_splits=2), case)
    if case.dtype == "float32":
        for step in FLOAT_ONLY:
            passes("decode", partial(cuda_ops.paged_decode, step=step), case)


@pytest.mark.full
@pytest.mark.parametrize("case", FULL, ids=FULL_IDS)
def test_whole_grid_triton(triton_kernels, device, case):
    passes("decode", partial(triton_kernels.paged_decode, num_splits=2), case, few_contexts(case), device)
    passes("prefill", triton_kernels.paged_prefill, case, few_contexts(case), device)
