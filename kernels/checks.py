"""What a kernel takes, checked before anything is launched. One place, so that all backends refuse alike.

A refusal (:class:`KernelRefused`) says what was asked, what the kernel takes, and what to do. A missing
compiler, Triton or GPU is no mistake of the caller: that is :class:`KernelUnavailable`.
"""

from __future__ import annotations

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
MAX_HEAD_DIM = 256


class KernelRefused(ValueError):
    """The arguments are not what the kernel takes. Nothing was launched and nothing was written."""


class KernelUnavailable(RuntimeError):
    """This machine lacks what the kernel needs (Triton, a C++ compiler, nvcc, a GPU). The message says what."""


def _names(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(str(d).removeprefix("torch.") for d in dtypes)


def check_attention(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    lens: Tensor,
    window: int | None,
    *,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
    num_seqs: int | None = None,
) -> None:
    """Shapes, types and devices of a decode or prefill call; raises :class:`KernelRefused`."""
    if query.dim() != 3:
        raise KernelRefused(f"query has shape {tuple(query.shape)}; expected [rows, num_heads, head_dim]")
    check_caches(key_cache, value_cache)
    num_rows, num_heads, head_dim = query.shape
    num_kv_heads, cache_dim = key_cache.shape[2:]
    if head_dim != cache_dim:
        raise KernelRefused(f"query has head_dim {head_dim}, the cache has {cache_dim}; they must be equal")
    if not 1 <= head_dim <= MAX_HEAD_DIM:
        raise KernelRefused(f"head_dim {head_dim}; these kernels take 1 to {MAX_HEAD_DIM}")
    if num_kv_heads == 0 or num_heads % num_kv_heads:
        raise KernelRefused(
            f"{num_heads} query heads over {num_kv_heads} KV heads; a kernel takes whole groups only: "
            "num_heads must be a multiple of num_kv_heads"
        )
    if query.dtype not in dtypes or key_cache.dtype != query.dtype:
        raise KernelRefused(
            f"query is {query.dtype}, cache is {key_cache.dtype}; this kernel takes one of "
            f"{_names(dtypes)} for both. Convert with .to()"
        )
    if query.stride(-1) != 1 and head_dim > 1:
        raise KernelRefused(
            f"query has strides {query.stride()}; the last dimension must be contiguous. Call .contiguous()"
        )
    num_seqs = num_rows if num_seqs is None else num_seqs
    if block_tables.dim() != 2 or block_tables.shape[0] != num_seqs or lens.shape != (num_seqs,):
        raise KernelRefused(
            f"block_tables has shape {tuple(block_tables.shape)} and lengths {tuple(lens.shape)} for "
            f"{num_seqs} sequences; expected [{num_seqs}, max_blocks] and [{num_seqs}]"
        )
    for name, tensor in (("block_tables", block_tables), ("lengths", lens)):
        if tensor.dtype not in (torch.int32, torch.int64):
            raise KernelRefused(f"{name} is {tensor.dtype}; expected int32 or int64")
    devices = {t.device for t in (query, key_cache, value_cache, block_tables, lens)}
    if len(devices) > 1:
        raise KernelRefused(f"tensors on different devices: {', '.join(sorted(map(str, devices)))}")
    if window is not None and window < 1:
        raise KernelRefused(f"window {window}; expected None or at least 1 (a token always sees itself)")


def check_caches(key_cache: Tensor, value_cache: Tensor) -> None:
    """Both caches are ``[num_blocks, block_size, num_kv_heads, head_dim]`` with equal strides."""
    if key_cache.dim() != 4 or key_cache.shape != value_cache.shape:
        raise KernelRefused(
            f"key_cache has shape {tuple(key_cache.shape)}, value_cache {tuple(value_cache.shape)}; both must "
            "be [num_blocks, block_size, num_kv_heads, head_dim]"
        )
    if 0 in key_cache.shape:
        raise KernelRefused(f"the cache has shape {tuple(key_cache.shape)}: it holds nothing")
    if key_cache.dtype != value_cache.dtype or key_cache.device != value_cache.device:
        raise KernelRefused("key_cache and value_cache differ in dtype or device; both must be alike")
    if key_cache.stride() != value_cache.stride():
        raise KernelRefused(
            f"key_cache has strides {key_cache.stride()}, value_cache {value_cache.stride()}; these kernels "
            "take one set of strides for both"
        )
    if key_cache.stride(-1) != 1 and key_cache.shape[-1] > 1:
        raise KernelRefused(f"the cache has strides {key_cache.stride()}; head_dim must be contiguous")


def check_tables(block_tables: Tensor, lens: Tensor, num_blocks: int, block_size: int) -> None:
    """Every entry that will be read names a block of the pool. Only for tensors on the CPU.

    On a GPU this would make the host wait for the device. There the kernels look themselves: an entry
    outside the pool is never followed, and the row that attends to it becomes NaN.
    """
    max_blocks = block_tables.shape[1]
    if lens.numel() == 0:
        return
    if int(lens.min()) < 0:
        row = int(lens.argmin())
        raise KernelRefused(f"sequence {row} has context {int(lens[row])}; a context is 0 or more tokens")
    if int(lens.max()) > max_blocks * block_size:
        row = int(lens.argmax())
        raise KernelRefused(
            f"sequence {row} has a context of {int(lens[row])} tokens; its block table has room for {max_blocks} "
            f"blocks of {block_size} = {max_blocks * block_size}. Pass a wider table"
        )
    pages = (lens.long() + block_size - 1) // block_size
    read = torch.arange(max_blocks)[None, :] < pages[:, None]
    wrong = read & ((block_tables < 0) | (block_tables >= num_blocks))
    if bool(wrong.any()):
        row, column = (int(x) for x in wrong.nonzero()[0])
        raise KernelRefused(
            f"block_tables[{row}, {column}] = {int(block_tables[row, column])}; the pool has blocks 0 to "
            f"{num_blocks - 1}, and the sequence's context of {int(lens[row])} tokens needs that entry"
        )


def check_query_ranges(query_start_loc: Tensor, seq_lens: Tensor, num_rows: int) -> None:
    """The rows of a prefill call: starts rise from 0 to ``num_rows``; no more new tokens than context."""
    starts = query_start_loc.long()
    new = starts[1:] - starts[:-1]
    if starts.dim() != 1 or len(starts) != len(seq_lens) + 1:
        raise KernelRefused(
            f"query_start_loc has shape {tuple(query_start_loc.shape)} for {len(seq_lens)} sequences; "
            f"expected [{len(seq_lens) + 1}]"
        )
    if int(starts[0]) != 0 or int(starts[-1]) != num_rows or bool((new < 0).any()):
        raise KernelRefused(
            f"query_start_loc {starts.tolist()} must rise from 0 to the {num_rows} rows of query"
        )
    if bool((new > seq_lens).any()):
        row = int((new > seq_lens).nonzero()[0])
        raise KernelRefused(
            f"sequence {row} has {int(new[row])} new tokens and a length of {int(seq_lens[row])}; the length "
            "counts the new tokens too"
        )


def check_write(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> None:
    """Arguments of ``reshape_and_cache``; slots are looked at only on the CPU."""
    check_caches(key_cache, value_cache)
    expected = (slot_mapping.shape[0], *key_cache.shape[2:])
    if slot_mapping.dim() != 1 or tuple(key.shape) != expected or tuple(value.shape) != expected:
        raise KernelRefused(
            f"key has shape {tuple(key.shape)}, value {tuple(value.shape)}; for {slot_mapping.shape[0]} slots of this "
            f"cache both must be {expected}"
        )
    if key.dtype != key_cache.dtype or value.dtype != key_cache.dtype:
        raise KernelRefused(
            f"key is {key.dtype}, value {value.dtype}, the cache {key_cache.dtype}; must be equal"
        )
    if key.shape[-1] > 1 and (key.stride(-1) != 1 or value.stride(-1) != 1):
        raise KernelRefused("key and value must be contiguous in the last dimension. Call .contiguous()")
    if slot_mapping.dtype not in (torch.int32, torch.int64):
        raise KernelRefused(f"slot_mapping is {slot_mapping.dtype}; expected int32 or int64")
    if slot_mapping.device.type == "cpu" and slot_mapping.numel():
        slots = key_cache.shape[0] * key_cache.shape[1]
        if int(slot_mapping.max()) >= slots:
            raise KernelRefused(f"slot {int(slot_mapping.max())}; the pool has slots 0 to {slots - 1}")


def check_pairs(pairs: list[tuple[int, int]], num_sources: int, num_targets: int) -> None:
    """Block pairs of a copy: inside their pools, and no target written twice."""
    targets = [target for _, target in pairs]
    for source, target in pairs:
        if not (0 <= source < num_sources and 0 <= target < num_targets):
            raise KernelRefused(
                f"copy of block {source} to {target}; sources are 0 to {num_sources - 1}, "
                f"targets 0 to {num_targets - 1}"
            )
    if len(set(targets)) != len(targets):
        twice = next(t for t in targets if targets.count(t) > 1)
        raise KernelRefused(
            f"block {twice} is the target of two copies in one call; the result would depend on order"
        )
