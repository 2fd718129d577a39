"""What the CUDA kernels are called with: the C structs of cuda/, filled in from torch tensors. Chapter 13.

A kernel knows nothing of tensors: it gets addresses, strides (in elements) and sizes.
"""

from __future__ import annotations

import ctypes

from torch import Tensor


class DecodeParams(ctypes.Structure):
    """The struct of the same name in cuda/paged.cuh, field by field."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in (
            "out", "query", "key_cache", "value_cache", "block_tables", "context_lens", "partial_out",
            "partial_lse")),
        *((name, ctypes.c_int64) for name in (
            "out_stride_seq", "out_stride_head", "query_stride_seq", "query_stride_head", "cache_stride_block",
            "cache_stride_slot", "cache_stride_head", "table_stride")),
        *((name, ctypes.c_int) for name in (
            "num_seqs", "num_heads", "num_kv_heads", "head_dim", "num_blocks", "block_size", "max_blocks",
            "max_context", "window", "num_splits")),
        ("scale", ctypes.c_float),
    ]  # fmt: skip


class CacheParams(ctypes.Structure):
    """The struct of the same name in cuda/cache_kernels.cu."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("key", "value", "key_cache", "value_cache", "slots")),
        *((name, ctypes.c_int64) for name in (
            "key_stride_token", "key_stride_head", "value_stride_token", "value_stride_head",
            "cache_stride_block", "cache_stride_slot", "cache_stride_head")),
        *((name, ctypes.c_int) for name in ("num_tokens", "num_kv_heads", "head_dim", "block_size")),
    ]  # fmt: skip


def decode_params(
    out: Tensor, query: Tensor, key_cache: Tensor, value_cache: Tensor, tables: Tensor, lens: Tensor,
    partial_out: Tensor, partial_lse: Tensor, max_context: int, window: int | None, num_splits: int,
    scale: float | None,
) -> DecodeParams:
    """Shapes as in :func:`minipaged.kernels.paged_decode`; ``tables`` and ``lens`` int32. With ``num_splits`` pieces,
    ``partial_out`` [num_seqs, num_heads, num_splits, head_dim] and ``partial_lse`` without the last, float32."""
    num_seqs, num_heads, head_dim = query.shape
    num_blocks, block_size, num_kv_heads, _ = key_cache.shape
    return DecodeParams(
        out=out.data_ptr(), query=query.data_ptr(), key_cache=key_cache.data_ptr(),
        value_cache=value_cache.data_ptr(), block_tables=tables.data_ptr(), context_lens=lens.data_ptr(),
        partial_out=partial_out.data_ptr(), partial_lse=partial_lse.data_ptr(),
        out_stride_seq=out.stride(0), out_stride_head=out.stride(1),
        query_stride_seq=query.stride(0), query_stride_head=query.stride(1),
        cache_stride_block=key_cache.stride(0), cache_stride_slot=key_cache.stride(1),
        cache_stride_head=key_cache.stride(2), table_stride=tables.stride(0),
        num_seqs=num_seqs, num_heads=num_heads, num_kv_heads=num_kv_heads, head_dim=head_dim,
        num_blocks=num_blocks, block_size=block_size, max_blocks=tables.shape[1], max_context=max_context,
        window=window or 0, num_splits=num_splits, scale=head_dim**-0.5 if scale is None else scale,
    )  # fmt: skip


def cache_params(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slots: Tensor) -> CacheParams:
    """Shapes as in :func:`minipaged.kernels.reshape_and_cache`; ``slots`` int64."""
    return CacheParams(
        key=key.data_ptr(), value=value.data_ptr(), key_cache=key_cache.data_ptr(),
        value_cache=value_cache.data_ptr(), slots=slots.data_ptr(),
        key_stride_token=key.stride(0), key_stride_head=key.stride(1),
        value_stride_token=value.stride(0), value_stride_head=value.stride(1),
        cache_stride_block=key_cache.stride(0), cache_stride_slot=key_cache.stride(1),
        cache_stride_head=key_cache.stride(2), num_tokens=key.shape[0], num_kv_heads=key.shape[1],
        head_dim=key.shape[2], block_size=key_cache.shape[1],
    )  # fmt: skip
