"""What a decoder needs to know about itself, read from a Hugging Face ``config.json`` (chapter 11).

Four families differ in a few switches only, so that one decoder serves them all. Rules and defaults are
those of the model classes in ``transformers`` 5; a key that would change the result and isn't understood
is an error, since a model that runs but computes something else is worse than one that doesn't load.
"""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from minipaged.errors import ModelFormatError
from minipaged.hf_config import load_config

#: architecture -> model_type
ARCHITECTURES = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral",
                 "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}
DEFAULT_ROPE_THETA = 10000.0
FULL, SLIDING = "full_attention", "sliding_attention"


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and switches of one decoder.

    `windows[i]` is how many positions layer i sees, the query's own included; None: all. `rope_scaling` is
    the rope dictionary of the config ({"rope_type": "default"} when there is none).
    """

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_model_len: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: Mapping = field(default_factory=lambda: {"rope_type": "default"})
    windows: tuple[int | None, ...] = ()
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    tie_word_embeddings: bool = False
    dtype: str = "float32"
    eos_token_ids: tuple[int, ...] = ()

    @classmethod
    def from_hf(cls, source: str | os.PathLike | Mapping) -> ModelConfig:
        """Read a config.json (path, folder, or its content). Errors: ModelFormatError naming the key."""
        config = load_config(source)
        model_type = _model_type(config)
        layers, heads = _count(config, "num_hidden_layers"), _count(config, "num_attention_heads")
        hidden = _count(config, "hidden_size")
        kv_heads = _count(config, "num_key_value_heads", heads)
        if heads % kv_heads:
            raise ModelFormatError(f"config has num_attention_heads {heads} and num_key_value_heads {kv_heads}; the "
                                   "first must be a multiple of the second")
        head_dim = _count(config, "head_dim", hidden // heads)
        if config.get("head_dim") is None and hidden % heads:
            raise ModelFormatError(f"config lacks 'head_dim', and hidden_size {hidden} is not a multiple of "
                                   f"num_attention_heads {heads}")
        if head_dim % 2:
            raise ModelFormatError(f"config key 'head_dim' is {head_dim}; rotary positions need an even number")
        if config.get("hidden_act", "silu") != "silu":
            raise ModelFormatError(f"config key 'hidden_act' is {config['hidden_act']!r}; this decoder has 'silu'")
        has_bias = _flag(config, "attention_bias") and model_type in ("llama", "qwen3")
        theta, scaling = _rope(config)
        return cls(
            model_type=model_type, vocab_size=_count(config, "vocab_size"), hidden_size=hidden,
            intermediate_size=_count(config, "intermediate_size"), num_layers=layers, num_heads=heads,
            num_kv_heads=kv_heads, head_dim=head_dim, max_model_len=_count(config, "max_position_embeddings", 2048),
            rms_norm_eps=_number(config, "rms_norm_eps", 1e-6), rope_theta=theta, rope_scaling=scaling,
            windows=_windows(config, model_type, layers),
            qkv_bias=has_bias or model_type == "qwen2",  # Qwen2 always has them; no key says so
            o_bias=has_bias, mlp_bias=_flag(config, "mlp_bias") and model_type == "llama",
            qk_norm=model_type == "qwen3", tie_word_embeddings=_flag(config, "tie_word_embeddings"),
            dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32").removeprefix("torch."),
            eos_token_ids=eos_token_ids(config, "config.json"))


def eos_token_ids(config: Mapping, where: str) -> tuple[int, ...]:
    """The end-of-sequence ids of a config or generation config: one number, a list, or none."""
    value = config.get("eos_token_id")
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in ids):
        raise ModelFormatError(f"{where} key 'eos_token_id' is {value!r}; it must be a token id or a list of them")
    return tuple(ids)


def _model_type(config: Mapping) -> str:
    names = config.get("architectures")
    if not names:
        found = config.get("model_type")
        if found in ARCHITECTURES.values():
            return found
        names = [found]
    if not isinstance(names, list) or names[0] not in ARCHITECTURES:
        name = names[0] if isinstance(names, list) else names
        raise ModelFormatError(f"config says the architecture is {name!r}; there are {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[names[0]]


def _count(config: Mapping, key: str, default: int | None = None) -> int:
    value = config.get(key)
    if value is None:
        if default is None:
            raise ModelFormatError(f"config lacks the key {key!r}")
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ModelFormatError(f"config key {key!r} is {value!r}; it must be a whole number of at least 1")
    return value


def _number(config: Mapping, key: str, default: float | None = None) -> float:
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise ModelFormatError(f"config key {key!r} is {value!r}; it must be a number above 0")
    return float(value)


def _flag(config: Mapping, key: str) -> bool:
    value = config.get(key)
    if value not in (None, True, False):
        raise ModelFormatError(f"config key {key!r} is {value!r}; it must be true or false")
    return bool(value)


def _rope(config: Mapping) -> tuple[float, Mapping]:
    """(theta, scaling). Both stand in `rope_parameters` in new files; older ones have `rope_theta` at the top
    and `rope_scaling`, whose kind is called `type` or `rope_type`. Without any: theta 10000, no scaling."""
    nested = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(nested, Mapping):
        raise ModelFormatError(f"the rope parameters of the config are {nested!r}; they must be an object")
    kind = nested.get("rope_type") or nested.get("type") or "default"
    source = nested if nested.get("rope_theta") is not None else config
    theta = _number(source, "rope_theta", DEFAULT_ROPE_THETA)
    for part in (nested, config):
        if part.get("partial_rotary_factor") not in (None, 1, 1.0):
            raise ModelFormatError("config key 'partial_rotary_factor' is "
                                   f"{part['partial_rotary_factor']!r}; only 1 (all of a head) is known")
    scaling = {**nested, "rope_type": kind}
    scaling.setdefault("max_position_embeddings", _count(config, "max_position_embeddings", 2048))
    return theta, scaling


def _windows(config: Mapping, model_type: str, layers: int) -> tuple[int | None, ...]:
    """Which layers slide: a list in the config, or the family's rule."""
    kinds = config.get("layer_types")
    if model_type == "llama":
        return (None,) * layers
    window = config.get("sliding_window")
    if model_type.startswith("qwen") and not _flag(config, "use_sliding_window"):
        window = None
    if window is None:
        return (None,) * layers
    window = _count(config, "sliding_window")
    if model_type == "mistral":
        return (window,) * layers
    if kinds is None:
        first = config.get("max_window_layers")
        first = layers if first is None else first
        kinds = [SLIDING if layer >= first else FULL for layer in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or not set(kinds) <= {FULL, SLIDING}:
        raise ModelFormatError(f"config key 'layer_types' must list {layers} times {FULL!r} or {SLIDING!r}")
    return tuple(window if kind == SLIDING else None for kind in kinds)
