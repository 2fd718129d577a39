"""The CUDA kernels as functions on torch tensors. Chapter 13.

Tensors on a GPU go to the nvcc build, on torch's current stream. Tensors on the CPU go to the same source
built by g++ (see cpu/cuda_on_cpu.h): slow, but the same code. ``step`` picks a rung of the ladder.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from . import build, checks
from .checks import KernelRefused
from .cuda_params import cache_params, decode_params

_SUFFIX = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}
_DTYPES_OF_STEP = {step: (torch.float32,) for step in build.LADDER} | {"v4_split": checks.DTYPES}

_REFUSALS = {
    -1: "a size is not positive, or the query heads do not form whole groups",
    -2: "this head_dim is not taken: v3 takes 1 to 256; v4 takes rows of whole 16 bytes, that is multiples of 4 "
    "(float32) or 8 (float16, bfloat16) up to 256",
    -3: "v4 loads 16 bytes at a time: data and strides must be multiples of 16 bytes. Call .contiguous()",
    -4: "the workspace for split results is missing",
    -5: "v0 takes only the sizes it was compiled for, one KV head a query head, contiguous tensors and no window",
}


def library(
    name: str, device: torch.device, defines: dict[str, object] | None = None, mode: str = "cpu"
) -> ctypes.CDLL:
    """The built library of one .cu file for this device."""
    source = build.CUDA_FOLDER / f"{name}.cu"
    if device.type == "cuda":
        return build.load(source, "gpu", defines, archs=(build.device_arch(),))
    return build.load(source, mode, defines)


def _defines(
    step: str, query: Tensor, key_cache: Tensor, block_tables: Tensor, mode: str
) -> dict[str, object]:
    """Macros that a build needs: v0 has its sizes compiled in; the counting build of v4 holds only the shapes of
    `minipaged race`, because all of them together take a minute to compile."""
    defines: dict[str, object] = {"PAGED_RACE": 1} if mode == "count" else {}
    if step == "v0_source":
        defines |= {
            "NUM_HEADS": query.shape[1],
            "HEAD_DIM": query.shape[2],
            "BLOCK_SIZE": key_cache.shape[1],
            "MAX_BLOCKS": block_tables.shape[1],
        }
    return defines


def library_for(
    query: Tensor, key_cache: Tensor, block_tables: Tensor, step: str, mode: str = "cpu"
) -> ctypes.CDLL:
    """The library that :func:`paged_decode` calls for these tensors."""
    return library(step, query.device, _defines(step, query, key_cache, block_tables, mode), mode)


def _stream(device: torch.device) -> ctypes.c_void_p:
    return ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else 0)


def _raise_for(code: int, lib: ctypes.CDLL, what: str) -> None:
    if code == 0:
        return
    if code in _REFUSALS:
        raise KernelRefused(f"{what}: {_REFUSALS[code]}")
    message = lib.launch_message(code).decode("utf-8", "replace")
    raise RuntimeError(f"{what} failed: {message}")


def num_splits_for(device: torch.device, blocks: int, max_context: int) -> int:
    """Enough pieces of the context to give every multiprocessor work, of at least 256 tokens each."""
    if device.type != "cuda":
        return 1
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    wanted = math.ceil(4 * multiprocessors / max(blocks, 1))
    return max(1, min(wanted, math.ceil(max_context / 256), 128))


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
    step: str = "v4_split",
    num_splits: int | None = None,
    max_context: int | None = None,
    mode: str = "cpu",
) -> Tensor:
    """One new token a sequence; arguments as in :func:`minipaged.kernels.paged_decode`.

    ``num_splits`` (v4 only) cuts each context into that many pieces; None chooses by the device.
    ``max_context`` (v1, v2: size of the shared memory) saves a look at ``context_lens`` on the device.
    """
    if step not in build.LADDER:
        raise KernelRefused(f"step {step!r}; the ladder is {', '.join(build.LADDER)}")
    checks.check_attention(
        query, key_cache, value_cache, block_tables, context_lens, window, dtypes=_DTYPES_OF_STEP[step]
    )
    device = query.device
    num_seqs, num_heads, head_dim = query.shape
    num_blocks, block_size, num_kv_heads, _ = key_cache.shape
    if device.type == "cpu":
        checks.check_tables(block_tables, context_lens, num_blocks, block_size)
    out = torch.empty_like(query, memory_format=torch.contiguous_format) if out is None else out
    if out.shape != query.shape or out.dtype != query.dtype or (head_dim > 1 and out.stride(-1) != 1):
        raise KernelRefused("out must have query's shape and dtype, contiguous in the last dimension")
    if num_seqs == 0:
        return out

    tables = block_tables.to(torch.int32)
    tables = tables if tables.stride(1) == 1 else tables.contiguous()
    lens = context_lens.to(torch.int32).contiguous()
    if max_context is None:
        sized_by_context = step in ("v1_repaired", "v2_warp")
        max_context = (
            int(lens.max()) if sized_by_context or device.type == "cpu" else tables.shape[1] * block_size
        )
    if step != "v4_split":
        num_splits = 1
    elif num_splits is None:
        num_splits = num_splits_for(device, num_seqs * num_kv_heads, max_context)
    partial_lse = torch.empty(num_seqs, num_heads, num_splits, dtype=torch.float32, device=device)
    partial_out = torch.empty(
        (num_seqs, num_heads, num_splits, head_dim) if num_splits > 1 else 0,
        dtype=torch.float32,
        device=device,
    )

    params = decode_params(out, query, key_cache, value_cache, tables, lens, partial_out, partial_lse, max_context,
                           window, num_splits, scale)
    defines = _defines(step, query, key_cache, tables, mode)
    lib = library(step, device, defines, mode)
    if mode == "count":
        for tensor in (out, query, key_cache, value_cache, tables, lens, partial_out, partial_lse):
            storage = tensor.untyped_storage()
            lib.traffic_watch(ctypes.c_void_p(storage.data_ptr()), ctypes.c_size_t(storage.nbytes()))
    code = getattr(lib, f"paged_decode_{_SUFFIX[query.dtype]}")(ctypes.byref(params), _stream(device))
    _raise_for(code, lib, f"paged_decode ({step})")
    return out


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
) -> Tensor:
    """Any number of new tokens a sequence, served by the decode kernel: each new token becomes one row with
    its own context (its position + 1) and its sequence's block table. Right for every chunk; it reads the
    context once a token, so the Triton kernel is the one for long prompts."""
    checks.check_attention(
        query, key_cache, value_cache, block_tables, seq_lens, window, num_seqs=block_tables.shape[0]
    )
    starts = query_start_loc.long()
    if query.device.type == "cpu":
        checks.check_query_ranges(starts, seq_lens, query.shape[0])
    new = starts[1:] - starts[:-1]
    sequence = torch.repeat_interleave(torch.arange(len(seq_lens), device=query.device), new)
    row = torch.arange(query.shape[0], device=query.device) - starts[sequence]
    contexts = seq_lens.long()[sequence] - new[sequence] + row + 1
    return paged_decode(query, key_cache, value_cache, block_tables[sequence], contexts, scale, window, out)


def reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> None:
    """Write new keys and values into their slots; negative slots are skipped."""
    checks.check_write(key, value, key_cache, value_cache, slot_mapping)
    if slot_mapping.numel() == 0:
        return
    slots = slot_mapping.to(torch.int64).contiguous()
    params = cache_params(key, value, key_cache, value_cache, slots)
    lib = library("cache_kernels", key.device)
    code = lib.reshape_and_cache(ctypes.byref(params), key.element_size(), _stream(key.device))
    _raise_for(code, lib, "reshape_and_cache")


def _copy(target: Tensor, source: Tensor, sources: Tensor, targets: Tensor) -> None:
    lib = library("cache_kernels", target.device)
    block_bytes = source[0].numel() * source.element_size()
    code = lib.copy_blocks(
        ctypes.c_void_p(target.data_ptr()), ctypes.c_void_p(source.data_ptr()),
        ctypes.c_void_p(sources.data_ptr()), ctypes.c_void_p(targets.data_ptr()),
        len(sources), ctypes.c_int64(block_bytes), _stream(target.device),
    )  # fmt: skip
    _raise_for(code, lib, "copy_blocks")


def copy_blocks(caches: Iterable[Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    """Copy whole blocks inside each cache, all at once; see :func:`minipaged.kernels.copy_blocks`."""
    from .moving import copy_inside

    copy_inside(list(caches), list(pairs), _copy)


def swap_blocks(source: Tensor, target: Tensor, pairs: Sequence[tuple[int, int]]) -> None:
    """Copy blocks from one cache to another; see :func:`minipaged.kernels.swap_blocks`."""
    from .moving import copy_across

    copy_across(source, target, list(pairs), _copy)
