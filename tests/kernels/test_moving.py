"""Writing new keys and values, copying blocks (all at once), swapping them between caches."""

from __future__ import annotations

import pytest
import torch
from minipaged.kernels.checks import KernelRefused

from minipaged import kernels

BACKENDS = ("reference", "cuda", "triton")
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(params=BACKENDS)
def backend(request):
    request.getfixturevalue({"cuda": "cxx", "triton": "triton_kernels", "reference": "device"}[request.param])
    return request.param


def cache(dtype=torch.float32, blocks=8, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(blocks, 4, 2, 16, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reshape_and_cache(backend, dtype):
    """Each token lands in its slot, bit for bit; padding is skipped; no other slot changes."""
    keys, values = cache(dtype, seed=1), cache(dtype, seed=2)
    want_keys, want_values = keys.clone(), values.clone()
    packed = torch.randn(6, 5, 16).to(dtype)  # rows of q, k, v: the key and value are slices with odd strides
    key, value = packed[:, 1:3], packed[:, 3:5]
    slots = [17, -1, 0, 31, -7, 18]
    for token, slot in enumerate(slots):
        if slot >= 0:
            want_keys[slot // 4, slot % 4], want_values[slot // 4, slot % 4] = key[token], value[token]
    kernels.reshape_and_cache(key, value, keys, values, torch.tensor(slots), backend=backend)
    assert torch.equal(keys, want_keys) and torch.equal(values, want_values)


def test_nothing_to_write(backend):
    keys = cache()
    before = keys.clone()
    nothing = torch.empty(0, 2, 16)
    kernels.reshape_and_cache(
        nothing, nothing, keys, keys.clone(), torch.empty(0, dtype=torch.int64), backend=backend
    )
    kernels.copy_blocks([keys], [], backend=backend)
    assert torch.equal(keys, before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "pairs",
    [
        [(1, 5)],
        [(1, 5), (1, 6)],
        [(1, 2), (2, 3)],
        [(2, 3), (1, 2)],
        [(1, 2), (2, 1)],
        [(0, 1), (1, 2), (2, 0), (3, 7)],
    ],
    ids=str,
)
def test_copies_happen_all_at_once(backend, dtype, pairs):
    """Chains and exchanges included: every target gets what its source held before the call."""
    caches = [cache(dtype, seed=s) for s in (1, 2)]
    caches[0][1, 0, 0, 0] = float("nan")  # contents are only moved, so that NaN survives
    want = [c.clone() for c in caches]
    for old, new in zip(caches, want):
        for source, target in pairs:
            new[target] = old[source]
    kernels.copy_blocks(caches, pairs, backend=backend)
    for got, expected in zip(caches, want):
        assert torch.equal(got.nan_to_num(7.0), expected.nan_to_num(7.0))


def test_swap_between_caches(backend):
    device, host = cache(seed=1), cache(blocks=3, seed=2)
    kept = host[1].clone()
    kernels.swap_blocks(device, host, [(6, 0), (2, 2)], backend=backend)
    assert torch.equal(host[0], device[6]) and torch.equal(host[2], device[2]) and torch.equal(host[1], kept)
    saved = device[6].clone()
    device[6] = 0
    kernels.swap_blocks(host, device, [(0, 6)], backend=backend)
    assert torch.equal(device[6], saved)


@pytest.mark.parametrize("backend", ["cuda", "triton"])
def test_refused_moves_change_nothing(request, backend):
    request.getfixturevalue({"cuda": "cxx", "triton": "triton_kernels"}[backend])
    keys = cache()
    before = keys.clone()
    with pytest.raises(KernelRefused, match="copy of block 1 to 8; sources are 0 to 7"):
        kernels.copy_blocks([keys], [(0, 1), (1, 8)], backend=backend)
    with pytest.raises(KernelRefused, match="block 5 is the target of two copies"):
        kernels.copy_blocks([keys], [(0, 5), (1, 5)], backend=backend)
    with pytest.raises(KernelRefused, match="slot 32; the pool has slots 0 to 31"):
        token = torch.zeros(1, 2, 16)
        kernels.reshape_and_cache(token, token, keys, keys.clone(), torch.tensor([32]), backend=backend)
    with pytest.raises(KernelRefused, match="cannot go into a cache with blocks"):
        kernels.swap_blocks(keys, torch.zeros(2, 8, 2, 16), [(0, 0)], backend=backend)
    with pytest.raises(KernelRefused, match="use copy_blocks"):
        kernels.swap_blocks(keys, keys, [(0, 1)], backend=backend)
    assert torch.equal(keys, before)


def test_neighbouring_blocks_are_swapped_together():
    """Between host and device each run of blocks is one transfer."""
    from minipaged.kernels.moving import _runs

    assert _runs([(3, 0), (4, 1), (5, 2), (9, 3), (8, 4)]) == [(3, 0, 3), (9, 3, 1), (8, 4, 1)]
