"""Decode in Triton: one new token a sequence, the context split over programs. Chapter 12.

A program serves one (sequence, KV head, split): the group's query heads are the rows of a small matrix, a tile
of keys is another one, and ``tl.dot`` multiplies them on tensor cores. The group is padded to 16 rows because
tensor cores take no less; padding costs nothing, since reading the cache is what takes the time.

``tl.store`` rounds the float32 result to the output's format.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def key_offsets(
    table, stride_entry, positions, in_range, num_blocks, stride_block, stride_slot, BLOCK_SIZE: tl.constexpr
):
    """Where the slots of these positions begin in the cache, and whether their table entry names a block.

    64-bit, because a large pool holds more than 2^31 elements.
    """
    block = tl.load(table + (positions // BLOCK_SIZE) * stride_entry, mask=in_range, other=0).to(tl.int64)
    valid = (block >= 0) & (block < num_blocks)
    return block * stride_block + (positions % BLOCK_SIZE).to(tl.int64) * stride_slot, valid


@triton.jit
def attend_tile(query, keys, values, visible, valid, scale_log2e, largest, total, weighted):
    """One step of the online softmax: fold a tile of keys and values into what was seen so far.

    ``query`` [rows, head], ``keys`` and ``values`` [tile, head], ``visible`` [rows, tile] or [1, tile]. Scores
    are in powers of two: the factor log2(e) is part of the scale.
    """
    scores = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale_log2e
    scores = tl.where(visible, scores, float("-inf"))
    # An entry outside the pool was not followed; whoever would see it gets NaN instead of invented data.
    scores = tl.where(visible & (valid == 0)[None, :], float("nan"), scores)
    new_largest = tl.maximum(largest, tl.max(scores, 1))
    base = tl.where(new_largest == float("-inf"), 0.0, new_largest)  # a row that has seen nothing yet
    rescale = tl.exp2(largest - base)
    weights = tl.exp2(scores - base[:, None])
    total = total * rescale + tl.sum(weights, 1)
    weighted = weighted * rescale[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
    return new_largest, total, weighted


@triton.jit
def paged_decode_kernel(
    out, partial_out, partial_lse, query, key_cache, value_cache, block_tables, context_lens,
    scale_log2e, num_blocks, window,
    out_stride_seq, out_stride_head, query_stride_seq, query_stride_head,
    cache_stride_block, cache_stride_slot, cache_stride_head, table_stride_seq, table_stride_entry, num_heads,
    GROUP: tl.constexpr, GROUP_PAD: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_PAD: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr, SPLITS: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    seq = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)

    # This program's part of the visible context, in whole tiles.
    context = tl.load(context_lens + seq).to(tl.int32)
    first = 0
    if window > 0:
        first = tl.maximum(context - window, 0)
    per_split = tl.cdiv(tl.cdiv(context - first, SPLITS), TILE) * TILE
    begin = first + split * per_split
    end = tl.minimum(begin + per_split, context)

    rows = tl.arange(0, GROUP_PAD)
    dims = tl.arange(0, HEAD_PAD)
    heads = kv_head * GROUP + rows
    real = (rows < GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    q = tl.load(
        query + seq * query_stride_seq + heads[:, None] * query_stride_head + dims[None, :],
        mask=real,
        other=0.0,
    )
    if UPCAST:
        q = q.to(tl.float32)
    table = block_tables + seq * table_stride_seq
    keys_at = key_cache + kv_head * cache_stride_head + dims[None, :]
    values_at = value_cache + kv_head * cache_stride_head + dims[None, :]

    largest = tl.full([GROUP_PAD], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_PAD], tl.float32)
    weighted = tl.zeros([GROUP_PAD, HEAD_PAD], tl.float32)
    for start in range(begin, end, TILE):
        positions = start + tl.arange(0, TILE)
        visible = positions < end
        offsets, valid = key_offsets(
            table,
            table_stride_entry,
            positions,
            visible,
            num_blocks,
            cache_stride_block,
            cache_stride_slot,
            BLOCK_SIZE,
        )
        mask = (visible & valid)[:, None] & (dims < HEAD_DIM)[None, :]
        keys = tl.load(keys_at + offsets[:, None], mask=mask, other=0.0)
        values = tl.load(values_at + offsets[:, None], mask=mask, other=0.0)
        if UPCAST:
            keys, values = keys.to(tl.float32), values.to(tl.float32)
        largest, total, weighted = attend_tile(
            q, keys, values, visible[None, :], valid, scale_log2e, largest, total, weighted
        )

    empty = begin >= end  # no token: the result is 0 and weighs nothing
    divisor = tl.where(empty, 1.0, total)
    result = weighted / divisor[:, None]
    if SPLITS == 1:
        tl.store(
            out + seq * out_stride_seq + heads[:, None] * out_stride_head + dims[None, :],
            result,
            mask=real,
        )
    else:
        row = (seq * num_heads + heads) * SPLITS + split
        tl.store(partial_out + row[:, None] * HEAD_DIM + dims[None, :], result, mask=real)
        lse = tl.where(empty, float("-inf"), largest + tl.log2(divisor))
        tl.store(partial_lse + row, lse, mask=rows < GROUP)


@triton.jit
def combine_kernel(
    out, partial_out, partial_lse, out_stride_seq, out_stride_head, num_heads,
    HEAD_DIM: tl.constexpr, HEAD_PAD: tl.constexpr, SPLITS: tl.constexpr, SPLITS_PAD: tl.constexpr,
):  # fmt: skip
    """The mean of the splits' results, weighted by 2^lse. All splits empty: zeros."""
    seq = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    splits = tl.arange(0, SPLITS_PAD)
    dims = tl.arange(0, HEAD_PAD)
    row = (seq * num_heads + head) * SPLITS + splits
    lse = tl.load(partial_lse + row, mask=splits < SPLITS, other=float("-inf"))
    top = tl.max(lse, 0)
    weight = tl.where(lse == float("-inf"), 0.0, tl.exp2(lse - tl.where(top == float("-inf"), 0.0, top)))
    total = tl.sum(weight, 0)
    mask = (splits < SPLITS)[:, None] & (dims < HEAD_DIM)[None, :]
    partial = tl.load(partial_out + row[:, None] * HEAD_DIM + dims[None, :], mask=mask, other=0.0)
    result = tl.sum(partial * weight[:, None], 0) / tl.where(total == 0, 1.0, total)
    tl.store(out + seq * out_stride_seq + head * out_stride_head + dims, result, mask=dims < HEAD_DIM)
