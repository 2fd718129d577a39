"""Moving keys and values in Triton: into their slots, and from block to block. Chapter 12."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def reshape_and_cache_kernel(
    key, value, key_cache, value_cache, slot_mapping,
    key_stride_token, key_stride_head, value_stride_token, value_stride_head,
    cache_stride_block, cache_stride_slot, cache_stride_head,
    BLOCK_SIZE: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, TOTAL_PAD: tl.constexpr,
):  # fmt: skip
    """One program a token: all its KV heads go into one slot. A negative slot means padding."""
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token).to(tl.int64)
    if slot >= 0:
        i = tl.arange(0, TOTAL_PAD)
        mask = i < NUM_KV_HEADS * HEAD_DIM
        head = i // HEAD_DIM
        dim = i % HEAD_DIM
        to = (slot // BLOCK_SIZE) * cache_stride_block + (slot % BLOCK_SIZE) * cache_stride_slot
        to += head * cache_stride_head + dim
        k = tl.load(key + token * key_stride_token + head * key_stride_head + dim, mask=mask)
        v = tl.load(value + token * value_stride_token + head * value_stride_head + dim, mask=mask)
        tl.store(key_cache + to, k, mask=mask)
        tl.store(value_cache + to, v, mask=mask)


@triton.jit
def copy_blocks_kernel(to, source, sources, targets, elements, CHUNK: tl.constexpr):
    """Program (i, c) copies chunk c of block ``sources[i]`` to block ``targets[i]``."""
    pair = tl.program_id(0)
    i = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    read = tl.load(sources + pair).to(tl.int64) * elements
    write = tl.load(targets + pair).to(tl.int64) * elements
    mask = i < elements
    tl.store(to + write + i, tl.load(source + read + i, mask=mask), mask=mask)
