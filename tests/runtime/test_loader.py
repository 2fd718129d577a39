"""Model folders: what must load, and what must be refused by name (situations D3, D7, D8, D9, D12)."""
from __future__ import annotations

import json
import logging
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from minipaged import LLM, SamplingParams
from minipaged.errors import ModelFormatError
from minipaged.runtime.config import ModelConfig
from minipaged.runtime.loader import load_model

GREEDY = SamplingParams(temperature=0, max_tokens=6)
PROMPT = [3, 1, 4, 1, 5]


def tokens(folder: Path) -> list[int]:
    return LLM(folder, dtype="float64").generate([PROMPT], GREEDY)[0].outputs[0].token_ids


def edit_config(folder: Path, **changes) -> None:
    path = folder / "config.json"
    config = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value != "gone"}), encoding="utf-8")


def edit_weights(folder: Path, change) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")


def shard(folder: Path) -> dict[str, str]:
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    files = {name: f"model-0000{1 + index % 3}-of-00003.safetensors" for index, name in enumerate(weights)}
    for file in set(files.values()):
        save_file({name: weights[name] for name in weights if files[name] == file}, folder / file)
    write_index(folder, files)
    return files


def write_index(folder: Path, files: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}), encoding="utf-8")


def test_shards_are_the_same_model(make_model):
    folder = make_model()
    expected = tokens(folder)
    shard(folder)
    assert tokens(folder) == expected


CONFIG_FAULTS = {
    "unknown architecture": (dict(architectures=["GPT2LMHeadModel"]), "GPT2LMHeadModel.*LlamaForCausalLM"),
    "architectures is no list": (dict(architectures=5), "architecture is 5"),
    "unknown type, no architecture": (dict(architectures="gone", model_type="opt"), "opt"),
    "missing size": (dict(hidden_size="gone"), "hidden_size"),
    "text for a number": (dict(num_hidden_layers="two"), "num_hidden_layers.*'two'"),
    "true for a number": (dict(vocab_size=True), "vocab_size"),
    "zero layers": (dict(num_hidden_layers=0), "num_hidden_layers"),
    "heads not a multiple": (dict(num_key_value_heads=3), "multiple"),
    "hidden not a multiple": (dict(hidden_size=33), "head_dim"),
    "odd head": (dict(head_dim=7), "head_dim.*7"),
    "another activation": (dict(hidden_act="gelu"), "hidden_act.*gelu"),
    "text for a flag": (dict(attention_bias="yes"), "attention_bias"),
    "negative epsilon": (dict(rms_norm_eps=-1), "rms_norm_eps"),
    "rope of no kind": (dict(rope_scaling={"type": "spiral", "factor": 2.0}), "rope type is 'spiral'"),
    "rope without factor": (dict(rope_scaling={"rope_type": "llama3"}), "rope parameter 'factor'"),
    "rope factor past a float": (dict(rope_scaling={"rope_type": "yarn", "factor": 10 ** 400}), "parameter 'factor'"),
    "rope factor without end": (dict(rope_scaling={"rope_type": "yarn", "factor": float("inf")}), "factor.*inf"),
    "beta is text": (dict(rope_scaling={"rope_type": "yarn", "factor": 2.0, "beta_fast": "x"}), "beta_fast.*'x'"),
    "theta too small": (dict(rope_theta=1, rope_scaling={"rope_type": "yarn", "factor": 2.0}), "rope_theta.*1"),
    "rope is a list": (dict(rope_scaling=[1]), "rope parameters"),
    "partial rope": (dict(partial_rotary_factor=0.5), "partial_rotary_factor"),
    "theta is text": (dict(rope_theta="big"), "rope_theta"),
    "architectures in a list": (dict(architectures=[["x"]]), "architectures.*'x'"),
    "no architecture": (dict(architectures=[], model_type=["llama"]), "architectures.*llama"),
    "a kind that is a list": (dict(architectures=["Qwen2ForCausalLM"], use_sliding_window=True, sliding_window=8,
                                   layer_types=[["x"], {}]), "layer_types"),
    "max_window_layers is text": (dict(architectures=["Qwen2ForCausalLM"], use_sliding_window=True, sliding_window=8,
                                       max_window_layers="x"), "max_window_layers.*'x'"),
    "theta without end": (dict(rope_theta=float("inf")), "rope_theta.*inf"),
    "theta is nan": (dict(rope_theta=float("nan")), "rope_theta.*nan"),
    "theta past a float": (dict(rope_theta=10 ** 400), "rope_theta.*at most 1e30"),
    "epsilon without end": (dict(rms_norm_eps=float("inf")), "rms_norm_eps.*inf"),
    "epsilon past a float": (dict(rms_norm_eps=10 ** 400), "rms_norm_eps"),
    "too many positions": (dict(max_position_embeddings=10 ** 11), "max_position_embeddings.*at most"),
    "too many layers": (dict(num_hidden_layers=10 ** 6), "num_hidden_layers.*100,000"),
    "eos is text": (dict(eos_token_id="end"), "eos_token_id"),
}


