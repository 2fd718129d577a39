"""How many bytes a KV cache takes, how many blocks fit, what is wasted or saved. Chapters 01 to 05.

Pure functions on plain numbers: no torch, no files. Two rules keep the results honest:

* bytes are integers; one KiB is 1,024 B and one kB is 1,000 B, and a printed size always names its unit;
* a *token slot* is the room for one token in every layer; waste is counted in slots, so that it does not
  depend on the model.

The first formula of the field, for a model in which every query head has its own K and V head::

    KV bytes = 2 (K and V) x layers x KV heads x head_dim x tokens x bytes per element

:class:`KVShape` is that formula with today's exceptions: fewer KV heads than query heads, layers that see
only a sliding window, one shared latent vector in place of K and V, and quantised elements with scales.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

__all__ = [
    "DTYPE_BITS",
    "KVShape",
    "PrefixSharing",
    "Reservation",
    "WasteSplit",
    "blocks_for_tokens",
    "blocks_that_fit",
    "canonical_dtype",
    "cdiv",
    "expected_tail_waste",
    "format_bytes",
    "kv_bytes_per_token",
    "max_concurrency",
    "paged_reservation",
    "parse_bytes",
    "prefix_sharing",
    "split_waste",
    "weight_bytes",
]


# ---------------------------------------------------------------- units and element types

DTYPE_BITS = {"fp64": 64, "fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4}
"""Bits of one element, by short name."""

_DTYPE_ALIASES = {
    "float64": "fp64",
    "double": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


def canonical_dtype(name: str) -> str:
    """The short name of an element type: ``"torch.bfloat16"`` -> ``"bf16"``. ValueError if unknown."""
    short = str(name).lower().removeprefix("torch.")
    short = _DTYPE_ALIASES.get(short, short)
    if short not in DTYPE_BITS:
        raise ValueError(f"unknown element type {name!r:.60}; known: {', '.join(DTYPE_BITS)}")
    return short


def parse_bytes(text: str | int) -> int:
    """``"80GiB"``, ``"80 GB"``, ``"1.5MiB"`` or a plain number of bytes -> bytes (a fraction is cut off).

    ``"80G"`` is refused: the reader must say GB (10^9) or GiB (2^30), 7.4% apart.
    """
    match = re.fullmatch(r"\s*([0-9][0-9_,]{0,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)\s*", str(text))
    unit = match.group(2).lower() if match else None
    if unit in ("k", "m", "g", "t"):
        big = unit.upper()
        raise ValueError(
            f"size {str(text)!r} is ambiguous: write {big}B (powers of 1000) or {big}iB (of 1024)"
        )
    if unit not in _UNITS:
        raise ValueError(
            f"cannot read {str(text)!r:.60} as a size; write bytes or a unit, as in 80GiB, 80GB, 512MiB"
        )
    return int(Fraction(re.sub("[_,]", "", match.group(1))) * _UNITS[unit])


def format_bytes(num_bytes: int, *, exact: bool = True) -> str:
    """``3355443200`` -> ``"3,355,443,200 B = 3.125 GiB = 3.355 GB"``; not ``exact``: the last two parts."""
    if abs(num_bytes) < 1000:
        return f"{num_bytes} B"
    power = min(4, max(1, (len(str(abs(num_bytes))) - 1) // 3))
    prefix = "_KMGT"[power]
    decimal_unit = "kB" if prefix == "K" else f"{prefix}B"
    short = f"{num_bytes / 1024**power:,.3f} {prefix}iB = {num_bytes / 1000**power:,.3f} {decimal_unit}"
    return f"{num_bytes:,} B = {short}" if exact else short


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up, for integers of any size."""
    return -(-a // b)


def _positive(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def _not_negative(**values: int) -> None:
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} must be a whole number of at least 0, got {value!r}")


# ---------------------------------------------------------------- bytes


def kv_bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int, dtype: str = "fp16") -> int:
    """Bytes of K and V of one token in all layers: ``2 x L x H_kv x D x B``. See :class:`KVShape` for more.

    ``num_kv_heads`` counts the heads of K and V, not those of the query (a common slip, see chapter 15).
    """
    return KVShape(num_layers, num_kv_heads, head_dim, kv_dtype=dtype).bytes_per_token


def weight_bytes(num_parameters: int, dtype: str = "fp16") -> int:
    """Bytes of a model's weights when every parameter is stored as ``dtype``."""
    _positive(num_parameters=num_parameters)
    return cdiv(num_parameters * DTYPE_BITS[canonical_dtype(dtype)], 8)


