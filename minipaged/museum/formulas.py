"""Bugs of formulas: the size of the cache counted wrong (chapters 01 and 15)."""
from __future__ import annotations

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
QWEN3_4B = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "num_hidden_layers": 36,
            "hidden_size": 2560, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
            "torch_dtype": "bfloat16"}


@change(KVShape, "layer_bytes_per_token")
def with_the_query_heads(right, self):
    return right(replace(self, num_kv_heads=self.num_query_heads or self.num_kv_heads))


def llama_3_8b() -> Run:
    run = Run()
    run.expect("bytes of one token of Llama-3-8B", LLAMA_3_8B.bytes_per_token, 131_072)
    return run


@change(hf_config, "kv_shape")
def hidden_size_over_heads(right, config):
    return right({**config, "head_dim": None})


def qwen3_4b() -> Run:
    run = Run()
    run.expect("bytes of one token of Qwen3-4B", KVShape.from_config(QWEN3_4B).bytes_per_token, 147_456)
    return run


@change(KVShape, "layer_bytes_per_token")
def twice_the_latent(right, self):
    return 2 * 512 * 2 if self.latent_dim else right(self)


def deepseek_v3() -> Run:
    run = Run()
    run.expect("bytes of one token of DeepSeek-V3", DEEPSEEK_V3.bytes_per_token, 70_272)
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
    run.expect("bytes of 1 token of gpt-oss-120b", GPT_OSS_120B.sequence_bytes(1), 73_728)
    run.expect("bytes of 131,072 tokens", GPT_OSS_120B.sequence_bytes(131_072), 4_836_556_800)
    return run


@change(formulas, "expected_tail_waste")
def less_than_five_percent(right, block_size):
    return block_size / 20


def mean_empty_slots() -> Run:
    run = Run()
    run.expect("empty slots of a last block of 16, on average", float(formulas.expected_tail_waste(16)), 7.5)
    return run


@change(formulas, "format_bytes")
def divides_by_1024_and_writes_gb(right, num_bytes, *, exact=True):
    return f"{num_bytes:,} B = {num_bytes / 1024**3:.3f} GB"


def two_units() -> Run:
    run = Run()
    cache = 10 * KVShape(40, 40, 128).sequence_bytes(4096)
    run.expect("ten requests of 4,096 tokens of Llama-2-13B", formulas.format_bytes(cache),
               "33,554,432,000 B = 31.250 GiB = 33.554 GB")
    return run


PIECES = (
    Piece("query-heads-counted", "The cache is counted with the heads of the query",
          "KolosalAI/model-memory-calculator#2", CHAPTER,
          "A model seems to need four times the memory that it takes.",
          "Only heads that keep K and V count: the KV heads. Queries are not kept.",
          (with_the_query_heads,), llama_3_8b, "numbers",
          SIZES + "test_grouped_heads_count_kv_heads_not_query_heads"),
    Piece("head-dim-guessed", "The size of a head is taken as hidden size / heads", "LMCache/LMCache#688", CHAPTER,
          "For most models the number is right. For Qwen3-4B it is a third too small, and the pool is planned too "
          "large.",
          "`head_dim` is read from the config; hidden size / heads is only what to do where it is missing.",
          (hidden_size_over_heads,), qwen3_4b, "numbers",
          "tests/formulas/test_hf_config.py::test_head_dim_is_read_and_otherwise_derived"),
    Piece("latent-counted-twice", "A latent is counted for K and for V", "LMCache/LMCache#694", CHAPTER,
          "A model with latent attention seems to need almost twice the memory.",
          "One latent of 512 and 64 rotary elements serves K and V: no factor 2, and the 64 count.",
          (twice_the_latent,), deepseek_v3, "numbers", SIZES + "test_bytes_per_token", is_wrong_fix=True),
    Piece("window-layers-keep-all", "Layers with a window are charged for the whole context", "ollama/ollama#16958",
          CHAPTER,
          "A long context seems to need twice the memory; the model is loaded with a shorter one than it could.",
          "A layer with a window of W tokens keeps min(S, W).",
          (every_layer_keeps_all,), gpt_oss_120b, "numbers", SIZES + "test_25_of_30_layers_slide"),
    Piece("window-layers-left-out", "Layers with a window are left out", "alvarobartt/hf-mem#60", CHAPTER,
          "A short text seems to need half of what it takes.",
          "Every layer keeps at least the tokens of its window.",
          (sliding_layers_left_out,), gpt_oss_120b, "numbers", SIZES + "test_sliding_layers_of_gpt_oss_120b"),
    Piece("tail-waste-by-feeling", "The last block is said to be 5 percent empty",
          "source text, section 5: fragmentation < 5%", "02_waste",
          "The waste of a block size is guessed, and larger blocks look better than they are.",
          "All remainders are equally likely: (block_size - 1) / 2 slots of the last block are empty on average.",
          (less_than_five_percent,), mean_empty_slots, "numbers",
          "tests/formulas/test_blocks_and_waste.py::test_mean_tail_waste_is_half_a_block_less_half_a_slot"),
    Piece("gib-written-gb", "Divided by 1024 three times and called GB", "source text, section 1: 57.3 GB", CHAPTER,
          "The cache seems 7 percent smaller than it is, and is added to weights in another unit.",
          "GiB is 1024^3 bytes, GB is 1000^3. The unit is always written, and units are not mixed.",
          (divides_by_1024_and_writes_gb,), two_units, "numbers",
          SIZES + "test_units_never_mix"),
)
