"""Paged attention as GPU kernels, and on any laptop: reference, Triton and CUDA. Chapters 12 and 13.

Installed as ``minipaged.kernels``. It knows nothing of the engine: every function takes plain torch tensors.
Importing this module is light; torch, Triton and compilers are loaded by the first call.

Backends:

* ``"reference"``: plain torch, float64 inside; the oracle (reference.py)
* ``"triton"``: on a GPU, or interpreted on the CPU when ``TRITON_INTERPRET=1`` was set in time (triton/)
* ``"cuda"``: on a GPU through nvcc, on the CPU through g++ (cuda/, cpu/)

Layouts and meanings, per layer (see reference.py): caches ``[num_blocks, block_size, num_kv_heads, head_dim]``;
query head ``h`` reads KV head ``h // group``; a context counts every token in the cache, new ones included;
positions at or past it are never read; a context of 0 gives zeros; ``window = w`` sees the newest ``w``
tokens. Offsets are 64-bit. Arguments that a kernel does not take raise ``KernelRefused`` before the launch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from .checks import KernelRefused, KernelUnavailable

BACKENDS = ("reference", "triton", "cuda")
__all__ = [
    "BACKENDS",
    "KernelRefused",
    "KernelUnavailable",
    "copy_blocks",
    "paged_decode",
    "paged_prefill",
    "reshape_and_cache",
    "swap_blocks",
]


def __getattr__(name: str) -> Any:
    if name in ("KernelRefused", "KernelUnavailable"):
        return getattr(import_module(".checks", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _backend(name: str) -> Any:
    modules = {"triton": ".triton", "cuda": ".cuda_ops", "reference": ".reference"}
    if name not in modules:
        refused = import_module(".checks", __name__).KernelRefused
        raise refused(f"backend {name!r}; there are {', '.join(BACKENDS)}")
    return import_module(modules[name], __name__)


def paged_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    scale: float | None = None,
    window: int | None = None,
    out: Tensor | None = None,
    backend: str = "triton",
) -> Tensor:
    """Attention of one new token a sequence. ``query`` and the result are ``[num_seqs, num_heads, head_dim]``.

    ``block_tables`` is ``[num_seqs, max_blocks]``, ``context_lens`` ``[num_seqs]``, both int32 or int64.
    ``scale`` is ``head_dim ** -0.5`` when None. ``out`` receives the result if given; it must not overlap
    ``query``. Entries of a table past the context may hold anything.
    """
    if backend == "reference":
        return _reference(
            "paged_decode", query, key_cache, value_cache, block_tables, context_lens, None, scale, window, out
        )
    return _backend(backend).paged_decode(
        query, key_cache, value_cache, block_tables, context_lens, scale, window, out
    )


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
    backend: str = "triton",
) -> Tensor:
    """Attention of any number of new tokens a sequence over its paged context, causal.

    ``query`` is ``[num_tokens, num_heads, head_dim]``: sequence ``i`` owns rows ``query_start_loc[i]`` to
    ``query_start_loc[i + 1]``, the last positions of its ``seq_lens[i]`` tokens. Whole prompts, chunks, and
    decode (one row) may stand in one batch. The new keys and values are in the cache already.
    """
    if backend == "reference":
        return _reference(
            "paged_prefill", query, key_cache, value_cache, block_tables, seq_lens, query_start_loc, scale, window, out
        )
    return _backend(backend).paged_prefill(
        query, key_cache, value_cache, block_tables, query_start_loc, seq_lens, scale, window, out
    )


def _reference(name, query, key_cache, value_cache, block_tables, lens, starts, scale, window, out):
    """The oracle behind the same checks as every other backend, in the query's dtype."""
    import torch

    checks, reference = import_module(".checks", __name__), _backend("reference")
    checks.check_attention(
        query, key_cache, value_cache, block_tables, lens, window,
        dtypes=(*checks.DTYPES, torch.float64), num_seqs=block_tables.shape[0] if starts is not None else None,
    )  # fmt: skip
    if query.device.type == "cpu":
        checks.check_tables(block_tables, lens, key_cache.shape[0], key_cache.shape[1])
        if starts is not None:
            checks.check_query_ranges(starts, lens, query.shape[0])
    rows = (starts, lens) if starts is not None else (lens,)
    result = getattr(reference, name)(query, key_cache, value_cache, block_tables, *rows, scale, window).to(
        query.dtype
    )
    return result if out is None else out.copy_(result)


def reshape_and_cache(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    backend: str = "triton",
) -> None:
    """Write new keys and values ``[num_tokens, num_kv_heads, head_dim]`` into the cache.

    Token ``i`` goes to block ``slot_mapping[i] // block_size``, offset ``slot_mapping[i] % block_size``.
    Negative slots are skipped.
    """
    if backend == "reference":
        import_module(".checks", __name__).check_write(key, value, key_cache, value_cache, slot_mapping)
    _backend(backend).reshape_and_cache(key, value, key_cache, value_cache, slot_mapping)


def copy_blocks(caches: Iterable[Tensor], pairs: Sequence[tuple[int, int]], backend: str = "triton") -> None:
    """Copy whole blocks ``(source, target)`` inside each cache (copy-on-write), as if all at the same moment:
    after pairs (1, 2), (2, 3) block 3 holds what block 2 held before."""
    _backend(backend).copy_blocks(caches, pairs)


def swap_blocks(
    source: Tensor, target: Tensor, pairs: Sequence[tuple[int, int]], backend: str = "triton"
) -> None:
    """Copy blocks ``(source block, target block)`` from one cache to another one, on the same device or
    between host and device. Host memory should be pinned; the copy is then queued on the current stream."""
    if backend == "reference":
        _backend(backend).copy_between([(source, target)], pairs)
        return
    _backend(backend).swap_blocks(source, target, pairs)
