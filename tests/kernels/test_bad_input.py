"""What a kernel does not take is refused before the launch, in a sentence with the numbers."""

from __future__ import annotations

import pytest
import torch
from minipaged.kernels import cuda_ops, grid
from minipaged.kernels.checks import KernelRefused

from minipaged import kernels

BACKENDS = ("reference", "cuda", "triton")


@pytest.fixture(params=BACKENDS)
def backend(request):
    request.getfixturevalue({"cuda": "cxx", "triton": "triton_kernels", "reference": "device"}[request.param])
    return request.param


def decode(backend, inputs=None, **changes):
    inputs = inputs or grid.make_inputs(grid.Case(), [20, 3])
    names = ("query", "key_cache", "value_cache", "block_tables", "context_lens")
    arguments = dict(zip(names, inputs.decode)) | changes
    return kernels.paged_decode(**arguments, backend=backend)


@pytest.mark.parametrize("entry", [-1, 5000])
def test_table_entry_outside_the_pool(backend, entry):
    inputs = grid.make_inputs(grid.Case(), [20, 3])
    inputs.block_tables[0, 1] = entry
    with pytest.raises(KernelRefused, match=rf"block_tables\[0, 1\] = {entry}; the pool has blocks 0 to \d+"):
        decode(backend, inputs)


def test_table_entries_past_the_context_may_be_anything(backend):
    inputs = grid.make_inputs(grid.Case(), [20, 3])
    before = decode(backend, inputs)
    inputs.block_tables[1, 1:] = -12345
    assert torch.equal(decode(backend, inputs), before)


def test_context_longer_than_the_table(backend):
    with pytest.raises(
        KernelRefused, match=r"context of 900 tokens; its block table has room for \d+ blocks of 16"
    ):
        decode(backend, context_lens=torch.tensor([20, 900]))


def test_negative_context(backend):
    with pytest.raises(KernelRefused, match="sequence 1 has context -2"):
        decode(backend, context_lens=torch.tensor([20, -2]))


def test_non_contiguous_query(backend):
    query = torch.randn(2, 64, 8).transpose(1, 2)
    with pytest.raises(KernelRefused, match="last dimension must be contiguous. Call .contiguous()"):
        decode(backend, query=query)


def test_heads_that_form_no_groups(backend):
    with pytest.raises(KernelRefused, match="7 query heads over 2 KV heads"):
        decode(backend, query=torch.randn(2, 7, 64))


def test_wrong_head_dim(backend):
    with pytest.raises(KernelRefused, match="query has head_dim 32, the cache has 64"):
        decode(backend, query=torch.randn(2, 8, 32))


def test_head_dim_too_large(backend):
    cache = torch.randn(4, 16, 1, 320)
    with pytest.raises(KernelRefused, match="head_dim 320; these kernels take 1 to 256"):
        decode(backend, query=torch.randn(2, 2, 320), key_cache=cache, value_cache=cache)


def test_dtype_that_differs_from_the_cache(backend):
    with pytest.raises(KernelRefused, match=r"query is torch.float16, cache is torch.float32"):
        decode(backend, query=torch.randn(2, 8, 64).half())


def test_dtype_that_no_gpu_kernel_takes(cxx, triton_kernels):
    cache = torch.randn(4, 16, 1, 64, dtype=torch.float64)
    for backend in ("cuda", "triton"):
        with pytest.raises(KernelRefused, match="takes one of float32, float16, bfloat16"):
            decode(
                backend, query=torch.randn(2, 2, 64, dtype=torch.float64), key_cache=cache, value_cache=cache
            )


def test_window_of_nothing(backend):
    with pytest.raises(KernelRefused, match="window 0"):
        decode(backend, window=0)


def test_unknown_backend():
    with pytest.raises(KernelRefused, match="backend 'cudnn'; there are reference, triton, cuda"):
        decode("cudnn")


def test_sixteen_byte_loads_need_alignment(cxx):
    """v4 says what it takes; the lower rungs, which load element by element, take the same tensors."""
    inputs = grid.make_inputs(grid.Case(16, 64, 2), [9])
    query = torch.randn(1, 4, 65)[:, :, 1:]
    arguments = (query, *inputs.decode[1:])
    with pytest.raises(KernelRefused, match="multiples of 16 bytes. Call .contiguous()"):
        cuda_ops.paged_decode(*arguments)
    cuda_ops.paged_decode(*arguments, step="v3_online")
    odd = grid.make_inputs(grid.Case(16, 70, 2), [9])
    with pytest.raises(KernelRefused, match=r"multiples of 4 \(float32\) or 8"):
        cuda_ops.paged_decode(*odd.decode)


def test_v0_takes_only_its_own_sizes(cxx):
    with pytest.raises(KernelRefused, match="v0 takes only the sizes it was compiled for"):
        cuda_ops.paged_decode(*grid.make_inputs(grid.Case(16, 64, 2), [9]).decode, step="v0_source")


@pytest.mark.parametrize(
    "starts, message",
    [
        ([0, 3], "must rise from 0 to the 5 rows"),
        ([0, 5, 5], "for 1 sequences; expected"),
        ([1, 5], "must rise"),
    ],
)
def test_prefill_rows(backend, starts, message):
    inputs = grid.make_inputs(grid.Case(), [20])
    query = torch.randn(5, 8, 64)
    with pytest.raises(KernelRefused, match=message):
        kernels.paged_prefill(
            query, *inputs.prefill[1:4], torch.tensor(starts), inputs.context_lens, backend=backend
        )


def test_more_new_tokens_than_context(backend):
    inputs = grid.make_inputs(grid.Case(), [4])
    with pytest.raises(KernelRefused, match="sequence 0 has 5 new tokens and a length of 4"):
        kernels.paged_prefill(
            torch.randn(5, 8, 64),
            *inputs.prefill[1:4],
            torch.tensor([0, 5]),
            inputs.context_lens,
            backend=backend,
        )


def test_an_entry_outside_the_pool_is_never_followed(cxx, triton_kernels, device, monkeypatch):
    """On a GPU the tables are not checked on the host: there the kernel gives NaN to the row, and no other."""
    from minipaged.kernels import checks

    monkeypatch.setattr(checks, "check_tables", lambda *_: None)
    for entry in (-1, 10**6):
        inputs = grid.make_inputs(grid.Case(16, 64, 2), [20, 20])
        inputs.block_tables[0, 1] = entry
        for step in ("v1_repaired", "v2_warp", "v3_online", "v4_split"):
            for splits in (1, 2):
                result = cuda_ops.paged_decode(*inputs.decode, step=step, num_splits=splits)
                assert bool(result[0].isnan().all()) and bool(result[1].isfinite().all()), (step, splits)
        for splits in (1, 2):
            result = triton_kernels.paged_decode(*inputs.to(device).decode, num_splits=splits)
            assert bool(result[0].isnan().all()) and bool(result[1].isfinite().all())
