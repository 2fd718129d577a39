"""Reading Hugging Face configs: against the caches that transformers really makes, and broken files."""

from __future__ import annotations

import json

import pytest

from minipaged.errors import ModelFormatError
from minipaged.formulas import KVShape
from minipaged.presets import preset, preset_names

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_size": 64,
    "torch_dtype": "bfloat16",
}


def read(**changes) -> KVShape:
    """The shape of LLAMA with some keys changed; a value of ``...`` removes the key."""
    return KVShape.from_config({k: v for k, v in {**LLAMA, **changes}.items() if v is not ...})


# ---------------------------------------------------------------- against transformers

SMALL = {
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 6,
    "intermediate_size": 32,
    "vocab_size": 50,
    "max_position_embeddings": 256,
}
SLIDING = {**SMALL, "head_dim": 32, "sliding_window": 8}
MODELS = {
    "llama": SMALL,
    "llama with its own head_dim": {**SMALL, "head_dim": 32},
    "mistral": {**SMALL, "sliding_window": 8},
    "qwen2": {**SMALL, "sliding_window": 8, "use_sliding_window": True, "max_window_layers": 4},
    "qwen2 not sliding": {**SMALL, "sliding_window": 8, "use_sliding_window": False},
    "qwen3": {**SMALL, "head_dim": 32},
    "gemma2": {**SLIDING, "query_pre_attn_scalar": 32},
    "gemma3_text": SLIDING,
    "gpt_oss": {**SLIDING, "num_local_experts": 2, "num_experts_per_tok": 1},
    "cohere2": {**SMALL, "sliding_window": 8, "eos_token_id": 1},
    "exaone4": {**SMALL, "sliding_window": 8},
    "phi3": {**SMALL, "sliding_window": 8, "pad_token_id": 0, "eos_token_id": 1},
    "falcon": {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 50},
    "falcon multi-head": {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "vocab_size": 50,
        "multi_query": False,
    },
    "gpt2": {"n_embd": 64, "n_head": 4, "n_layer": 3, "vocab_size": 50, "eos_token_id": 1, "bos_token_id": 1},
    "gpt_bigcode": {
        "n_embd": 64,
        "n_head": 4,
        "n_layer": 3,
        "vocab_size": 50,
        "eos_token_id": 1,
        "bos_token_id": 1,
    },
    "opt": {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "ffn_dim": 32,
        "vocab_size": 50,
        "word_embed_proj_dim": 64,
    },
    "llama4_text": {
        **SMALL,
        "attention_chunk_size": 8,
        "num_local_experts": 1,
        "intermediate_size_mlp": 32,
        "head_dim": 16,
    },
    "deepseek_v3": {
        **SMALL,
        "num_key_value_heads": 4,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 16,
        "v_head_dim": 16,
        "q_lora_rank": None,
        "n_routed_experts": 4,
        "num_experts_per_tok": 1,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 5,
    },
}


