"""The Triton kernels as functions on torch tensors. Chapter 12.

On a GPU they are compiled; without one they are interpreted on the CPU, the same source. Importing this
module does not import Triton: runtime.py does, at the first call, and decides between the two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .. import checks, moving
from ..checks import KernelRefused
from . import runtime


def _power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def _keys_per_tile(head_pad: int, element_size: int, interpreted: bool, many_rows: bool = False) -> int:
    """64 keys, or fewer so that a tile of keys stays within 16 KB and two stages of keys and values fit every
    GPU's shared memory. Within 8 KB where registers are short: many rows take them (prefill), or float32, which is
    multiplied without tensor cores. The interpreter pays per step, not per element: there the tiles are large."""
    if interpreted:
        return 128
    tile_bytes = 8192 if many_rows or element_size == 4 else 16384
    return max(16, min(64, tile_bytes // (head_pad * element_size)))


class PrefillLaunch(NamedTuple):
    """How a prefill kernel is launched: the tile that a program computes, and what its threads may use."""

    rows: int  # (new token, query head) pairs of a tile
    keys: int  # keys of a step
    num_warps: int
    max_registers: int | None  # of a thread; None leaves it to the compiler


def prefill_launch(
    group: int, element_size: int, head_pad: int, max_query_len: int, interpreted: bool = False
) -> PrefillLaunch:
    """The launch of a prefill kernel, measured with the compilers of Triton 3.7 to 3.9 for sm_80 to sm_120.

    On sm_90 and sm_100 (head size 128, 16 bits) its tile takes at most 128 registers a thread, so two blocks of 256
    threads share the 65,536 of a multiprocessor. The compiler likes that so much that on sm_80 it spills 16 bytes to
    reach it for one shape, and takes 170 registers for the next. The limit of 255, all that a thread can have, makes
    it prefer no spill. Not in float32: with the limit it takes 200 registers, so one block; without it 80, so three,
    and spills at most 16 bytes (sm_80, head sizes 80 to 128, groups of 2, 5 and 7).
    """
    wanted = 16 if max_query_len == 1 else 64 if element_size == 2 else 32
    rows = max(wanted, _power_of_2(group))
    keys = _keys_per_tile(head_pad, element_size, interpreted, many_rows=True)
    return PrefillLaunch(rows, keys, 8 if rows > 16 else 4, 255 if element_size == 2 else None)


def num_splits_for(device: torch.device, programs: int, max_context: int) -> int:
    """Enough pieces of the context to give every multiprocessor work, of at least 256 tokens each."""
    if device.type != "cuda":
        return 1
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    return max(1, min(math.ceil(4 * multiprocessors / max(programs, 1)), math.ceil(max_context / 256), 128))


def _upcast(interpreted: bool, dtype: torch.dtype) -> bool:
    """The interpreter multiplies bfloat16 as if it were integers, and cuts off bits where a GPU rounds. So
    there the kernel turns its inputs into float32 and writes float32, which torch then rounds."""
    return interpreted and dtype == torch.bfloat16


def _output_like(query: Tensor, out: Tensor | None) -> Tensor:
    if out is None:
        return torch.empty_like(query, memory_format=torch.contiguous_format)
    if out.shape != query.shape or out.dtype != query.dtype or (out.shape[-1] > 1 and out.stride(-1) != 1):
        raise KernelRefused("out must have query's shape and dtype, contiguous in the last dimension")
    return out


def paged_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    scale: float | None = None,
    window: int | None = None,
    out: Tensor | None = None,
    *,
    num_splits: int | None = None,
    keys_per_tile: int | None = None,
) -> Tensor:
    """One new token a sequence; arguments as in :func:`minipaged.kernels.paged_decode`.

    ``num_splits`` cuts each context into that many pieces that run side by side; None chooses by the device.
    """
    checks.check_attention(query, key_cache, value_cache, block_tables, context_lens, window)
    interpreted = runtime.prepare(query.device)
    from .decode import combine_kernel, paged_decode_kernel

    num_seqs, num_heads, head_dim = query.shape
    num_blocks, block_size, num_kv_heads, _ = key_cache.shape
    if query.device.type == "cpu":
        checks.check_tables(block_tables, context_lens, num_blocks, block_size)
    final = _output_like(query, out)
    if num_seqs == 0:
        return final
    upcast = _upcast(interpreted, query.dtype)
    out = final.float() if upcast else final

    group, head_pad = num_heads // num_kv_heads, max(16, _power_of_2(head_dim))
    capacity = block_tables.shape[1] * block_size
    splits = num_splits or num_splits_for(query.device, num_seqs * num_kv_heads, capacity)
    tile = keys_per_tile or _keys_per_tile(head_pad, query.element_size(), interpreted)
    partial, lse = out, out  # unused when there is one split
    if splits > 1:
        partial = torch.empty(num_seqs, num_heads, splits, head_dim, dtype=torch.float32, device=query.device)
        lse = torch.empty(num_seqs, num_heads, splits, dtype=torch.float32, device=query.device)
    paged_decode_kernel[(num_seqs, num_kv_heads, splits)](
        out, partial, lse, query, key_cache, value_cache, block_tables, context_lens,
        (head_dim**-0.5 if scale is None else scale) * math.log2(math.e), num_blocks, window or 0,
        out.stride(0), out.stride(1), query.stride(0), query.stride(1),
        key_cache.stride(0), key_cache.stride(1), key_cache.stride(2), block_tables.stride(0),
        block_tables.stride(1), num_heads,
        GROUP=group, GROUP_PAD=max(16, _power_of_2(group)), HEAD_DIM=head_dim, HEAD_PAD=head_pad,
        BLOCK_SIZE=block_size, TILE=tile, SPLITS=splits,
        UPCAST=upcast,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    if splits > 1:
        combine_kernel[(num_seqs, num_heads)](
            out, partial, lse, out.stride(0), out.stride(1), num_heads,
            HEAD_DIM=head_dim, HEAD_PAD=head_pad, SPLITS=splits, SPLITS_PAD=_power_of_2(splits), num_warps=4,
        )  # fmt: skip
    return final.copy_(out) if upcast else final


def paged_prefill(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    scale: float | None = None,
    window: int | None = None,
    out: Tensor | None = None,
    *,
    max_query_len: int | None = None,
    keys_per_tile: int | None = None,
) -> Tensor:
    """Any number of new tokens a sequence; arguments as in :func:`minipaged.kernels.paged_prefill`.

    ``max_query_len`` is the largest number of new tokens of a sequence; giving it saves a wait for the GPU.
    """
    checks.check_attention(
        query, key_cache, value_cache, block_tables, seq_lens, window, num_seqs=block_tables.shape[0]
    )
    interpreted = runtime.prepare(query.device)
    from .prefill import paged_prefill_kernel

    num_rows, num_heads, head_dim = query.shape
    num_blocks, block_size, num_kv_heads, _ = key_cache.shape
    num_seqs = block_tables.shape[0]
    if query.device.type == "cpu":
        checks.check_tables(block_tables, seq_lens, num_blocks, block_size)
        checks.check_query_ranges(query_start_loc, seq_lens, num_rows)
    final = _output_like(query, out)
    if num_rows == 0:
        return final
    upcast = _upcast(interpreted, query.dtype)
    out = final.float() if upcast else final
    if max_query_len is None:
        max_query_len = int((query_start_loc[1:] - query_start_loc[:-1]).max())

    group, head_pad = num_heads // num_kv_heads, max(16, _power_of_2(head_dim))
    launch = prefill_launch(group, query.element_size(), head_pad, max_query_len, interpreted)
    queries_per_tile = launch.rows // group
    paged_prefill_kernel[(num_seqs, num_kv_heads, -(-max_query_len // queries_per_tile))](
        out, query, key_cache, value_cache, block_tables, query_start_loc, seq_lens,
        (head_dim**-0.5 if scale is None else scale) * math.log2(math.e), num_blocks, window or 0,
        out.stride(0), out.stride(1), query.stride(0), query.stride(1),
        key_cache.stride(0), key_cache.stride(1), key_cache.stride(2), block_tables.stride(0),
        block_tables.stride(1),
        GROUP=group, ROWS=launch.rows, QUERIES=queries_per_tile, HEAD_DIM=head_dim, HEAD_PAD=head_pad,
        BLOCK_SIZE=block_size, TILE=keys_per_tile or launch.keys, UPCAST=upcast,
        num_warps=launch.num_warps, maxnreg=launch.max_registers, num_stages=2,
    )  # fmt: skip
    return final.copy_(out) if upcast else final


def reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> None:
    """Write new keys and values into their slots; negative slots are skipped."""
    checks.check_write(key, value, key_cache, value_cache, slot_mapping)
    if slot_mapping.numel() == 0:
        return
    runtime.prepare(key.device)
    from .cache import reshape_and_cache_kernel

    num_tokens, num_kv_heads, head_dim = key.shape
    reshape_and_cache_kernel[(num_tokens,)](
        key, value, key_cache, value_cache, slot_mapping.contiguous(),
        key.stride(0), key.stride(1), value.stride(0), value.stride(1),
        key_cache.stride(0), key_cache.stride(1), key_cache.stride(2),
        BLOCK_SIZE=key_cache.shape[1], NUM_KV_HEADS=num_kv_heads, HEAD_DIM=head_dim,
        TOTAL_PAD=_power_of_2(num_kv_heads * head_dim), num_warps=4,
    )  # fmt: skip


def _copy(target: Tensor, source: Tensor, sources: Tensor, targets: Tensor) -> None:
    runtime.prepare(target.device)
    from .cache import copy_blocks_kernel

    # Only bytes move: integers of the same size carry every bit pattern through unchanged.
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[source.element_size()]
    elements = source[0].numel()
    chunk = min(4096, _power_of_2(elements))
    copy_blocks_kernel[(len(sources), -(-elements // chunk))](
        target.view(bits), source.view(bits), sources, targets, elements, CHUNK=chunk, num_warps=4
    )


def copy_blocks(caches: Iterable[Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    """Copy whole blocks inside each cache, all at once; see :func:`minipaged.kernels.copy_blocks`."""
    moving.copy_inside(list(caches), list(pairs), _copy)


def swap_blocks(source: Tensor, target: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy blocks from one cache to another; see :func:`minipaged.kernels.swap_blocks`."""
    moving.copy_across(source, target, list(pairs), _copy)
