"""The sizes in a config that decide how large the KV cache is: layers, heads, elements of a head. Chapter 01."""

from __future__ import annotations

import os
from collections.abc import Mapping

from minipaged.errors import ModelFormatError
from minipaged.formulas import KVShape, canonical_dtype
from minipaged.hf_config.keys import (
    MOST_LAYERS,
    flag,
    found,
    integer,
    load_config,
    model_type,
    optional_integer,
    shown,
)
from minipaged.hf_config.layers import layer_kinds

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_HEADS = ("num_attention_heads", "n_head", "n_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num", "kv_n_heads")
_HIDDEN = ("hidden_size", "n_embd", "d_model", "n_embed")
_HEAD_DIM = ("head_dim", "kv_channels")
_MAX_LEN = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "max_sequence_length")

_NESTED = ("text_config", "llm_config", "language_config")

# A nested text_config may leave out what its class has as a default (Gemma 3 and LLaVA checkpoints do).
_NESTED_DEFAULTS = {
    "llama": {"num_hidden_layers": 32, "num_attention_heads": 32, "hidden_size": 4096},
    "gemma3_text": {
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "hidden_size": 2304,
        "sliding_window": 4096,
    },
}

_HYBRID = "a hybrid of attention and recurrent layers"
_REFUSED = {
    "global_head_dim": "layers with different head sizes",
    "block_configs": "layers with different numbers of KV heads",
    "attention_types": "layer kinds given as attention_types",
    "layers_block_type": _HYBRID,
    "hybrid_override_pattern": _HYBRID,
    "attn_layer_period": _HYBRID,
    "attn_layer_indices": _HYBRID,
    "linear_attn_config": _HYBRID,
    "block_types": _HYBRID,
    "swa_num_key_value_heads": "window layers with another number of KV heads",
    "index_head_dim": "a second cache for the sparse-attention index",
}


def kv_shape(source: str | os.PathLike | Mapping) -> KVShape:
    """The KVShape of a Hugging Face config; see :meth:`KVShape.from_config` for the contract."""
    outer = load_config(source)
    text = _text_part(outer)
    if flag(outer, "is_encoder_decoder") or flag(text, "is_encoder_decoder"):
        raise ModelFormatError("config key 'is_encoder_decoder' is true: only decoder-only models are counted")
    for key, what in _REFUSED.items():
        if text.get(key) is not None:
            raise ModelFormatError(f"config key {key!r} means {what}, which is not counted here")

    num_layers = integer(text, *_LAYERS, most=MOST_LAYERS)
    heads = integer(text, *_HEADS)
    full, windowed, window = layer_kinds(text, num_layers)
    counted = full + windowed
    if not counted:
        raise ModelFormatError("config key 'layer_types' has no attention layer, so there is no KV cache to count")
    common = {
        "kv_dtype": _dtype(text, outer),
        "num_layers": counted,
        "num_window_layers": windowed,
        "window": window if windowed else None,
        "layers_without_kv": num_layers - counted,
        "num_query_heads": heads,
        "max_model_len": optional_integer(text, *_MAX_LEN),
    }
    if text.get("kv_lora_rank") is not None:
        rope = integer(text, "qk_rope_head_dim")
        return KVShape(num_kv_heads=heads, head_dim=integer(text, "qk_nope_head_dim") + rope,
                       v_head_dim=integer(text, "v_head_dim"), latent_dim=integer(text, "kv_lora_rank") + rope,
                       **common)
    kv_heads = _kv_heads(text, heads)
    if heads % kv_heads:
        raise ModelFormatError(f"config has {heads} query heads (key {found(text, _HEADS)!r}) and {kv_heads} KV heads "
                               f"(key {found(text, _KV_HEADS)!r}): the first must be a multiple of the second")
    return KVShape(num_kv_heads=kv_heads, head_dim=_head_dim(text, heads),
                   v_head_dim=optional_integer(text, "v_head_dim"), **common)


def _text_part(outer: Mapping) -> Mapping:
    """The part of the config that describes the text model: the whole of it for most."""
    for key in _NESTED:
        if key in outer:
            nested = outer[key]
            if not isinstance(nested, Mapping):
                raise ModelFormatError(f"config key {key!r} is {shown(nested)}; it must be an object with model "
                                       "settings")
            return {**_NESTED_DEFAULTS.get(model_type(nested), {}), **nested}
    return outer


def _dtype(text: Mapping, outer: Mapping) -> str:
    for config in (text, outer):
        key = found(config, ("dtype", "torch_dtype"))
        if key is not None:
            if isinstance(config[key], (bool, int, float, list, Mapping)):
                raise ModelFormatError(f"config key {key!r} is {shown(config[key])}; it must be an element type")
            try:
                return canonical_dtype(config[key])
            except ValueError as error:
                raise ModelFormatError(f"config key {key!r}: {error}") from None
    return "fp16"


def _kv_heads(text: Mapping, heads: int) -> int:
    nested = text.get("attn_config")  # MPT and DBRX keep it one level down
    if not isinstance(nested, Mapping | None):
        raise ModelFormatError(f"config key 'attn_config' is {shown(nested)}; it must be an object")
    if nested and found(nested, _KV_HEADS):
        return integer(nested, *_KV_HEADS)
    is_old_falcon = (model_type(text) in ("falcon", "RefinedWeb", "RefinedWebModel")
                     and not flag(text, "new_decoder_architecture"))
    if is_old_falcon or model_type(text) == "gpt_bigcode":
        return 1 if flag(text, "multi_query", True) else heads  # these ignore num_kv_heads
    if flag(text, "multi_query") and not found(text, _KV_HEADS):
        return 1
    if not flag(text, "multi_query_attention", True):
        return heads  # ChatGLM: multi_query_group_num counts only when this is on
    return optional_integer(text, *_KV_HEADS, default=heads)


def _head_dim(text: Mapping, heads: int) -> int:
    explicit = optional_integer(text, *_HEAD_DIM)
    if explicit is not None:
        return explicit
    hidden = integer(text, *_HIDDEN)
    if hidden % heads:
        raise ModelFormatError(f"config lacks the key 'head_dim', and {found(text, _HIDDEN)!r} {hidden} is not a "
                               f"multiple of {found(text, _HEADS)!r} {heads}")
    return hidden // heads
