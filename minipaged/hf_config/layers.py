"""Which layers of a model keep every token, which only a window of them, and which no K and V. Chapter 01.

New configs list the kind of each layer in ``layer_types``. Older ones have a rule for it, one for each family.
"""

from __future__ import annotations

from collections.abc import Mapping

from minipaged.errors import ModelFormatError
from minipaged.hf_config.keys import flag, integer, model_type, optional_integer, shown

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"

# Families whose classes make every n-th layer full and the others slide, where the file does not say it.
_FULL_EVERY = {"gemma2": 2, "gpt_oss": 2, "gemma3_text": 6, "gemma3": 6, "cohere2": 4}

_KEEPS_ALL = {FULL, "attention", "global", "global_attention"}
_KEEPS_WINDOW = {SLIDING, "local", "local_attention", "sliding_window_attention"}
_KEEPS_CHUNK = {CHUNKED}
_KEEPS_STATE = {LINEAR, "mamba", "mamba2", "conv", "recurrent", "short_conv"}


def layer_kinds(text: Mapping, num_layers: int) -> tuple[int, int, int | None]:
    """(layers that keep every token, layers that keep a window, that window in tokens)."""
    kinds = text.get("layer_types")
    if kinds is None:
        kinds = _derived_kinds(text, num_layers)
    if not isinstance(kinds, (list, tuple)) or len(kinds) != num_layers:
        raise ModelFormatError(f"config key 'layer_types' is {shown(kinds)}; it must be a list of {num_layers} layer "
                               "kinds")
    # The last layers of some models (Gemma 3n) read the KV of earlier ones and keep none.
    sharing = optional_integer(text, "num_kv_shared_layers", default=0, least=0, most=num_layers - 1)
    full = sliding = chunked = 0
    for kind in kinds[:num_layers - sharing]:
        if not isinstance(kind, str):
            raise ModelFormatError(f"config key 'layer_types' has {shown(kind)}; it must hold names")
        if kind in _KEEPS_ALL:
            full += 1
        elif kind in _KEEPS_WINDOW:
            sliding += 1
        elif kind in _KEEPS_CHUNK:
            chunked += 1
        elif kind not in _KEEPS_STATE:
            raise ModelFormatError(f"config key 'layer_types' names an unknown kind of layer: {shown(kind)}")
    if sliding and chunked:
        raise ModelFormatError("config key 'layer_types' mixes sliding and chunked layers, which is not counted here")
    window = None
    if sliding:
        window = integer(text, "sliding_window", "sliding_window_size")
    elif chunked:
        window = integer(text, "attention_chunk_size")
    return full, sliding + chunked, window


def _derived_kinds(text: Mapping, num_layers: int) -> list[str]:
    """The kind of each layer where the config does not list them."""
    def full_every(every: int, others: str) -> list[str]:
        return [FULL if (i + 1) % every == 0 else others for i in range(num_layers)]

    if text.get("full_attention_interval") is not None:
        return full_every(integer(text, "full_attention_interval"), LINEAR)
    if model_type(text) == "llama4_text" and text.get("attention_chunk_size") is not None:
        return full_every(optional_integer(text, "no_rope_layer_interval", default=4), CHUNKED)
    is_qwen = model_type(text).startswith("qwen")
    if text.get("sliding_window") is None or not flag(text, "use_sliding_window", not is_qwen):
        return [FULL] * num_layers
    if is_qwen:
        first_sliding = optional_integer(text, "max_window_layers", default=num_layers, least=0)
        return [SLIDING if i >= first_sliding else FULL for i in range(num_layers)]
    for key in ("sliding_window_pattern", "_sliding_window_pattern"):
        pattern = text.get(key)
        if isinstance(pattern, str):  # "LLLG": local, local, local, global, and again
            if not pattern or set(pattern.upper()) - {"L", "G"}:
                raise ModelFormatError(f"config key {key!r} is {shown(pattern)}; it must be made of L and G")
            return [FULL if pattern[i % len(pattern)].upper() == "G" else SLIDING for i in range(num_layers)]
        if pattern is not None:
            return full_every(integer(text, key), SLIDING)
    every = _FULL_EVERY.get(model_type(text))
    return full_every(every, SLIDING) if every else [SLIDING] * num_layers
