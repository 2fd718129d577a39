"""Published figures about KV cache sizes, recomputed: where a source is wrong, the right one is here."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from minipaged.formulas import (
    DTYPE_BITS,
    KVShape,
    canonical_dtype,
    format_bytes,
    kv_bytes_per_token,
    parse_bytes,
    weight_bytes,
)
from minipaged.presets import preset

GIB, MIB, GB = 2**30, 2**20, 10**9


def shape(name: str) -> KVShape:
    return preset(name).shape


# ---------------------------------------------------------------- the source text, Llama-2-13B in fp16


def test_llama_2_13b_for_1000_tokens_is_0_819_gb_or_0_763_gib():
    size = shape("llama-2-13b").sequence_bytes(1000)
    assert size == 819_200_000
    assert format_bytes(size) == "819,200,000 B = 781.250 MiB = 819.200 MB"
    assert round(size / GIB, 3) == 0.763 and round(size / GB, 3) == 0.819


def test_llama_2_13b_for_4096_tokens_and_ten_requests():
    one = shape("llama-2-13b").sequence_bytes(4096)
    assert one == 3_355_443_200
    assert one / GIB == 3.125 and round(one / GB, 3) == 3.355
    assert 10 * one / GIB == 31.25
    assert round(100 * 10 * one / (80 * GIB), 1) == 39.1


def test_weights_and_cache_are_added_in_one_unit():
    weights, cache = weight_bytes(13_000_000_000, "fp16"), 10 * shape("llama-2-13b").sequence_bytes(4096)
    assert weights == 26 * GB and round(weights / GIB, 1) == 24.2
    assert round((weights + cache) / GIB, 1) == 55.5
    assert round((weights + cache) / GB, 1) == 59.6


def test_block_of_16_is_12_5_mib():
    assert shape("llama-2-13b").block_bytes(16) == 13_107_200 == 12.5 * MIB


def test_grouped_heads_count_kv_heads_not_query_heads():
    assert shape("llama-3-8b").bytes_per_token == 131_072
    assert kv_bytes_per_token(32, 32, 128) == 524_288  # what the query's heads would give


def test_opt_13b_is_800_kib_a_token():
    # The PagedAttention paper (Kwon et al. 2023, section 3) says 800 KB: these are KiB.
    assert shape("opt-13b").bytes_per_token == 819_200 == 800 * 1024


# ---------------------------------------------------------------- errors that public calculators made


@pytest.mark.parametrize(
    ("name", "bytes_per_token", "wrong"),
    [
        ("llama-2-7b", 524_288, 4_194_304),  # an extra factor of heads
        ("llama-3-8b", 131_072, 524_288),  # query heads
        ("qwen3-4b", 147_456, 92_160),  # head_dim = hidden / heads
        ("mistral-small-24b", 163_840, 204_800),
        ("gpt-oss-20b", 49_152, 34_560),
        ("deepseek-v3", 70_272, 124_928),  # latent, but with the factor 2 and without the rotary part
        ("r1-distill-qwen-1.5b", 28_672, 172_032),  # hidden size in place of KV heads x head_dim
        ("qwen3-0.6b", 114_688, 57_344),
        ("gpt-oss-120b", 73_728, 36_864),  # sliding layers left out
    ],
)
def test_bytes_per_token(name, bytes_per_token, wrong):
    assert shape(name).bytes_per_token == bytes_per_token != wrong


def test_llama_3_8b_at_131072_tokens_is_16_gib():
    assert shape("llama-3.1-8b").sequence_bytes(131_072) == 16 * GIB


def test_kv_groups_is_not_the_number_of_kv_heads():
    # 32 query heads; a setting of 8 may mean 8 KV heads or groups of 8 (then 4 KV heads): half the size
    assert kv_bytes_per_token(1, 8, 128) == 2 * kv_bytes_per_token(1, 32 // 8, 128) == 4096


def test_latent_attention_of_65536_tokens_in_4_bit():
    mla = replace(shape("deepseek-v3"), kv_dtype="int4")
    assert mla.sequence_bytes(65_536) == 1098 * MIB
    assert mla.layer_bytes_per_token * 65_536 == 18 * MIB


def test_a_runtime_that_expands_latent_attention_needs_71_times_more():
    mla = shape("deepseek-v3")
    assert mla.layer_bytes_per_token == (512 + 64) * 2
    expanded = mla.expanded()
    assert expanded.layer_bytes_per_token == 128 * ((128 + 64) + 128) * 2
    assert (
        expanded.bytes_per_token == 4_997_120 and round(expanded.bytes_per_token / mla.bytes_per_token) == 71
    )


def test_qwen3_0_6b_at_40960_tokens_is_4_375_gib():
    assert shape("qwen3-0.6b").sequence_bytes(40_960) == 4.375 * GIB


@pytest.mark.parametrize(
    ("tokens", "gib", "gb"), [(4096, 1.25, 1.34), (32_768, 10.0, 10.74), (131_072, 40.0, 42.95)]
)
def test_llama_3_70b_table(tokens, gib, gb):
    size = shape("llama-3-70b").sequence_bytes(tokens)
    assert size / GIB == gib and round(size / GB, 2) == gb


def test_one_layer_of_a_7b_and_a_70b_with_64_kv_heads():
    assert shape("llama-2-7b").layer_bytes_per_token == 16_384
    assert round(shape("llama-2-70b").sequence_bytes(32_768) / GB, 2) == 10.74
    multi_head = replace(shape("llama-2-70b"), num_kv_heads=64)
    assert multi_head.sequence_bytes(32_768) == 80 * GIB


def test_sliding_layers_of_gpt_oss_120b():
    oss = shape("gpt-oss-120b")
    assert oss.sequence_bytes(1) == 73_728
    assert round(oss.sequence_bytes(131_072) / GIB, 3) == 4.504
    assert oss.all_full().sequence_bytes(131_072) == 9 * GIB


@pytest.mark.parametrize("tokens", [128, 1024, 4096, 131_072])
@pytest.mark.parametrize("max_model_len", [None, 131_072])
def test_25_of_30_layers_slide(tokens, max_model_len):
    mixed = KVShape(30, 8, 128, num_window_layers=25, window=1024, max_model_len=max_model_len)
    a_layer = 2 * 8 * 128 * 2
    assert mixed.sequence_bytes(tokens) == a_layer * (5 * tokens + 25 * min(tokens, 1024))


def test_a_ring_is_never_longer_than_the_model_allows():
    ring = KVShape(1, 1, 1, num_window_layers=1, window=1024, max_model_len=512)
    assert ring.sequence_bytes(512) == 512 * ring.layer_bytes_per_token
    assert ring.sequence_bytes(2048) == 512 * ring.layer_bytes_per_token


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("llama-2-13b", "multi-head"),
        ("llama-3-8b", "grouped-query"),
        ("falcon-7b", "multi-query"),
        ("deepseek-v3", "latent"),
    ],
)
def test_the_kind_of_attention_is_named(name, kind):
    assert shape(name).attention_kind == kind


# ---------------------------------------------------------------- real tensors

TORCH_TYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp8": torch.float8_e4m3fn,
    "int8": torch.int8,
}
SHAPES = {
    "multi-head": KVShape(3, 4, 8),
    "grouped": KVShape(2, 2, 16, num_query_heads=8),
    "multi-query, odd head": KVShape(5, 1, 7, num_query_heads=71),
    "other value size": KVShape(2, 4, 24, v_head_dim=16),
    "latent": KVShape(3, 4, 24, v_head_dim=16, latent_dim=40),
}


def layer_tensor_shapes(kv: KVShape, num_blocks: int, block_size: int) -> list[tuple[int, ...]]:
    """Of K and V of one layer, or of its single latent."""
    if kv.latent_dim:
        return [(num_blocks, block_size, kv.latent_dim)]
    heads = (num_blocks, block_size, kv.num_kv_heads)
    return [(*heads, kv.head_dim), (*heads, kv.v_head_dim or kv.head_dim)]


@pytest.mark.parametrize("dtype", TORCH_TYPES)
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(("num_blocks", "block_size"), [(1, 1), (5, 16), (3, 4)])
def test_nbytes_of_real_tensors(name, dtype, num_blocks, block_size):
    kv = replace(SHAPES[name], kv_dtype=dtype)
    real = sum(
        torch.empty(tensor_shape, dtype=TORCH_TYPES[dtype]).nbytes
        for _ in range(kv.num_layers)
        for tensor_shape in layer_tensor_shapes(kv, num_blocks, block_size)
    )
    assert real == num_blocks * kv.block_bytes(block_size)


def test_nbytes_of_one_real_block_of_llama_2_13b():
    block = torch.empty(40, 2, 16, 40, 128, dtype=torch.float16)
    assert block.nbytes == shape("llama-2-13b").block_bytes(16)


def test_scales_are_stored_beside_each_vector():
    plain = KVShape(2, 4, 64, kv_dtype="fp8")
    scaled = replace(plain, scale_bytes=4)
    values, scales = torch.empty(2, 2, 4, 64, dtype=torch.int8), torch.empty(2, 2, 4, dtype=torch.float32)
    assert plain.bytes_per_token == values.nbytes
    assert scaled.bytes_per_token == values.nbytes + scales.nbytes
    latent = KVShape(1, 4, 24, latent_dim=40, kv_dtype="fp8", scale_bytes=4)
    assert latent.bytes_per_token == 40 + 4  # one vector, one scale


def test_int4_rounds_each_vector_up_to_whole_bytes():
    assert KVShape(1, 3, 7, kv_dtype="int4").bytes_per_token == 2 * 3 * 4


# ---------------------------------------------------------------- tensor parallel


@pytest.mark.parametrize(("ranks", "kv_heads"), [(1, 8), (2, 4), (8, 1), (16, 1), (64, 1)])
def test_kv_heads_are_divided_then_replicated(ranks, kv_heads):
    assert shape("llama-3-70b").per_rank(ranks).num_kv_heads == kv_heads


def test_multi_query_and_latent_are_replicated_whole():
    mqa = KVShape(32, 1, 64, num_query_heads=64)
    assert mqa.per_rank(8).bytes_per_token == mqa.bytes_per_token
    mla = shape("deepseek-v3")
    assert mla.per_rank(8).bytes_per_token == mla.bytes_per_token
    assert mla.per_rank(8).expanded().bytes_per_token * 8 == mla.expanded().bytes_per_token


def test_uneven_splits_are_refused():
    with pytest.raises(ValueError, match="28 query heads cannot be divided evenly over 8 ranks"):
        shape("qwen2.5-7b").per_rank(8)
    with pytest.raises(ValueError, match="6 KV heads can be neither divided nor replicated"):
        KVShape(1, 6, 64).per_rank(4)


@given(st.integers(0, 6), st.integers(0, 6))
def test_ranks_together_never_hold_less_than_the_model(log_heads, log_ranks):
    whole = KVShape(4, 2**log_heads, 8)
    rank = whole.per_rank(2**log_ranks)
    held = rank.bytes_per_token * 2**log_ranks
    assert held >= whole.bytes_per_token
    assert (held == whole.bytes_per_token) == (log_ranks <= log_heads)


# ---------------------------------------------------------------- laws

shapes = st.builds(
    KVShape,
    num_layers=st.integers(3, 9),
    num_kv_heads=st.integers(1, 9),
    head_dim=st.integers(1, 130),
    kv_dtype=st.sampled_from(sorted(DTYPE_BITS)),
    num_window_layers=st.integers(0, 3),
    window=st.integers(1, 50),
    scale_bytes=st.sampled_from([0, 2, 4]),
)


@given(shapes, st.integers(0, 200))
def test_a_longer_sequence_never_takes_less_and_a_window_never_more(kv, tokens):
    assert kv.sequence_bytes(tokens) <= kv.sequence_bytes(tokens + 1)
    assert kv.sequence_bytes(tokens) <= kv.all_full().sequence_bytes(tokens) == tokens * kv.bytes_per_token
    grown = kv.sequence_bytes(tokens + 1) - kv.sequence_bytes(tokens)
    assert grown in (kv.bytes_per_token, (kv.num_layers - kv.num_window_layers) * kv.layer_bytes_per_token)


@given(shapes, st.integers(0, 200), st.integers(1, 40))
def test_blocks_round_up_by_less_than_one_block(kv, tokens, block_size):
    exact, blocks = kv.sequence_bytes(tokens), kv.sequence_bytes(tokens, block_size=block_size)
    assert exact <= blocks < exact + kv.block_bytes(block_size)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_layers": 0}, "num_layers"),
        ({"num_kv_heads": True}, "num_kv_heads"),
        ({"head_dim": 64.0}, "head_dim"),
        ({"kv_dtype": "fp17"}, "fp17"),
        ({"num_window_layers": 3, "window": 8}, "more than num_layers"),
        ({"num_window_layers": 1}, "no window"),
        ({"window": 0}, "window"),
        ({"num_query_heads": 7}, "7 query heads"),
    ],
)
def test_impossible_shapes_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        KVShape(**{"num_layers": 2, "num_kv_heads": 4, "head_dim": 8, **wrong})


# ---------------------------------------------------------------- units


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GiB", 80 * GIB),
        ("80GB", 80 * GB),
        ("80 gib", 80 * GIB),
        ("1.5MiB", 1_572_864),
        ("12,000 kB", 12_000_000),
        ("0.1GB", 100_000_000),
        ("123", 123),
        ("7B", 7),
        ("2TiB", 2**41),
    ],
)
def test_sizes_are_read_exactly(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["80G", "2k", "", "B", "-1GB", "1e9", "ten GB", "80 Gibi", "1.GB", "9" * 32])
def test_ambiguous_or_broken_sizes_are_refused(text):
    with pytest.raises(ValueError):
        parse_bytes(text)


@given(st.integers(0, 10**15))
def test_printed_sizes_start_with_the_exact_number(size):
    assert parse_bytes(format_bytes(size).split("=")[0]) == size


def test_units_never_mix():
    assert format_bytes(3_355_443_200) == "3,355,443,200 B = 3.125 GiB = 3.355 GB"
    assert format_bytes(819_200) == "819,200 B = 800.000 KiB = 819.200 kB"
    assert format_bytes(999) == "999 B"
    assert format_bytes(1000) == "1,000 B = 0.977 KiB = 1.000 kB"


@pytest.mark.parametrize(
    ("name", "short"), [("torch.bfloat16", "bf16"), ("float8_e4m3fn", "fp8"), ("half", "fp16")]
)
def test_element_types_have_one_short_name(name, short):
    assert canonical_dtype(name) == short
