"""From a Hugging Face ``config.json`` to a :class:`~minipaged.formulas.KVShape`. Used in chapters 01 and 02.

Model families name the same things differently (``n_head``, ``num_attention_heads``), hide the text model
inside a larger one, and state which layers slide in five ways. The rules below are those of the model
classes in ``transformers`` (5.24), and the tests compare the result with the caches that those classes make.
A config with a feature that changes the size and is not understood here is refused, and so is a value of
another type or beyond any real model: a damaged file should end in one clear line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from minipaged.errors import ModelFormatError
from minipaged.formulas import KVShape, canonical_dtype

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

# Families whose classes make every n-th layer full and the others slide, where the file does not say it.
_FULL_EVERY = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}

_REFUSED = {
    "global_head_dim": "layers with different head sizes",
    "block_configs": "layers with different numbers of KV heads",
    "attention_types": "layer kinds given as attention_types",
    "layers_block_type": "a hybrid of attention and recurrent layers given as layers_block_type",
    "hybrid_override_pattern": "a hybrid of attention and recurrent layers given as hybrid_override_pattern",
    "attn_layer_period": "a hybrid of attention and recurrent layers given as attn_layer_period",
    "attn_layer_indices": "a hybrid of attention and recurrent layers given as attn_layer_indices",
    "linear_attn_config": "a hybrid of attention and recurrent layers given as linear_attn_config",
    "block_types": "a hybrid of attention and recurrent layers given as block_types",
    "swa_num_key_value_heads": "window layers with another number of KV heads",
    "index_head_dim": "a second cache for the sparse-attention index",
}

_KEEPS_ALL = {"full_attention", "attention", "global", "global_attention"}
_KEEPS_WINDOW = {"sliding_attention", "local", "local_attention", "sliding_window_attention"}
_KEEPS_CHUNK = {"chunked_attention"}
_KEEPS_STATE = {"linear_attention", "mamba", "mamba2", "conv", "recurrent", "short_conv"}

_MOST_FILE_BYTES = 16 * 2**20  # a real config.json takes kilobytes; weights given by mistake take gigabytes
_MOST_LAYERS = 100_000  # the rules below list every layer
_MOST = 10**12


def load_config(source: str | os.PathLike | Mapping) -> Mapping:
    """The content of a ``config.json``, from its path, its folder's path, or as it is.

    FileNotFoundError if there is no such file, ModelFormatError that names it if it is not a JSON object.
    """
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"no model config at {path}; give a config.json or the folder that holds it")
    with path.open("rb") as file:
        data = file.read(_MOST_FILE_BYTES + 1)
    if len(data) > _MOST_FILE_BYTES:
        raise ModelFormatError(
            f"{path} is larger than {_MOST_FILE_BYTES // 2**20} MiB; it is no model config"
        )
    try:
        content = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ModelFormatError(f"{path} is nested too deep for a model config") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"{path} is not valid JSON: {error}") from None
    except ValueError as error:  # Python reads no number of more than 4,300 digits
        raise ModelFormatError(f"{path} holds a number that cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ModelFormatError(
            f"{path} holds a JSON {type(content).__name__}, expected an object with model settings"
        )
    return content


def kv_shape(source: str | os.PathLike | Mapping) -> KVShape:
    """The KVShape of a Hugging Face config; see :meth:`KVShape.from_config` for the contract."""
    outer = load_config(source)
    text = _text_part(outer)
    if _flag(outer, "is_encoder_decoder") or _flag(text, "is_encoder_decoder"):
        raise ModelFormatError(
            "config key 'is_encoder_decoder' is true: only decoder-only models are counted"
        )
    for key, what in _REFUSED.items():
        if text.get(key) is not None:
            raise ModelFormatError(f"config key {key!r} means {what}, which is not counted here")

    num_layers = _integer(text, _LAYERS, most=_MOST_LAYERS)
    heads = _integer(text, _HEADS)
    full, windowed, window = _layer_kinds(text, num_layers)
    counted = full + windowed
    if not counted:
        raise ModelFormatError(
            "config key 'layer_types' has no attention layer, so there is no KV cache to count"
        )
    common = {
        "kv_dtype": _dtype(text, outer),
        "num_layers": counted,
        "num_window_layers": windowed,
        "window": window if windowed else None,
        "layers_without_kv": num_layers - counted,
        "num_query_heads": heads,
        "max_model_len": _integer(text, _MAX_LEN, required=False),
    }
    if text.get("kv_lora_rank") is not None:
        rope = _integer(text, ("qk_rope_head_dim",))
        return KVShape(
            num_kv_heads=heads,
            head_dim=_integer(text, ("qk_nope_head_dim",)) + rope,
            v_head_dim=_integer(text, ("v_head_dim",)),
            latent_dim=_integer(text, ("kv_lora_rank",)) + rope,
            **common,
        )
    kv_heads = _kv_heads(text, heads)
    if heads % kv_heads:
        raise ModelFormatError(
            f"config has {heads} query heads (key {_found(text, _HEADS)!r}) and {kv_heads} KV heads "
            f"(key {_found(text, _KV_HEADS)!r}): the first must be a multiple of the second"
        )
    v_head_dim = _integer(text, ("v_head_dim",), required=False)
    return KVShape(num_kv_heads=kv_heads, head_dim=_head_dim(text, heads), v_head_dim=v_head_dim, **common)


# ---------------------------------------------------------------- parts


def _text_part(outer: Mapping) -> Mapping:
    for key in _NESTED:
        if key in outer:
            nested = outer[key]
            if not isinstance(nested, Mapping):
                raise ModelFormatError(
                    f"config key {key!r} must be an object with model settings, got {_shown(nested)}"
                )
            defaults = _NESTED_DEFAULTS.get(_model_type(nested), {})
            return {**defaults, **nested}
    return outer


def _found(config: Mapping, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if config.get(name) is not None), None)


def _integer(
    config: Mapping, names: tuple[str, ...], required: bool = True, least: int = 1, most: int = _MOST
) -> int | None:
    """The first of ``names`` that is set, as a whole number from ``least`` to ``most``."""
    name = _found(config, names)
    if name is None:
        if required:
            others = f" (also looked for {', '.join(names[1:])})" if names[1:] else ""
            raise ModelFormatError(f"config lacks the key {names[0]!r}{others}")
        return None
    value = config[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ModelFormatError(
            f"config key {name!r} must be a whole number from {least} to {most:,}, got {_shown(value)}"
        )
    return value


def _flag(config: Mapping, name: str, default: bool = False) -> bool:
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ModelFormatError(f"config key {name!r} must be true or false, got {_shown(value)}")
    return value


def _model_type(config: Mapping) -> str:
    """The name of the model family, empty where the config has none."""
    value = config.get("model_type")
    if not isinstance(value, str | None):
        raise ModelFormatError(f"config key 'model_type' must be a name, got {_shown(value)}")
    return value or ""


def _shown(value: object) -> str:
    """``value`` as part of a message, cut to a readable length."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or lists in lists in lists
        return f"a value of type {type(value).__name__} that is too large to print"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _dtype(text: Mapping, outer: Mapping) -> str:
    for config in (text, outer):
        key = _found(config, ("dtype", "torch_dtype"))
        if key is not None:
            if isinstance(config[key], (bool, int, float, list, Mapping)):
                raise ModelFormatError(
                    f"config key {key!r} must be an element type, got {_shown(config[key])}"
                )
            try:
                return canonical_dtype(config[key])
            except ValueError as error:
                raise ModelFormatError(f"config key {key!r}: {error}") from None
    return "fp16"


