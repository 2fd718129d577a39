"""Lab of chapter 01: how many bytes a KV cache takes, and how many requests that lets in."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged import formulas
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

# ---- formulas.kv-bytes

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


KV_BYTES_EXERCISE = Exercise(
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
)

# ---- formulas.fits

FITS = '''\
def fits(card_gib, weights_gb, num_layers, num_heads, num_kv_heads, head_dim, num_tokens):
    left = card_gib * 2 ** 30 - weights_gb * 10 ** 9
    each = 2 * num_layers * num_kv_heads * head_dim * 2 * num_tokens
    if left < 0:
        return 0, 0
    return left // each, left % each
'''


def _fits(card_gib: int, weights_gb: int, num_layers: int, num_heads: int, num_kv_heads: int, head_dim: int,
          num_tokens: int) -> tuple[int, int]:
    shape = formulas.KVShape(num_layers, num_kv_heads, head_dim, num_query_heads=num_heads)
    left = max(0, formulas.parse_bytes(f"{card_gib}GiB") - formulas.parse_bytes(f"{weights_gb}GB"))
    return divmod(left, shape.sequence_bytes(num_tokens))


def _fits_case(rng: random.Random) -> dict:
    kv_heads = rng.choice([1, 2, 4, 8])
    return {"args": [rng.choice([1, 2, 8, 24, 80]), rng.randint(0, 30), rng.randint(1, 64),
                     kv_heads * rng.choice([1, 2, 4, 8]), kv_heads, rng.choice([64, 128, 256]), rng.randint(1, 9000)]}


def _drive_fits(trace: Trace, case: dict) -> None:
    trace.call("fits", *case["args"])


def _wrong_fits(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(FITS, *pairs))


FITS_EXERCISE = Exercise(
    id="formulas.fits",
    title="How many requests fit beside the weights?",
    chapter="01_kv_cache",
    minutes=12,
    level="medium",
    goal="Count the requests that a GPU can serve at once, with grouped heads and with units that do not agree.",
    interface=("fits(card_gib, weights_gb, num_layers, num_heads, num_kv_heads, head_dim, num_tokens)",),
    hints=("A card of 80 GiB and weights of 26 GB: in which unit can you subtract one from the other?",
           "Turn both into bytes: a GiB has 2 ** 30, a GB has 10 ** 9. What is left is divided by the bytes of one "
           "request, which depend on only one of the two numbers of heads. Only whole requests count.",
           "left = card_gib * 2 ** 30 - weights_gb * 10 ** 9; if it is negative: (0, 0). each = 2 * num_layers * "
           "num_kv_heads * head_dim * 2 * num_tokens; return left // each, left % each."),
    rule="In bytes: what the weights leave of the card, divided by 2 x num_layers x num_kv_heads x head_dim x 2 x "
         "num_tokens. A GiB is 2**30 bytes, a GB is 10**9; query heads have no keys and values of their own.",
    examples=({"args": [80, 26, 40, 40, 40, 128, 4096]}, {"args": [80, 16, 32, 32, 8, 128, 8192]},
              {"args": [24, 26, 40, 40, 40, 128, 4096]}),
    case=_fits_case,
    drive=_drive_fits,
    reference=lambda: SimpleNamespace(fits=_fits),
    misconceptions=(
        _wrong_fits("decimal-card", "you count a GiB as 10**9 bytes. It has 2**30, 7% more: on a card of 80 GiB that "
                    "hides 5.9 GB.", "2 ** 30", "10 ** 9"),
        _wrong_fits("binary-weights", "you count a GB as 2**30 bytes; it has 10**9. 26 GB are 24.2 GiB.",
                    "10 ** 9", "2 ** 30"),
        _wrong_fits("tokens", "you count the tokens that fit. A request has num_tokens of them and needs all.",
                    " * 2 * num_tokens", " * 2"),
        _wrong_fits("query-heads", "you count the query heads. Only KV heads leave keys and values: 32 query heads "
                    "in groups of 4 make it 4 times too much.", "num_layers * num_kv_heads", "num_layers * num_heads"),
        _wrong_fits("group-size", "num_kv_heads is the number of KV heads itself, not of groups to divide by.",
                    "num_kv_heads * head_dim", "(num_heads // num_kv_heads) * head_dim"),
        _wrong_fits("no-weights", "the weights lie on the same card: what they take is not there for requests.",
                    " - weights_gb * 10 ** 9", ""),
        _wrong_fits("rounds-up", "you count a request that fits in part. A request needs all of its memory.",
                    "left // each, left % each", "-(-left // each), left % each"),
        _wrong_fits("one-byte", "in fp16 a number takes 2 bytes: there are two factors 2, one for keys and values, one "
                    "for the bytes.", "head_dim * 2 * num_tokens", "head_dim * num_tokens"),
        _wrong_fits("negative-room", "when the weights alone are too large the number of requests is negative; none "
                    "fits, and nothing is left: (0, 0).", "    if left < 0:\n        return 0, 0\n", ""),
    ),
)

EXERCISES = (KV_BYTES_EXERCISE, FITS_EXERCISE)
