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
from minipaged.hf_config.keys import MOST_LAYERS, flag, integer, load_config, optional_integer, shown
from minipaged.hf_config.layers import FULL, SLIDING

#: architecture -> model_type
ARCHITECTURES = {"LlamaForCausalLM": "llama", "MistralForCausalLM": "mistral",
                 "Qwen2ForCausalLM": "qwen2", "Qwen3ForCausalLM": "qwen3"}
DEFAULT_ROPE_THETA = 10000.0
MOST_POSITIONS = 2 ** 24  # far above any real model; there is a row of cos and sin for each


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
        layers, heads = integer(config, "num_hidden_layers", most=MOST_LAYERS), integer(config, "num_attention_heads")
        hidden = integer(config, "hidden_size")
        kv_heads = optional_integer(config, "num_key_value_heads", default=heads)
        if heads % kv_heads:
            raise ModelFormatError(f"config has num_attention_heads {heads} and num_key_value_heads {kv_heads}; the "
                                   "first must be a multiple of the second")
        head_dim = optional_integer(config, "head_dim", default=hidden // heads)
        if config.get("head_dim") is None and hidden % heads:
            raise ModelFormatError(f"config lacks 'head_dim', and hidden_size {hidden} is not a multiple of "
                                   f"num_attention_heads {heads}")
        if head_dim % 2:
            raise ModelFormatError(f"config key 'head_dim' is {head_dim}; rotary positions need an even number")
        if config.get("hidden_act", "silu") != "silu":
            raise ModelFormatError(f"config key 'hidden_act' is {shown(config['hidden_act'])}; this decoder has "
                                   "'silu'")
        has_bias = flag(config, "attention_bias") and model_type in ("llama", "qwen3")
        theta, scaling = _rope(config)
        return cls(
            model_type=model_type, vocab_size=integer(config, "vocab_size"), hidden_size=hidden,
            intermediate_size=integer(config, "intermediate_size"), num_layers=layers, num_heads=heads,
            num_kv_heads=kv_heads, head_dim=head_dim, max_model_len=_max_positions(config),
            rms_norm_eps=_number(config, "rms_norm_eps", 1e-6), rope_theta=theta, rope_scaling=scaling,
            windows=_windows(config, model_type, layers),
            qkv_bias=has_bias or model_type == "qwen2",  # Qwen2 always has them; no key says so
            o_bias=has_bias, mlp_bias=flag(config, "mlp_bias") and model_type == "llama",
            qk_norm=model_type == "qwen3", tie_word_embeddings=flag(config, "tie_word_embeddings"),
            dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32").removeprefix("torch."),
            eos_token_ids=eos_token_ids(config, "config.json"))


def eos_token_ids(config: Mapping, where: str) -> tuple[int, ...]:
    """The end-of-sequence ids of a config or generation config: one number, a list, or none."""
    value = config.get("eos_token_id")
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if not all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in ids):
        raise ModelFormatError(f"{where} key 'eos_token_id' is {shown(value)}; it must be a token id or a list of "
                               "them")
    return tuple(ids)


def _model_type(config: Mapping) -> str:
    names = config.get("architectures")
    if not names:
        found = config.get("model_type")
        if isinstance(found, str) and found in ARCHITECTURES.values():
            return found
        names = [found]
    name = names[0] if isinstance(names, list) else names
    if not isinstance(names, list) or not isinstance(name, str) or name not in ARCHITECTURES:
        raise ModelFormatError(f"config key 'architectures': the architecture is {shown(name)}; there are "
                               f"{', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def _max_positions(config: Mapping) -> int:
    return optional_integer(config, "max_position_embeddings", default=2048, most=MOST_POSITIONS)


def _number(config: Mapping, key: str, default: float) -> float:
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 10 ** 30:
        raise ModelFormatError(f"config key {key!r} is {shown(value)}; it must be a number above 0 and at most 1e30")
    return float(value)


def _rope(config: Mapping) -> tuple[float, Mapping]:
    """(theta, scaling). Both stand in `rope_parameters` in new files; older ones have `rope_theta` at the top
    and `rope_scaling`, whose kind is called `type` or `rope_type`. Without any: theta 10000, no scaling."""
    nested = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(nested, Mapping):
        raise ModelFormatError(f"the rope parameters of the config are {shown(nested)}; they must be an object")
    kind = nested.get("rope_type") or nested.get("type") or "default"
    source = nested if nested.get("rope_theta") is not None else config
    theta = _number(source, "rope_theta", DEFAULT_ROPE_THETA)
    for part in (nested, config):
        if part.get("partial_rotary_factor") not in (None, 1, 1.0):
            raise ModelFormatError("config key 'partial_rotary_factor' is "
                                   f"{shown(part['partial_rotary_factor'])}; only 1 (all of a head) is known")
    scaling = {**nested, "rope_type": kind}
    scaling.setdefault("max_position_embeddings", _max_positions(config))
    return theta, scaling


def _windows(config: Mapping, model_type: str, layers: int) -> tuple[int | None, ...]:
    """Which layers slide: a list in the config, or the family's rule."""
    kinds = config.get("layer_types")
    if model_type == "llama":
        return (None,) * layers
    window = config.get("sliding_window")
    if model_type.startswith("qwen") and not flag(config, "use_sliding_window"):
        window = None
    if window is None:
        return (None,) * layers
    window = integer(config, "sliding_window")
    if model_type == "mistral":
        return (window,) * layers
    if kinds is None:
        first = optional_integer(config, "max_window_layers", default=layers, least=0)
        kinds = [SLIDING if layer >= first else FULL for layer in range(layers)]
    if not isinstance(kinds, list) or len(kinds) != layers or any(kind not in (FULL, SLIDING) for kind in kinds):
        raise ModelFormatError(f"config key 'layer_types' must list {layers} times {FULL!r} or {SLIDING!r}")
    return tuple(window if kind == SLIDING else None for kind in kinds)
