"""Bugs of formulas: the size of the cache counted wrong (chapters 01 and 15)."""
from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace

from minipaged import formulas, hf_config
from minipaged.formulas import KVShape
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Run

CHAPTER = "01_kv_cache"
SIZES = "tests/formulas/test_sizes.py::"
LLAMA_3_8B = KVShape(32, 8, 128, "bf16", num_query_heads=32)
GPT_OSS_120B = KVShape(36, 8, 64, "bf16", num_window_layers=18, window=128)
DEEPSEEK_V3 = KVShape(61, 128, 192, "bf16", v_head_dim=128, latent_dim=512 + 64)
UNITS = {"B": 1, "GiB": 1024 ** 3, "GB": 1000 ** 3}
QWEN3_4B = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 36,
            "hidden_size": 2560, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "torch_dtype": "bfloat16"}


def one_by_one(shape: KVShape, tokens: int) -> int:
    """Bytes that a sequence keeps, counted token by token in every layer. bf16 only."""
    kept = 0
    for layer in range(shape.num_layers):
        for position in range(tokens):
            if layer < shape.num_window_layers and position < tokens - shape.window:
                continue  # out of sight of the next token
            for _ in range(1 if shape.latent_dim else shape.num_kv_heads):
                kept += shape.latent_dim or shape.head_dim + (shape.v_head_dim or shape.head_dim)
    return 2 * kept


def any_shapes(seed: int, **also: object) -> Iterator[KVShape]:
    """Some small models; `also` are fields that all of them have."""
    rng = random.Random(seed)
    for _ in range(5):
        heads = rng.randint(1, 4)
        yield replace(KVShape(rng.randint(3, 6), heads, 8 * rng.randint(1, 4), "bf16"),
                      **{"num_query_heads": heads * rng.randint(2, 4), **also})


def recount(run: Run, what: str, shapes: list[KVShape], tokens: int) -> None:
    """Compare the formula with the count, for all shapes at once."""
    run.expect(f"bytes of {what} of {len(shapes)} small models", [shape.sequence_bytes(tokens) for shape in shapes],
               [one_by_one(shape, tokens) for shape in shapes], "recount")


@change(KVShape, "layer_bytes_per_token")
def with_the_query_heads(right, self):
    return right(replace(self, num_kv_heads=self.num_query_heads or self.num_kv_heads))


def llama_3_8b() -> Run:
    run = Run()
    run.note("bytes of one token of Llama-3-8B", LLAMA_3_8B.bytes_per_token)
    recount(run, "one token", list(any_shapes(1)), 1)
    return run


@change(hf_config, "kv_shape")
def hidden_size_over_heads(right, config):
    return right({**config, "head_dim": None})


def qwen3_4b() -> Run:
    run = Run()
    run.note("bytes of one token of Qwen3-4B", KVShape.from_config(QWEN3_4B).bytes_per_token)
    rng = random.Random(2)
    heads = [8 * rng.randint(1, 40) for _ in range(5)]
    got = [KVShape.from_config({**QWEN3_4B, "head_dim": head_dim}).bytes_per_token for head_dim in heads]
    run.expect(f"the same with heads of {heads}", got,
               [one_by_one(KVShape(36, 8, head_dim, "bf16"), 1) for head_dim in heads], "recount")
    return run


@change(KVShape, "layer_bytes_per_token")
def twice_the_latent(right, self):
    return right(self) * 2 * 512 // (512 + 64) if self.latent_dim else right(self)  # the 64 are left out


def deepseek_v3() -> Run:
    run = Run()
    run.note("bytes of one token of DeepSeek-V3", DEEPSEEK_V3.bytes_per_token)
    recount(run, "one token", list(any_shapes(3, v_head_dim=8, latent_dim=40)), 1)
    return run


@change(KVShape, "sequence_bytes")
def every_layer_keeps_all(right, self, *args, **names):
    return right(self.all_full(), *args, **names)


@change(KVShape, "sequence_bytes")
def sliding_layers_left_out(right, self, *args, **names):
    full = self.num_layers - self.num_window_layers
    return right(replace(self, num_layers=full, num_window_layers=0), *args, **names)


def gpt_oss_120b() -> Run:
    run = Run()
    for tokens in (1, 131_072):
        run.note(f"bytes of {tokens:,} token(s) of gpt-oss-120b", GPT_OSS_120B.sequence_bytes(tokens))
    windows = list(any_shapes(4, num_window_layers=2, window=5))
    recount(run, "3 tokens", windows, 3)
    recount(run, "20 tokens, with a window of 5,", windows, 20)
    return run