@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated")  # older releases know no other name
@pytest.mark.parametrize("name", MODELS)
def test_the_cache_that_transformers_makes(name):
    """Run a tiny model and measure its static cache, whose window layers are rings as ours are."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[name.split()[0]](**MODELS[name])
    with torch.device("cpu"):
        model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    written = config.to_dict()
    unlisted = {key: value for key, value in written.items() if key != "layer_types"}
    for tokens in (5, 20):  # shorter and longer than the window of 8
        cache = transformers.StaticCache(config=config, max_cache_len=tokens)
        with torch.no_grad():
            model(torch.arange(tokens)[None] % 50, past_key_values=cache, use_cache=True)
        real = sum(tensor.nbytes for layer in cache.layers for tensor in (layer.keys, layer.values))
        for content in (written, unlisted):
            assert KVShape.from_config(content, "fp32").sequence_bytes(tokens) == real


def test_a_layer_that_borrows_kv_is_not_counted():
    kinds = ["sliding_attention"] * 4 + ["full_attention"]
    shape = read(num_hidden_layers=10, layer_types=kinds * 2, num_kv_shared_layers=5, sliding_window=8)
    assert (shape.num_layers, shape.num_window_layers, shape.layers_without_kv) == (5, 4, 5)


def test_a_recurrent_layer_is_not_counted():
    shape = read(num_hidden_layers=4, layer_types=["linear_attention"] * 3 + ["full_attention"])
    assert (shape.num_layers, shape.layers_without_kv) == (1, 3)
    assert read(num_hidden_layers=11, full_attention_interval=4).num_layers == 2  # the 4th and the 8th


def test_chunked_layers_of_llama_4_keep_one_chunk():
    scout = {"model_type": "llama4_text", "num_hidden_layers": 11}
    chunked = read(**scout, attention_chunk_size=8)
    assert (chunked.num_window_layers, chunked.window) == (9, 8)  # all but the 4th and the 8th
    assert read(**scout, attention_chunk_size=None).num_window_layers == 0


def test_falcon_40b_keeps_its_grouped_heads():
    shape = read(
        model_type="falcon",
        multi_query=True,
        new_decoder_architecture=True,
        num_kv_heads=2,
        num_key_value_heads=...,
    )
    assert shape.num_kv_heads == 2


# ---------------------------------------------------------------- spellings


def test_head_dim_is_read_and_otherwise_derived():
    # Qwen3-4B: 2560 hidden / 32 heads would be 80
    qwen = read(hidden_size=2560, num_attention_heads=32, num_key_value_heads=8, head_dim=128)
    assert qwen.head_dim == 128
    toy = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    assert read(**toy, head_dim=32).head_dim == 32
    assert read(**toy).head_dim == 16
    assert read(**toy, head_dim=None).head_dim == 16


@pytest.mark.parametrize(
    ("changes", "kv_heads"),
    [
        ({"num_key_value_heads": ...}, 4),
        ({"num_key_value_heads": ..., "multi_query": True}, 1),
        ({"num_key_value_heads": ..., "multi_query_attention": True, "multi_query_group_num": 2}, 2),
        ({"num_key_value_heads": ..., "multi_query_attention": False, "multi_query_group_num": 2}, 4),
        ({"num_key_value_heads": ..., "attn_config": {"kv_n_heads": 2}}, 2),
        ({"model_type": "falcon", "num_kv_heads": 4, "multi_query": True, "num_key_value_heads": ...}, 1),
    ],
)
def test_ways_to_say_the_number_of_kv_heads(changes, kv_heads):
    assert read(**changes).num_kv_heads == kv_heads


@pytest.mark.parametrize(
    ("changes", "window_layers"),
    [
        ({"sliding_window": 8}, 6),
        ({"sliding_window": None}, 0),
        ({"sliding_window": 8, "use_sliding_window": False}, 0),
        ({"sliding_window": 8, "model_type": "qwen2"}, 0),
        ({"sliding_window": 8, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 4}, 2),
        ({"sliding_window": 8, "model_type": "qwen2", "use_sliding_window": True}, 0),
        ({"sliding_window": 8, "sliding_window_pattern": 3}, 4),
        ({"sliding_window": 8, "sliding_window_pattern": "LLG"}, 4),
        ({"sliding_window": 8, "model_type": "gemma2"}, 3),
        ({"sliding_window": 8, "layer_types": ["sliding_attention"] + ["full_attention"] * 5}, 1),
    ],
)
def test_ways_to_say_which_layers_slide(changes, window_layers):
    assert read(num_hidden_layers=6, **changes).num_window_layers == window_layers


def test_a_text_model_inside_a_larger_one():
    nested = {"model_type": "llava", "dtype": "float16", "text_config": {**LLAMA, "torch_dtype": None}}
    assert KVShape.from_config(nested).bytes_per_token == read().bytes_per_token
    assert KVShape.from_config(nested).kv_dtype == "fp16"


def test_a_nested_config_may_rely_on_the_defaults_of_its_class():
    # As published for Gemma-3-4b: heads and head_dim are not in the file
    text = {"model_type": "gemma3_text", "num_hidden_layers": 34, "hidden_size": 2560, "sliding_window": 1024}
    nested = KVShape.from_config({"model_type": "gemma3", "torch_dtype": "bfloat16", "text_config": text})
    assert nested.bytes_per_token == preset("gemma-3-4b").shape.bytes_per_token
    assert nested.num_window_layers == 29


def test_the_nested_defaults_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    for kind in ("llama", "gemma3_text"):
        own = KVShape.from_config({"text_config": {"model_type": kind}}, "fp16")
        theirs = KVShape.from_config(transformers.CONFIG_MAPPING[kind]().to_dict(), "fp16")
        assert own.sequence_bytes(10_000) == theirs.sequence_bytes(10_000)


def test_path_folder_and_mapping_are_the_same(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert KVShape.from_config(tmp_path) == KVShape.from_config(tmp_path / "config.json") == read()
    assert KVShape.from_config(str(tmp_path), kv_dtype="fp8").bytes_per_token == read().bytes_per_token // 2


# ---------------------------------------------------------------- malformed

MALFORMED = [
    ({"num_hidden_layers": ...}, "num_hidden_layers"),
    ({"num_attention_heads": ...}, "num_attention_heads"),
    ({"hidden_size": ...}, "hidden_size"),
    ({"num_hidden_layers": "2"}, "num_hidden_layers"),
    ({"num_hidden_layers": 0}, "num_hidden_layers"),
    ({"num_hidden_layers": 2.0}, "num_hidden_layers"),
    ({"num_attention_heads": True}, "num_attention_heads"),
    ({"num_key_value_heads": -1}, "num_key_value_heads"),
    ({"num_key_value_heads": [2, 2]}, "num_key_value_heads"),
    ({"num_key_value_heads": 3}, "num_key_value_heads"),
    ({"hidden_size": 63}, "hidden_size"),
    ({"head_dim": 0}, "head_dim"),
    ({"torch_dtype": "float99"}, "torch_dtype"),
    ({"sliding_window": 0}, "sliding_window"),
    ({"sliding_window": "4096"}, "sliding_window"),
    ({"layer_types": ["sliding_attention"] * 2}, "sliding_window"),
    ({"layer_types": ["full_attention"]}, "layer_types"),
    ({"layer_types": "full_attention"}, "layer_types"),
    ({"layer_types": ["full_attention", "telepathy"]}, "telepathy"),
    ({"layer_types": ["full_attention", ["sliding_attention"]]}, "layer_types"),
    ({"layer_types": ["mamba", "mamba"]}, "layer_types"),
    ({"sliding_window": 8, "sliding_window_pattern": 0}, "sliding_window_pattern"),
    ({"sliding_window": 8, "sliding_window_pattern": "LXG"}, "sliding_window_pattern"),
    (
        {"sliding_window": 8, "model_type": "qwen2", "use_sliding_window": True, "max_window_layers": -1},
        "max_window_layers",
    ),
    ({"num_kv_shared_layers": 2}, "num_kv_shared_layers"),
    ({"kv_lora_rank": 512}, "qk_rope_head_dim"),
    ({"kv_lora_rank": "512", "qk_rope_head_dim": 64, "qk_nope_head_dim": 8, "v_head_dim": 8}, "kv_lora_rank"),
    ({"text_config": "llama"}, "text_config"),
    ({"is_encoder_decoder": True}, "is_encoder_decoder"),
    ({"global_head_dim": 512}, "global_head_dim"),
    ({"attn_layer_period": 8}, "attn_layer_period"),
    ({"num_hidden_layers": 100_001}, "num_hidden_layers.*100,000"),
    ({"model_type": [], "sliding_window": 4}, "model_type"),
    ({"text_config": {"model_type": [1]}}, "model_type"),
    ({"model_type": "falcon", "multi_query": "yes"}, "multi_query"),
    ({"attn_config": [8]}, "attn_config"),
    ({"layer_types": ["full_attention"] * 50_000}, r"layer_types.*\.\.\."),
]


@pytest.mark.parametrize(("changes", "key"), MALFORMED, ids=[str(c)[:60] for c, _ in MALFORMED])
def test_a_malformed_config_names_the_key(changes, key):
    with pytest.raises(ModelFormatError, match=key):
        read(**changes)


KEYS_READ = [
    *("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "head_dim"),
    *("max_position_embeddings", "sliding_window", "sliding_window_pattern", "attention_chunk_size"),
    *("full_attention_interval", "no_rope_layer_interval", "num_kv_shared_layers", "max_window_layers"),
    *("kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "model_type", "layer_types"),
    *("torch_dtype", "text_config", "attn_config", "is_encoder_decoder", "multi_query", "use_sliding_window"),
    *("new_decoder_architecture", "multi_query_attention"),
]
WRONG = [float("nan"), float("inf"), -1, 0.5, 10**30, 10**5000, "", "x", [], [[]], {}, {"a": []}, True]


@pytest.mark.parametrize("key", KEYS_READ)
@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2", "falcon", "gpt_bigcode", "llama4_text"])
def test_no_value_of_a_key_breaks_the_reader(key, family):
    """Whatever one key holds, in any family, the result is a size or one short error of our own."""
    latent = {"kv_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}
    sliding = {"sliding_window": 4, "attention_chunk_size": 4, "use_sliding_window": True}
    for base in ({}, sliding, latent):
        for value in WRONG:
            try:
                shape = read(**{"model_type": family, **base, key: value})
            except ModelFormatError as error:
                assert len(str(error)) < 300
            else:
                assert shape.sequence_bytes(100) > 0


@pytest.mark.parametrize(
    "content",
    ["", "{", "[1, 2]", '"llama"', "null", b"\xff\xfe{}", "[" * 100_000, '{"head_dim": ' + "9" * 5000 + "}"],
    ids=["empty", "cut", "list", "text", "null", "utf-16", "deep", "5000 digits"],
)
def test_a_file_that_is_not_a_json_object(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    with pytest.raises(ModelFormatError, match="config.json"):
        KVShape.from_config(path)


def test_a_file_far_too_large_for_a_config_is_not_read_whole(tmp_path):
    path = tmp_path / "model.safetensors"
    with path.open("wb") as file:
        file.truncate(16 * 2**20 + 1)  # a hole, which takes no room on most disks
    with pytest.raises(ModelFormatError, match="model.safetensors is larger than 16 MiB"):
        KVShape.from_config(path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="config.json"):
        KVShape.from_config(tmp_path)


# ---------------------------------------------------------------- presets


def test_every_preset_reads_and_has_a_source():
    for name in preset_names():
        known = preset(name)
        assert known.name == name and known.shape.bytes_per_token > 0
        assert known.source.startswith(("https://huggingface.co/", "arXiv:"))


def test_names_as_published_find_their_preset():
    for published, name in [
        ("meta-llama/Llama-2-13b-chat-hf", "llama-2-13b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
    ]:
        assert preset(published).name == name


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(ValueError, match="did you mean llama-2-13b"):
        preset("llama2-13b")
    with pytest.raises(ValueError, match="calc --list"):
        preset("zzz")
