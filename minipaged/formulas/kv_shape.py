"""Bytes of the KV cache of a model: of a token, a sequence, a block, a rank; and bytes of its weights. Chapter 01."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from minipaged.formulas.units import DTYPE_BITS, canonical_dtype, cdiv, check_not_negative, check_positive


def kv_bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int, dtype: str = "fp16") -> int:
    """Bytes of K and V of one token in all layers: ``2 x L x H_kv x D x B``. See :class:`KVShape` for more.

    ``num_kv_heads`` counts the heads of K and V, not those of the query (a common slip, see chapter 15).
    """
    return KVShape(num_layers, num_kv_heads, head_dim, kv_dtype=dtype).bytes_per_token


def weight_bytes(num_parameters: int, dtype: str = "fp16") -> int:
    """Bytes of a model's weights when every parameter is stored as ``dtype``."""
    check_positive(num_parameters=num_parameters)
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
        check_positive(num_layers=self.num_layers, num_kv_heads=self.num_kv_heads, head_dim=self.head_dim)
        check_not_negative(
            num_window_layers=self.num_window_layers,
            scale_bytes=self.scale_bytes,
            layers_without_kv=self.layers_without_kv,
        )
        for name in ("window", "v_head_dim", "latent_dim", "num_query_heads", "max_model_len"):
            if getattr(self, name) is not None:
                check_positive(**{name: getattr(self, name)})
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
        check_not_negative(num_tokens=num_tokens)
        check_positive(block_size=block_size)
        full = self.num_layers - self.num_window_layers
        kept_in_window = min(num_tokens, self.window or 0, self.max_model_len or num_tokens)
        blocks = full * cdiv(num_tokens, block_size) + self.num_window_layers * cdiv(
            kept_in_window, block_size
        )
        return blocks * block_size * self.layer_bytes_per_token

    def block_bytes(self, block_size: int = 16) -> int:
        """Bytes of one block of ``block_size`` tokens in all layers: what the pool is divided by."""
        check_positive(block_size=block_size)
        return block_size * self.bytes_per_token

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
        check_positive(tensor_parallel_size=tensor_parallel_size)
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