@change(formulas, "expected_tail_waste")
def less_than_five_percent(right, block_size):
    return block_size / 20


def mean_empty_slots() -> Run:
    run = Run()
    for size in random.Random(5).sample(range(2, 65), 4) + [16]:
        wasted = [-length % size for length in range(1, 10 * size + 1)]  # every remainder, ten times
        run.expect(f"empty slots of a last block of {size}, on average", float(formulas.expected_tail_waste(size)),
                   sum(wasted) / len(wasted), "recount")
    return run


@change(formulas, "format_bytes")
def divides_by_1024_and_writes_gb(right, num_bytes, *, exact=True):
    return f"{num_bytes:,} B = {num_bytes / 1024**3:.3f} GB"


def two_units() -> Run:
    run = Run()
    run.note("ten requests of 4,096 tokens of Llama-2-13B",
             formulas.format_bytes(10 * KVShape(40, 40, 128).sequence_bytes(4096)))
    rng = random.Random(6)
    for num_bytes in [rng.randint(10 ** 9, 10 ** 12) for _ in range(3)]:
        wrong = [f"{number} {unit}" for number, unit in re.findall(r"([\d.,]+) (\w+)", formulas.format_bytes(num_bytes))
                 if float(number.replace(",", "")) != round(num_bytes / UNITS[unit], 3)]
        run.expect(f"what format_bytes({num_bytes}) says and is not as many bytes", wrong, [], "recount")
    return run


PIECES = (
    Piece("query-heads-counted", "The cache is counted with the heads of the query",
          "KolosalAI/model-memory-calculator#2", CHAPTER,
          "A model seems to need four times the memory that it takes.",
          "Only heads that keep K and V count: the KV heads. Queries are not kept.",
          (with_the_query_heads,), llama_3_8b, "recount",
          SIZES + "test_grouped_heads_count_kv_heads_not_query_heads"),
    Piece("head-dim-guessed", "The size of a head is taken as hidden size / heads", "LMCache/LMCache#688", CHAPTER,
          "For most models the number is right. For Qwen3-4B it is a third too small, and the pool is planned too "
          "large.",
          "`head_dim` is read from the config; hidden size / heads is only what to do where it is missing.",
          (hidden_size_over_heads,), qwen3_4b, "recount",
          "tests/formulas/test_hf_config.py::test_head_dim_is_read_and_otherwise_derived"),
    Piece("latent-counted-twice", "A latent is counted for K and for V", "LMCache/LMCache#694", CHAPTER,
          "A model with latent attention seems to need almost twice the memory.",
          "One latent of 512 and 64 rotary elements serves K and V: no factor 2, and the 64 count.",
          (twice_the_latent,), deepseek_v3, "recount", SIZES + "test_bytes_per_token", is_wrong_fix=True),
    Piece("window-layers-keep-all", "Layers with a window are charged for the whole context", "ollama/ollama#16958",
          CHAPTER,
          "A long context seems to need twice the memory; the model is loaded with a shorter one than it could.",
          "A layer with a window of W tokens keeps min(S, W).",
          (every_layer_keeps_all,), gpt_oss_120b, "recount", SIZES + "test_25_of_30_layers_slide"),
    Piece("window-layers-left-out", "Layers with a window are left out", "alvarobartt/hf-mem#60", CHAPTER,
          "A short text seems to need half of what it takes.",
          "Every layer keeps at least the tokens of its window.",
          (sliding_layers_left_out,), gpt_oss_120b, "recount", SIZES + "test_sliding_layers_of_gpt_oss_120b"),
    Piece("tail-waste-by-feeling", "The last block is said to be 5 percent empty",
          "source text, section 5: fragmentation < 5%", "02_waste",
          "The waste of a block size is guessed, and larger blocks look better than they are.",
          "All remainders are equally likely: (block_size - 1) / 2 slots of the last block are empty on average.",
          (less_than_five_percent,), mean_empty_slots, "recount",
          "tests/formulas/test_blocks_and_waste.py::test_mean_tail_waste_is_half_a_block_less_half_a_slot"),
    Piece("gib-written-gb", "Divided by 1024 three times and called GB", "source text, section 1: 57.3 GB", CHAPTER,
          "The cache seems 7 percent smaller than it is, and is added to weights in another unit.",
          "GiB is 1024^3 bytes, GB is 1000^3. The unit is always written, and units are not mixed.",
          (divides_by_1024_and_writes_gb,), two_units, "recount",
          SIZES + "test_units_never_mix"),
)
