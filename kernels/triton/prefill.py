"""Prefill in Triton: many new tokens of a sequence at once, over its paged context. Chapter 12.

A program serves a tile of (new token, query head of the group) pairs of one sequence and KV head. The new
tokens are the last positions of the context: token ``i`` of ``n`` new ones stands at ``seq_len - n + i`` and
sees nothing later. A whole prompt, a chunk of one, and a single decode token are the same case.
"""

from __future__ import annotations

import triton
import triton.language as tl

from .decode import attend_tile, key_offsets


@triton.jit
def paged_prefill_kernel(
    out, query, key_cache, value_cache, block_tables, query_start_loc, seq_lens,
    scale_log2e, num_blocks, window,
    out_stride_token, out_stride_head, query_stride_token, query_stride_head,
    cache_stride_block, cache_stride_slot, cache_stride_head, table_stride_seq, table_stride_entry,
    GROUP: tl.constexpr, ROWS: tl.constexpr, QUERIES: tl.constexpr, HEAD_DIM: tl.constexpr,
    HEAD_PAD: tl.constexpr, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    seq = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    first_token = tl.load(query_start_loc + seq).to(tl.int64)
    num_new = (tl.load(query_start_loc + seq + 1) - first_token).to(tl.int32)
    tile_start = tl.program_id(2) * QUERIES
    if tile_start < num_new:
        seq_len = tl.load(seq_lens + seq).to(tl.int32)
        # Row r is new token r // GROUP of this tile with query head r % GROUP of the group.
        rows = tl.arange(0, ROWS)
        dims = tl.arange(0, HEAD_PAD)
        token = tile_start + rows // GROUP
        head = kv_head * GROUP + rows % GROUP
        real_row = (rows < QUERIES * GROUP) & (token < num_new)
        real = real_row[:, None] & (dims < HEAD_DIM)[None, :]
        position = seq_len - num_new + token

        query_at = (
            query + (first_token + token)[:, None] * query_stride_token + head[:, None] * query_stride_head
        )
        q = tl.load(query_at + dims[None, :], mask=real, other=0.0)
        if UPCAST:
            q = q.to(tl.float32)
        table = block_tables + seq * table_stride_seq
        keys_at = key_cache + kv_head * cache_stride_head + dims[None, :]
        values_at = value_cache + kv_head * cache_stride_head + dims[None, :]

        # The keys that any row of this tile sees: up to its last token, from its first token's window on.
        end = tl.minimum(seq_len - num_new + tile_start + QUERIES, seq_len)
        begin = 0
        if window > 0:
            begin = tl.maximum(seq_len - num_new + tile_start - window + 1, 0)

        largest = tl.full([ROWS], float("-inf"), tl.float32)
        total = tl.zeros([ROWS], tl.float32)
        weighted = tl.zeros([ROWS, HEAD_PAD], tl.float32)
        for start in range(begin, end, TILE):
            positions = start + tl.arange(0, TILE)
            in_range = positions < end
            offsets, valid = key_offsets(
                table, table_stride_entry, positions, in_range, num_blocks, cache_stride_block, cache_stride_slot,
                BLOCK_SIZE,
            )  # fmt: skip
            mask = (in_range & valid)[:, None] & (dims < HEAD_DIM)[None, :]
            keys = tl.load(keys_at + offsets[:, None], mask=mask, other=0.0)
            values = tl.load(values_at + offsets[:, None], mask=mask, other=0.0)
            if UPCAST:
                keys, values = keys.to(tl.float32), values.to(tl.float32)
            visible = in_range[None, :] & (positions[None, :] <= position[:, None])
            if window > 0:
                visible = visible & (positions[None, :] > position[:, None] - window)
            largest, total, weighted = attend_tile(
                q, keys, values, visible, valid, scale_log2e, largest, total, weighted
            )

        # Padding rows may have seen nothing; real rows see at least themselves.
        result = weighted / tl.where(total == 0, 1.0, total)[:, None]
        out_at = out + (first_token + token)[:, None] * out_stride_token + head[:, None] * out_stride_head
        tl.store(out_at + dims[None, :], result, mask=real)
