"""Lab of chapter 01: how many bytes a KV cache takes."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged import formulas
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace


def _kv_bytes(num_layers: int, num_kv_heads: int, head_dim: int, num_tokens: int, bytes_per_element: int) -> int:
    dtype = {1: "fp8", 2: "fp16", 4: "fp32", 8: "fp64"}[bytes_per_element]
    return formulas.kv_bytes_per_token(num_layers, num_kv_heads, head_dim, dtype) * num_tokens


def _case(rng: random.Random) -> dict:
    return {"args": [rng.randint(1, 80), rng.randint(1, 40), rng.choice([1, 64, 80, 128, 256]),
                     rng.randint(0, 5000), rng.choice([1, 2, 4, 8])]}


def _drive(trace: Trace, case: dict) -> None:
    trace.call("kv_bytes", *case["args"])


def _wrong(name: str, message: str, expression: str) -> Misconception:
    head = "def kv_bytes(num_layers, num_kv_heads, head_dim, num_tokens, bytes_per_element):\n    return "
    return Misconception(name, message, head + expression + "\n")


EXERCISES = (
    Exercise(
        id="formulas.kv-bytes",
        title="How many bytes does a KV cache take?",
        chapter="01_kv_cache",
        minutes=5,
        level="easy",
        goal="Write the first formula of the field: the bytes of keys and values of one request.",
        interface=("kv_bytes(num_layers, num_kv_heads, head_dim, num_tokens, bytes_per_element)",),
        hints=("For one token, in one layer: how many vectors are kept, and how long is each of them?",
               "One token in one layer keeps a key and a value; each has num_kv_heads x head_dim numbers. Then count "
               "the layers, the tokens and the bytes of a number.",
               "It is one product of six factors: 2, num_layers, num_kv_heads, head_dim, num_tokens and "
               "bytes_per_element."),
        rule="Every token keeps one key and one value, of num_kv_heads x head_dim numbers each, in every layer.",
        examples=({"args": [40, 40, 128, 1, 2]}, {"args": [32, 8, 128, 4, 2]}, {"args": [1, 1, 1, 0, 2]}),
        case=_case,
        drive=_drive,
        reference=lambda: SimpleNamespace(kv_bytes=_kv_bytes),
        misconceptions=(
            _wrong("one-of-two", "you count keys or values; a token keeps both, so a factor 2 is missing.",
                   "num_layers * num_kv_heads * head_dim * num_tokens * bytes_per_element"),
            _wrong("one-layer", "you count one layer; every layer has keys and values of its own.",
                   "2 * num_kv_heads * head_dim * num_tokens * bytes_per_element"),
            _wrong("elements", "you count numbers, not bytes: multiply by the bytes of one number.",
                   "2 * num_layers * num_kv_heads * head_dim * num_tokens"),
            _wrong("fp16-only", "you take 2 bytes for a number whatever it is; the element type is an argument.",
                   "2 * num_layers * num_kv_heads * head_dim * num_tokens * 2"),
            _wrong("bits", "you count bits; bytes_per_element is in bytes already.",
                   "2 * num_layers * num_kv_heads * head_dim * num_tokens * bytes_per_element * 8"),
            _wrong("one-head", "you count one head; every KV head keeps a key and a value.",
                   "2 * num_layers * head_dim * num_tokens * bytes_per_element"),
            _wrong("attention-matrix", "the number of tokens enters once: the cache holds one entry a token; it is the "
                   "matrix of scores that grows with the square.",
                   "2 * num_layers * num_kv_heads * head_dim * num_tokens ** 2 * bytes_per_element"),
            _wrong("one-token", "you count one token; each token of the request has its own entry.",
                   "2 * num_layers * num_kv_heads * head_dim * bytes_per_element"),
        ),
    ),
)
