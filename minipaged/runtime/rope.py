"""Rotary positions: the frequencies, their scaling for long contexts, and the table of angles (chapter 11).

A head's vector is cut into two halves; the pair (i, i + head_dim / 2) is turned by position x frequency i
("half-split", the layout of Hugging Face checkpoints), so that a dot product depends on distances only.
Angles are float32 whatever the model computes in: position 257 in bfloat16 would be 256.
Sources: Su et al., "RoFormer", 2021; Peng et al., "YaRN", 2023; the Llama 3.1 model card's scaling.
"""
from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from minipaged.errors import ModelFormatError


def rope_frequencies(head_dim: int, theta: float, scaling: Mapping | None = None) -> tuple[torch.Tensor, float]:
    """(frequencies [head_dim / 2] in float32, factor on cos and sin).

    `scaling` is the config's dictionary: rope_type (or type) "default", "llama3" or "yarn". Errors:
    ModelFormatError for another type or a missing key.
    """
    scaling = scaling or {}
    kind = scaling.get("rope_type") or scaling.get("type") or "default"
    powers = theta ** (torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim)
    if kind == "default":
        return 1.0 / powers, 1.0
    if kind == "llama3":
        return _llama3(1.0 / powers, scaling), 1.0
    if kind == "yarn":
        return _yarn(powers, head_dim, theta, scaling)
    raise ModelFormatError(f"rope type is {kind!r}; there are 'default', 'llama3' and 'yarn'")


def rope_table(num_positions: int, frequencies: torch.Tensor, factor: float = 1.0) -> torch.Tensor:
    """[2, num_positions, head_dim / 2]: cos and sin of every position, float32."""
    angles = torch.arange(num_positions, dtype=torch.float32)[:, None] * frequencies[None, :]
    return torch.stack((angles.cos(), angles.sin())) * factor


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn x [tokens, heads, head_dim] by the angles of its tokens; cos and sin [tokens, 1, head_dim / 2]."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((torch.addcmul(first * cos, second, sin, value=-1),
                      torch.addcmul(second * cos, first, sin)), dim=-1)


def _llama3(frequencies: torch.Tensor, scaling: Mapping) -> torch.Tensor:
    """Long waves are slowed by `factor`, short ones kept, those between blended."""
    factor, low, high, original = (_number(scaling, key) for key in (
        "factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
    waves = 2 * math.pi / frequencies
    blend = ((original / waves - low) / (high - low)).clamp(0, 1)  # 1: keep, 0: divide
    return torch.where(waves < original / high, frequencies,
                       torch.where(waves > original / low, frequencies / factor,
                                   (1 - blend) * frequencies / factor + blend * frequencies))


def _yarn(powers: torch.Tensor, head_dim: int, theta: float, scaling: Mapping) -> tuple[torch.Tensor, float]:
    """Dimensions that turn often within the original context are kept, those that turn rarely are slowed."""
    if theta <= 1:
        raise ModelFormatError(f"config key 'rope_theta' is {theta}; yarn needs a number above 1")
    known = "original_max_position_embeddings"
    if scaling.get(known) is None:
        known = "max_position_embeddings"
    original = _number(scaling, known)
    factor = _number(scaling, "factor", _number(scaling, "max_position_embeddings", original) / original)

    def dimension(turns: float) -> float:
        return head_dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(_number(scaling, "beta_fast", 32)), dimension(_number(scaling, "beta_slow", 1))
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    high = high + 0.001 if low == high else high
    slowed = ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    frequencies = slowed / (factor * powers) + (1 - slowed) / powers

    def magnitude(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    both = scaling.get("mscale"), scaling.get("mscale_all_dim")
    if all(both):
        usual = magnitude(_number(scaling, "mscale")) / magnitude(_number(scaling, "mscale_all_dim"))
    else:
        usual = magnitude(1)
    return frequencies, float(_number(scaling, "attention_factor", usual))


def _number(scaling: Mapping, key: str, default: float | None = None) -> float:
    value = scaling.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 1e-30 <= value <= 10 ** 30:
        what = "a number of too many digits" if isinstance(value, int) and value > 10 ** 30 else f"{value!r:.60}"
        raise ModelFormatError(f"the config's rope parameter {key!r} is {what}; it must be a number above 0, and "
                               "at most 1e30")
    return value