@pytest.mark.parametrize("name", CONFIG_FAULTS)
def test_malformed_config(make_model, name):
    changes, message = CONFIG_FAULTS[name]
    folder = make_model()
    edit_config(folder, **changes)
    with pytest.raises(ModelFormatError, match=message):
        load_model(folder)


@pytest.mark.parametrize("content", ["{", "[1, 2]", "", "\ufeff not json"])
@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "model.safetensors.index.json"])
def test_broken_json(make_model, file, content):
    folder = make_model()
    if file.endswith("index.json"):
        shard(folder)
    (folder / file).write_text(content, encoding="utf-8")
    with pytest.raises(ModelFormatError, match=re.escape(file)):
        load_model(folder)


def test_broken_tokenizer(make_model):
    folder = make_model()
    (folder / "tokenizer.json").write_text('{"version": "1.0"}', encoding="utf-8")
    with pytest.raises(ModelFormatError, match="tokenizer.json"):
        LLM(folder)


def test_no_weights_and_no_config(make_model):
    folder = make_model()
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelFormatError, match="neither model.safetensors nor"):
        load_model(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelFormatError, match="config.json"):
        LLM(folder)


def test_missing_tensor(make_model):
    folder = make_model()
    edit_weights(folder, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(ModelFormatError, match="model.layers.1.mlp.up_proj.weight missing"):
        load_model(folder)


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_proj.bias", "model.layers.2.mlp.up_proj.weight",
                                  "score.weight"])
def test_unused_tensor(make_model, name):
    folder = make_model()
    edit_weights(folder, lambda weights: weights.update({name: torch.zeros(32)}))
    with pytest.raises(ModelFormatError, match=name):
        load_model(folder)


def test_stored_rope_frequencies_are_no_fault(make_model):
    folder = make_model()
    edit_weights(folder, lambda weights: weights.update(
        {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)}))
    load_model(folder)


def test_wrong_shape(make_model):
    folder = make_model()
    edit_config(folder, intermediate_size=48)
    with pytest.raises(ModelFormatError, match=r"mlp\.\w+_proj.weight has shape .*40.*asks for .*48"):
        load_model(folder)


def test_integer_weights(make_model):
    folder = make_model()
    edit_weights(folder, lambda weights: weights.update({"model.norm.weight": torch.ones(32, dtype=torch.int32)}))
    with pytest.raises(ModelFormatError, match="model.norm.weight has type"):
        load_model(folder)


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_file(make_model, keep):
    folder = make_model()
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelFormatError, match="model.safetensors can't be read"):
        load_model(folder)


def test_broken_and_missing_shards(make_model):
    folder = make_model()
    files = shard(folder)
    some, other = "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors"
    moved = next(name for name in files if files[name] == other)
    write_index(folder, {**files, moved: some})
    with pytest.raises(ModelFormatError, match=f"{some} has no tensor {moved}"):
        load_model(folder)
    write_index(folder, {**files, moved: "../elsewhere.safetensors"})
    with pytest.raises(ModelFormatError, match="must be a file of this folder"):
        load_model(folder)
    for weight_map in ({}, [], None, {moved: 3}):
        write_index(folder, weight_map)
        with pytest.raises(ModelFormatError, match="index.json"):
            load_model(folder)
    write_index(folder, files)
    (folder / some).write_bytes((folder / some).read_bytes()[:-10])
    with pytest.raises(ModelFormatError, match=some):
        load_model(folder)
    (folder / some).unlink()
    with pytest.raises(ModelFormatError, match=f"shard {some} is missing"):
        load_model(folder)


# ---- D8: tied embeddings ----