def _kv_heads(text: Mapping, heads: int) -> int:
    nested = text.get("attn_config")  # MPT and DBRX keep it one level down
    if not isinstance(nested, Mapping | None):
        raise ModelFormatError(f"config key 'attn_config' must be an object, got {_shown(nested)}")
    if nested and _found(nested, _KV_HEADS):
        return _integer(nested, _KV_HEADS)
    is_falcon = _model_type(text) in ("falcon", "RefinedWeb", "RefinedWebModel")
    is_bigcode = _model_type(text) == "gpt_bigcode"
    if is_falcon and not _flag(text, "new_decoder_architecture"):
        return 1 if _flag(text, "multi_query", True) else heads  # num_kv_heads is ignored by this variant
    if is_bigcode:
        return 1 if _flag(text, "multi_query", True) else heads
    if _flag(text, "multi_query") and not _found(text, _KV_HEADS):
        return 1
    if not _flag(text, "multi_query_attention", True):
        return heads  # ChatGLM: multi_query_group_num counts only when this is on
    return _integer(text, _KV_HEADS, required=False) or heads


def _head_dim(text: Mapping, heads: int) -> int:
    explicit = _integer(text, _HEAD_DIM, required=False)
    if explicit is not None:
        return explicit
    hidden = _integer(text, _HIDDEN)
    if hidden % heads:
        raise ModelFormatError(
            f"config lacks the key 'head_dim', and {_found(text, _HIDDEN)!r} {hidden} is not a "
            f"multiple of {_found(text, _HEADS)!r} {heads}"
        )
    return hidden // heads


