"""Lab of chapter 13: kernels in CUDA, compiled by g++ and examined on the CPU, and the roofline."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._cuda_barrier import BARRIER_EXERCISE
from minipaged.lab.exercises._cuda_coalesced import COALESCED_EXERCISE
from minipaged.lab.exercises._cuda_mask import MASK_EXERCISE
from minipaged.lab.exercises._cuda_offsets import OFFSETS_EXERCISE
from minipaged.lab.trace import Trace

# ---- cuda.roofline

ROOFLINE = '''\
def decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth):
    operations = 4 * num_heads * head_dim * context
    moved = 2 * num_kv_heads * head_dim * context * number_bytes
    intensity = operations / moved
    attainable = min(peak, intensity * bandwidth)
    return intensity, attainable, operations / attainable
'''


def _roofline_case(rng: random.Random) -> dict:
    kv_heads = rng.randint(1, 4)
    return {"num_heads": kv_heads * rng.choice([1, 2, 4, 8]), "num_kv_heads": kv_heads, "head_dim": rng.choice([4, 64]),
            "context": rng.randint(1, 99), "number_bytes": rng.choice([1, 2, 4]), "peak": rng.choice([400, 1000, 3000]),
            "bandwidth": rng.choice([100, 250])}


def _drive_roofline(trace: Trace, case: dict) -> None:
    trace.call("decode_roofline", *(case[name] for name in (
        "num_heads", "num_kv_heads", "head_dim", "context", "number_bytes", "peak", "bandwidth")))


def _wrong_roofline(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(ROOFLINE, *pairs))


ROOFLINE_EXERCISE = Exercise(
    id="cuda.roofline",
    title="Under which roof?",
    chapter="13_cuda",
    minutes=15,
    level="easy",
    goal="Say how many operations a byte of the cache is worth in decoding, and how fast a card can be at best.",
    interface=("decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth)",),
    hints=("A number of a key is read once. With how many query heads does it meet, and how many operations is a "
           "multiplication and an addition?",
           "Operations: for each query head, token and number of the head, 2 with the key and 2 with the value. Bytes: "
           "keys and values of all KV heads, once. The attainable rate is the lower one of two roofs.",
           "operations = 4 * num_heads * head_dim * context; moved = 2 * num_kv_heads * head_dim * context * "
           "number_bytes; intensity = operations / moved; attainable = min(peak, intensity * bandwidth); seconds = "
           "operations / attainable."),
    rule="Decode reads every key and value of the context once and makes 4 operations for each number and query head. "
         "Intensity is operations a byte; the card makes at most min(peak, intensity * bandwidth) operations a "
         "second.",
    examples=({"num_heads": 4, "num_kv_heads": 4, "head_dim": 64, "context": 7, "number_bytes": 2, "peak": 1000,
               "bandwidth": 100},
              {"num_heads": 32, "num_kv_heads": 4, "head_dim": 64, "context": 10, "number_bytes": 1, "peak": 400,
               "bandwidth": 100},
              {"num_heads": 8, "num_kv_heads": 2, "head_dim": 4, "context": 1, "number_bytes": 4, "peak": 3000,
               "bandwidth": 250}),
    case=_roofline_case,
    drive=_drive_roofline,
    reference=lambda: from_source(change(ROOFLINE, "min(peak,", "min(float(peak),")),
    misconceptions=(
        _wrong_roofline("keys-only", "you move the keys and forget the values.", "moved = 2 *", "moved ="),
        _wrong_roofline("scores-only", "you count the scores and forget the weighted sum of the values: 2 and 2 "
                        "operations.", "operations = 4 *", "operations = 2 *"),
        _wrong_roofline("no-additions", "a multiplication and an addition are two operations.",
                        "operations = 4 *", "operations = 2 * 1 *", "moved = 2 *", "moved = 1 *"),
        _wrong_roofline("reads-a-head", "each query head reads keys of its own in your count. A group shares its KV "
                        "head: that is what raises the intensity.", "2 * num_kv_heads", "2 * num_heads"),
        _wrong_roofline("no-bytes", "you count numbers, not bytes.", " * number_bytes\n", "\n"),
        _wrong_roofline("no-peak", "a card is never faster than its peak, however high the intensity.",
                        "min(peak, intensity * bandwidth)", "intensity * bandwidth"),
        _wrong_roofline("always-peak", "the peak is reached only if the bytes come fast enough; decode waits for "
                        "memory.", "min(peak, intensity * bandwidth)", "peak"),
        _wrong_roofline("higher-roof", "of two roofs the lower one counts.", "min(peak", "max(peak"),
        _wrong_roofline("upside-down", "intensity is operations a byte, not bytes an operation.",
                        "operations / moved", "moved / operations"),
    ),
)

EXERCISES = (ROOFLINE_EXERCISE, MASK_EXERCISE, BARRIER_EXERCISE, OFFSETS_EXERCISE, COALESCED_EXERCISE)