@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("stored", [True, False])
def test_d8_tied_embeddings(make_model, caplog, tied, stored):
    folder = make_model(tie_word_embeddings=tied)

    def change(weights):
        weights.pop("lm_head.weight", None)
        if stored:
            weights["lm_head.weight"] = torch.randn(300, 32)

    edit_weights(folder, change)
    if not tied and not stored:
        with pytest.raises(ModelFormatError, match="lm_head.weight missing"):
            load_model(folder)
        return
    with caplog.at_level(logging.WARNING):
        model = load_model(folder)
    assert torch.allclose(model.lm_head(torch.eye(32)), model.embed.T) == tied
    assert ("lm_head.weight" in caplog.text) == (tied and stored)


# ---- sizes and switches ----

def test_d7_head_dim():
    sizes = dict(architectures=["Qwen3ForCausalLM"], hidden_size=64, num_attention_heads=4, num_key_value_heads=2,
                 num_hidden_layers=1, vocab_size=10, intermediate_size=8)
    assert ModelConfig.from_hf(sizes).head_dim == 16
    assert ModelConfig.from_hf({**sizes, "head_dim": 32}).head_dim == 32


def test_d7_head_dim_decides_the_pool(make_model):
    folder = make_model(head_dim=16)
    llm = LLM(folder, num_blocks=3, block_size=4)
    assert llm.engine.pool.key[0].shape == (3, 4, 2, 16)
    assert llm.model.layers[0].o.shape == (32, 64)


@pytest.mark.parametrize(("config", "theta"), [
    ({"rope_theta": 500000.0}, 500000.0), ({"rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}, 5e5),
    ({}, 10000.0), ({"rope_scaling": {"rope_type": "default"}, "rope_theta": 7}, 7.0)])
def test_d3_rope_theta(config, theta):
    base = dict(model_type="llama", hidden_size=8, num_attention_heads=2, num_hidden_layers=1, vocab_size=10,
                intermediate_size=8)
    assert ModelConfig.from_hf({**base, **config}).rope_theta == theta


def test_d9_qwen2_biases(make_model):
    folder = make_model(architectures=["Qwen2ForCausalLM"])
    model = load_model(folder)
    assert model.layers[0].qkv.bias.shape == (64,) and model.layers[0].o.bias is None
    edit_weights(folder, lambda weights: weights.pop("model.layers.1.self_attn.v_proj.bias"))
    with pytest.raises(ModelFormatError, match="model.layers.1.self_attn.v_proj.bias missing"):
        load_model(folder)


@pytest.mark.parametrize(("changes", "sliding"), [
    (dict(max_window_layers=28, use_sliding_window=True), range(28, 36)),
    (dict(max_window_layers=36, use_sliding_window=True), ()),
    (dict(max_window_layers=28, use_sliding_window=False), ()),
    (dict(use_sliding_window=True, layer_types=["sliding_attention"] + ["full_attention"] * 35), (0,)),
])
def test_d12_which_layers_slide(changes, sliding):
    base = dict(architectures=["Qwen2ForCausalLM"], hidden_size=8, num_attention_heads=2, num_hidden_layers=36,
                vocab_size=10, intermediate_size=8, sliding_window=4)
    windows = ModelConfig.from_hf({**base, **changes}).windows
    assert windows == tuple(4 if layer in sliding else None for layer in range(36))


@pytest.mark.parametrize(("config_eos", "generation_eos", "expected"), [
    (2, None, (2,)), ([2, 5], None, (2, 5)), (2, [7, 9], (7, 9)), (None, 4, (4,)), (None, None, ())])
def test_end_of_sequence_lists(make_model, config_eos, generation_eos, expected):
    folder = make_model(eos_token_id=config_eos)
    if generation_eos is not None:
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": generation_eos}), encoding="utf-8")
    llm = LLM(folder)
    assert llm.engine.scheduler.eos_token_ids == set(expected)


@pytest.mark.parametrize(("stored", "asked", "expected"), [
    ("bfloat16", "auto", torch.float32), ("float64", "auto", torch.float64), ("torch.float16", "auto", torch.float32),
    ("float32", "bfloat16", torch.bfloat16)])
def test_dtype(make_model, stored, asked, expected):
    folder = make_model(torch_dtype=stored)
    assert load_model(folder, device="cpu", dtype=asked).dtype == expected


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_models_run(folder, dtype):
    outputs = LLM(folder, dtype=dtype, block_size=4).generate([PROMPT, [9, 8]], GREEDY)
    assert [len(output.outputs[0].token_ids) for output in outputs] == [6, 6]
