"""How large is the KV cache, beside the weights? (chapter 01)"""
from __future__ import annotations

from dataclasses import replace

from minipaged.formulas import KVShape
from minipaged.presets import preset
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.scene import WIDTH, Bar, Line, Scene, Shape, Words, count, legend, stacked_bar

MODELS = ("smollm2-135m", "llama-3.2-1b", "opt-13b", "llama-2-7b", "mistral-7b-v0.1", "llama-3.1-8b", "gemma-2-9b",
          "qwen2.5-32b", "llama-3.1-70b")
CARD_BYTES = 80 * 10**9
LEFT, SPAN = 24, WIDTH - 48


def kv_size_explorer() -> Explorer:
    """Model, context, requests and element type against the memory of an 80 GB card."""
    return Explorer("How large is the KV cache?", (
        Control("model", "Model", MODELS, "llama-3.1-8b", slider=False),
        Control("tokens", "Context", tuple(2**power for power in range(7, 18)), 8192, "tokens"),
        Control("requests", "Requests", (1, 2, 4, 8, 16, 32, 64, 128, 256), 16),
        Control("dtype", "KV stored as", ("fp32", "fp16", "fp8"), "fp16", slider=False),
    ), _show)


def _show(model: str, tokens: int, requests: int, dtype: str) -> Shown:
    known = preset(model)
    shape = replace(known.shape, kv_dtype=dtype)
    weights = 2 * known.parameters
    each = shape.sequence_bytes(tokens)
    cache = requests * each
    room = max(0, CARD_BYTES - weights) // each
    fits = weights + cache <= CARD_BYTES
    heads = _by_heads(shape)
    sentence = (f"{shape.bytes_per_token:,} bytes of keys and values a token; {count(requests, 'request')} of "
                f"{tokens:,} tokens: {cache / 1e9:.2f} GB beside {weights / 1e9:.2f} GB of fp16 weights. An 80 GB card "
                f"has room for {count(room, 'such request')}, so {'this fits' if fits else 'this does not fit'}.")
    if shape.max_model_len and tokens > shape.max_model_len:
        sentence += f" (The model is made for {shape.max_model_len:,} tokens.)"
    return Shown(_draw(weights, cache, heads), sentence,
                 {"bytes_per_token": shape.bytes_per_token, "kv_bytes": cache, "weight_bytes": weights, "room": room,
                  "bytes_per_token_by_heads": heads})


def _by_heads(shape: KVShape) -> dict[str, int]:
    """Bytes a token if each query head had K and V of its own, as the model is, and if all shared one head."""
    queries = shape.num_query_heads or shape.num_kv_heads
    return {f"{queries} KV heads (multi-head)": replace(shape, num_kv_heads=queries).bytes_per_token,
            f"{shape.num_kv_heads} KV heads (this model)": shape.bytes_per_token,
            "1 KV head (multi-query)": replace(shape, num_kv_heads=1).bytes_per_token}


def _draw(weights: int, cache: int, heads: dict[str, int]) -> Scene:
    scale = max(CARD_BYTES, weights + cache)
    shapes: list[Shape] = [Words(LEFT, 28, "Memory of an 80 GB card", strong=True)]
    parts = [Bar(weights, "read"), Bar(cache, "used"), Bar(max(0, CARD_BYTES - weights - cache), "free")]
    shapes += stacked_bar(LEFT, 40, SPAN, 44, parts, scale)
    edge = LEFT + SPAN * CARD_BYTES / scale
    shapes += [Line(((edge, 34), (edge, 94)), "mark"), Words(min(edge, WIDTH - 24), 108, "80 GB", "end", 12)]
    shapes += legend(LEFT, 108, {f"weights {weights / 1e9:.2f} GB": "read", f"KV cache {cache / 1e9:.2f} GB": "used",
                                 "free": "free"})
    shapes.append(Words(LEFT, 150, "Bytes of one token", strong=True))
    largest = max(heads.values())
    for index, (name, size) in enumerate(heads.items()):
        y = 164 + 30 * index
        shapes.append(Words(LEFT, y + 15, name, size=12))
        shapes += stacked_bar(230, y, 400, 20, [Bar(size, "used" if index == 1 else "cached")], largest)
        shapes.append(Words(238 + 400 * size / largest, y + 15, f"{size:,}", size=12))
    return Scene(262, tuple(shapes))