def _layer_kinds(text: Mapping, num_layers: int) -> tuple[int, int, int | None]:
    """(layers that keep every token, layers that keep a window, that window in tokens)."""
    kinds = text.get("layer_types")
    if kinds is None:
        kinds = _derived_kinds(text, num_layers)
    if not isinstance(kinds, (list, tuple)) or len(kinds) != num_layers:
        raise ModelFormatError(
            f"config key 'layer_types' must be a list of {num_layers} layer kinds, got {_shown(kinds)}"
        )
    # The last layers of some models (Gemma 3n) read the KV of earlier ones and keep none.
    sharing = (
        _integer(text, ("num_kv_shared_layers",), required=False, least=0, most=num_layers - 1) or 0
    )
    counts = {"full": 0, "window": 0, "chunk": 0}
    for kind in kinds[: num_layers - sharing]:
        if not isinstance(kind, str):
            raise ModelFormatError(f"config key 'layer_types' must hold names, got {_shown(kind)}")
        if kind in _KEEPS_ALL:
            counts["full"] += 1
        elif kind in _KEEPS_WINDOW:
            counts["window"] += 1
        elif kind in _KEEPS_CHUNK:
            counts["chunk"] += 1
        elif kind not in _KEEPS_STATE:
            raise ModelFormatError(
                f"config key 'layer_types' names an unknown kind of layer: {_shown(kind)}"
            )
    if counts["window"] and counts["chunk"]:
        raise ModelFormatError(
            "config key 'layer_types' mixes sliding and chunked layers, which is not counted here"
        )
    window = None
    if counts["window"]:
        window = _integer(text, ("sliding_window", "sliding_window_size"))
    elif counts["chunk"]:
        window = _integer(text, ("attention_chunk_size",))
    return counts["full"], counts["window"] + counts["chunk"], window


def _derived_kinds(text: Mapping, num_layers: int) -> list[str]:
    """The kind of each layer where the config does not list them."""
    full, sliding = "full_attention", "sliding_attention"
    if text.get("full_attention_interval") is not None:
        every = _integer(text, ("full_attention_interval",))
        return [full if (i + 1) % every == 0 else "linear_attention" for i in range(num_layers)]
    if _model_type(text) == "llama4_text" and text.get("attention_chunk_size") is not None:
        every = _integer(text, ("no_rope_layer_interval",), required=False) or 4
        return [full if (i + 1) % every == 0 else "chunked_attention" for i in range(num_layers)]
    is_qwen = _model_type(text).startswith("qwen")
    if text.get("sliding_window") is None or not _flag(text, "use_sliding_window", not is_qwen):
        return [full] * num_layers
    if is_qwen:
        first_sliding = _integer(text, ("max_window_layers",), required=False, least=0)
        if first_sliding is None:
            first_sliding = num_layers
        return [sliding if i >= first_sliding else full for i in range(num_layers)]
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        pattern = text.get(key)
        if isinstance(pattern, str):  # "LLLG": local, local, local, global, and again
            if not pattern or set(pattern.upper()) - {"L", "G"}:
                raise ModelFormatError(f"config key {key!r} must be made of L and G, got {_shown(pattern)}")
            return [full if pattern[i % len(pattern)].upper() == "G" else sliding for i in range(num_layers)]
        if pattern is not None:
            every = _integer(text, (key,))
            return [full if (i + 1) % every == 0 else sliding for i in range(num_layers)]
    every = _FULL_EVERY.get(_model_type(text))
    return [full if every and (i + 1) % every == 0 else sliding for i in range(num_layers)]