@dataclass(frozen=True)
class KVShape:
    """What decides the size of a model's KV cache. All results are exact integers, in bytes.

    num_layers          layers that keep KV of their own
    num_kv_heads        heads of K and V: the query's number (multi-head), fewer (grouped), or 1 (multi-query)
    head_dim            elements of one key vector; often, but not always, hidden size / query heads
    kv_dtype            a key of DTYPE_BITS, or an alias such as ``"bfloat16"``
    num_window_layers   how many of the layers attend only to the last ``window`` tokens
    window              tokens that such a layer keeps
    v_head_dim          elements of one value vector where it differs from ``head_dim``
    latent_dim          latent attention (MLA): each layer keeps one vector of kv_lora_rank + qk_rope_head_dim
                        elements a token, for K and V and all heads together, so without the factor 2.
                        ``num_kv_heads``, ``head_dim`` and ``v_head_dim`` then describe the expanded K and V.
    scale_bytes         bytes of quantisation scales beside each stored vector (for instance 4: one fp32
                        scale for each token, head, K and V); 0 when scales are per tensor
    num_query_heads     only used to check a tensor-parallel split
    layers_without_kv   layers that were left out: they share another layer's KV or keep a state of fixed size
    max_model_len       the longest sequence the model is made for, if known
    """

    num_layers: int
    num_kv_heads: int
    head_dim: int
    kv_dtype: str = "fp16"
    num_window_layers: int = 0
    window: int | None = None
    v_head_dim: int | None = None
    latent_dim: int | None = None
    scale_bytes: int = 0
    num_query_heads: int | None = None
    layers_without_kv: int = 0
    max_model_len: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_dtype", canonical_dtype(self.kv_dtype))
        _positive(num_layers=self.num_layers, num_kv_heads=self.num_kv_heads, head_dim=self.head_dim)
        _not_negative(
            num_window_layers=self.num_window_layers,
            scale_bytes=self.scale_bytes,
            layers_without_kv=self.layers_without_kv,
        )
        for name in ("window", "v_head_dim", "latent_dim", "num_query_heads", "max_model_len"):
            if getattr(self, name) is not None:
                _positive(**{name: getattr(self, name)})
        if self.num_window_layers > self.num_layers:
            raise ValueError(
                f"num_window_layers {self.num_window_layers} is more than num_layers {self.num_layers}"
            )
        if self.num_window_layers and self.window is None:
            raise ValueError(f"{self.num_window_layers} window layers, but no window is given")
        if self.num_query_heads and self.num_query_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.num_query_heads} query heads are not a multiple of {self.num_kv_heads} KV heads"
            )

    @classmethod
    def from_config(cls, config: str | os.PathLike | Mapping, kv_dtype: str | None = None) -> KVShape:
        """Read a Hugging Face ``config.json``: a path to it or to its folder, or its content as a mapping.

        ``kv_dtype`` overrides the type that the file names. A config that cannot be understood raises
        ``ModelFormatError`` that names the key: a wrong size is worse than none.
        """
        from minipaged.hf_config import kv_shape

        shape = kv_shape(config)
        return replace(shape, kv_dtype=kv_dtype) if kv_dtype else shape

    # ---- one token

    @property
    def layer_bytes_per_token(self) -> int:
        """Bytes that one layer keeps for one token that it remembers."""
        bits = DTYPE_BITS[self.kv_dtype]
        if self.latent_dim:
            return cdiv(self.latent_dim * bits, 8) + self.scale_bytes
        key = cdiv(self.head_dim * bits, 8) + self.scale_bytes
        value = cdiv((self.v_head_dim or self.head_dim) * bits, 8) + self.scale_bytes
        return self.num_kv_heads * (key + value)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of one token while every layer still remembers it: also the growth of a short sequence."""
        return self.num_layers * self.layer_bytes_per_token

    @property
    def attention_kind(self) -> str:
        """``"latent"``, ``"multi-query"``, ``"grouped-query"`` or ``"multi-head"``."""
        if self.latent_dim:
            return "latent"
        if self.num_query_heads in (None, self.num_kv_heads):
            return "multi-head" if self.num_query_heads else "unstated"
        return "multi-query" if self.num_kv_heads == 1 else "grouped-query"

    # ---- one sequence

    def sequence_bytes(self, num_tokens: int, *, block_size: int = 1) -> int:
        """Bytes that a sequence of ``num_tokens`` occupies, each layer rounded up to whole blocks.

        A full layer keeps every token, a window layer the last ``window`` of them (a ring), and never room
        for more than ``max_model_len``. With ``block_size`` 1 this is the exact content, no rounding.
        """
        _not_negative(num_tokens=num_tokens)
        _positive(block_size=block_size)
        full = self.num_layers - self.num_window_layers
        kept_in_window = min(num_tokens, self.window or 0, self.max_model_len or num_tokens)
        blocks = full * cdiv(num_tokens, block_size) + self.num_window_layers * cdiv(
            kept_in_window, block_size
        )
        return blocks * block_size * self.layer_bytes_per_token

    def block_bytes(self, block_size: int = 16) -> int:
        """Bytes of one block of ``block_size`` tokens in all layers: what the pool is divided by."""
        _positive(block_size=block_size)
        return block_size * self.bytes_per_token

    def layer_tensor_shapes(self, num_blocks: int, block_size: int) -> list[tuple[int, ...]]:
        """Shapes of the tensors in which one layer keeps its blocks: K and V, or a single latent.

        ``[num_blocks, block_size, num_kv_heads, head_dim]``, or ``[num_blocks, block_size, latent_dim]``.
        Scales, where there are any, are kept beside them.
        """
        _positive(num_blocks=num_blocks, block_size=block_size)
        if self.latent_dim:
            return [(num_blocks, block_size, self.latent_dim)]
        heads = (num_blocks, block_size, self.num_kv_heads)
        return [(*heads, self.head_dim), (*heads, self.v_head_dim or self.head_dim)]

    # ---- the same model, kept or spread differently

    def expanded(self) -> KVShape:
        """A latent model as a runtime keeps it that stores the expanded K and V of every head instead."""
        return replace(self, latent_dim=None)

    def all_full(self) -> KVShape:
        """The same model with every window layer keeping the whole context, as a uniform block pool does."""
        return replace(self, num_window_layers=0, window=None)

    def per_rank(self, tensor_parallel_size: int) -> KVShape:
        """What one of ``tensor_parallel_size`` GPUs keeps.

        KV heads are shared out; with more ranks than KV heads they are replicated, never below one a rank.
        A latent has no heads, so every rank keeps all of it. A split that leaves a remainder is refused.
        """
        _positive(tensor_parallel_size=tensor_parallel_size)
        ranks = tensor_parallel_size
        if self.num_query_heads and self.num_query_heads % ranks:
            raise ValueError(
                f"{self.num_query_heads} query heads cannot be divided evenly over {ranks} ranks"
            )
        if self.num_kv_heads % ranks and ranks % self.num_kv_heads:
            raise ValueError(
                f"{self.num_kv_heads} KV heads can be neither divided nor replicated over {ranks} ranks"
            )
        queries = self.num_query_heads // ranks if self.num_query_heads else None
        return replace(self, num_kv_heads=max(1, self.num_kv_heads // ranks), num_query_heads=queries)


# ---------------------------------------------------------------- blocks


def blocks_for_tokens(num_tokens: int, block_size: int = 16) -> int:
    """Blocks that hold ``num_tokens``: rounded up, 0 for an empty sequence."""
    _not_negative(num_tokens=num_tokens)
    _positive(block_size=block_size)
    return cdiv(num_tokens, block_size)


def blocks_that_fit(memory_bytes: int, block_bytes: int) -> int:
    """Whole blocks in a budget of ``memory_bytes``; 0 if not even one fits."""
    _not_negative(memory_bytes=memory_bytes)
    _positive(block_bytes=block_bytes)
    return memory_bytes // block_bytes


def max_concurrency(num_blocks: int, tokens_each: int, block_size: int = 16, shared_prefix: int = 0) -> int:
    """How many sequences of ``tokens_each`` tokens a pool of ``num_blocks`` blocks holds at once.

    The full blocks of the first ``shared_prefix`` tokens are stored once for all of them.
    """
    _not_negative(num_blocks=num_blocks)
    _positive(tokens_each=tokens_each)
    if not 0 <= shared_prefix <= tokens_each:
        raise ValueError(f"shared_prefix {shared_prefix} must lie between 0 and tokens_each {tokens_each}")
    each = blocks_for_tokens(tokens_each, block_size)
    shared = min(shared_prefix // block_size, each - 1)  # every sequence writes into one block of its own
    return max(0, (num_blocks - shared) // (each - shared))


# ---------------------------------------------------------------- waste


@dataclass(frozen=True)
class Reservation:
    """Token slots that one request holds: ``capacity`` of them, ``current`` filled, ``final`` at its end."""

    current: int
    final: int
    capacity: int

    def __post_init__(self) -> None:
        _not_negative(current=self.current, final=self.final, capacity=self.capacity)
        if not self.current <= min(self.final, self.capacity):
            raise ValueError(
                f"current {self.current} is more than final {self.final} or capacity {self.capacity}"
            )


@dataclass(frozen=True)
class WasteSplit:
    """Where the slots of a memory are, by the terms of the PagedAttention paper (section 3.1). In slots.

    used        hold a token now
    reserved    held now and filled later by the same request
    internal    held and never filled
    external    free, but in holes too small for the next request
    free        free and usable
    """

    used: int = 0
    reserved: int = 0
    internal: int = 0
    external: int = 0
    free: int = 0

    @property
    def total(self) -> int:
        return self.used + self.reserved + self.internal + self.external + self.free

    @property
    def utilization(self) -> float:
        """Used part of all slots, 0 to 1 (0 for an empty memory)."""
        return self.used / self.total if self.total else 0.0


def split_waste(
    reservations: Iterable[Reservation], holes: Iterable[int] = (), next_capacity: int = 1
) -> WasteSplit:
    """Split a memory into used, reserved, internal, external and free slots.

    ``holes`` are the lengths of its free stretches, in slots; one that is shorter than ``next_capacity``,
    the reservation that the next request asks for, is lost to external fragmentation. Blocks of one size
    never lose a hole: pass ``next_capacity=block_size``.
    """
    used = reserved = internal = 0
    for r in reservations:
        will_fill = min(r.final, r.capacity)
        used += r.current
        reserved += will_fill - r.current
        internal += r.capacity - will_fill
    holes = list(holes)
    for hole in holes:
        _not_negative(hole=hole)
    external = sum(hole for hole in holes if hole < next_capacity)
    return WasteSplit(used, reserved, internal, external, free=sum(holes) - external)


def paged_reservation(current: int, block_size: int = 16, final: int | None = None) -> Reservation:
    """What a paged cache holds for a request of ``current`` tokens: whole blocks, no more."""
    capacity = blocks_for_tokens(current, block_size) * block_size
    return Reservation(current, current if final is None else final, capacity)


def expected_tail_waste(block_size: int) -> Fraction:
    """Mean empty slots of a last block, all remainders being equally likely: ``(block_size - 1) / 2``."""
    _positive(block_size=block_size)
    return Fraction(block_size - 1, 2)


# ---------------------------------------------------------------- sharing


@dataclass(frozen=True)
class PrefixSharing:
    """Blocks of ``num_requests`` sequences with a common prefix, stored apart and stored shared.

    blocks_apart    every request keeps a copy of its own
    blocks_shared   the prefix is stored once
    copies          blocks copied on write to get there: the partly filled last block of the prefix
    """

    blocks_apart: int
    blocks_shared: int
    copies: int

    @property
    def blocks_saved(self) -> int:
        return self.blocks_apart - self.blocks_shared

    @property
    def saving(self) -> float:
        """Saved part of the blocks, 0 to 1."""
        return self.blocks_saved / self.blocks_apart if self.blocks_apart else 0.0


def prefix_sharing(
    num_requests: int,
    prefix_tokens: int,
    block_size: int = 16,
    own_tokens: int = 0,
    share_partial_blocks: bool = True,
) -> PrefixSharing:
    """What sharing a prefix of ``prefix_tokens`` saves when each request then adds ``own_tokens`` of its own.

    Full blocks of the prefix stay shared for ever. Its partly filled tail is shared (with
    ``share_partial_blocks``) only until its holders write: each writer copies it, except the last holder,
    who finds itself alone and writes in place. Hence ``num_requests - 1`` copies, and no block saved there.
    """
    _positive(num_requests=num_requests)
    _not_negative(prefix_tokens=prefix_tokens, own_tokens=own_tokens)
    each = blocks_for_tokens(prefix_tokens + own_tokens, block_size)
    full, tail = divmod(prefix_tokens, block_size)
    tail_stays_shared = share_partial_blocks and tail and not own_tokens
    shared_blocks = full + 1 if tail_stays_shared else full
    copies = num_requests - 1 if share_partial_blocks and tail and own_tokens else 0
    return PrefixSharing(num_requests * each, shared_blocks + num_requests * (each - shared_blocks), copies)
