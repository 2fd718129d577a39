"""Small random model folders, made without `transformers`."""
from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from minipaged import LLM, SamplingParams
from minipaged.runtime.config import ModelConfig
from minipaged.runtime.model import tensor_shapes

BASE = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 32,
        "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "torch_dtype": "float32"}


def make_weights(config: dict) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return {name: (1.0 if "norm" in name else 0.0) + 0.3 * torch.randn(shape, generator=generator)
            for name, shape in tensor_shapes(ModelConfig.from_hf(config)).items()}


@pytest.fixture(scope="session")
def make_model(tmp_path_factory):
    """A function: changes of the config -> a new model folder with byte-level tokenizer (ids 0 to 299)."""
    torch.set_num_threads(1)
    text = byte_tokenizer().to_str()

    def make(*, tokenizer: bool = True, **changes) -> Path:
        folder = tmp_path_factory.mktemp("model")
        config = {**BASE, **changes}
        (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        save_file(make_weights(config), folder / "model.safetensors")
        if tokenizer:
            (folder / "tokenizer.json").write_text(text, encoding="utf-8")
        return folder

    return make


def byte_tokenizer():
    """Byte-level BPE: one token a byte, and some merged ones, so that characters are cut everywhere."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(["the cat sat on the mat", "one and one and one", "块表 块表 🙂🙂 née née"], trainer)
    return tokenizer


@pytest.fixture(scope="session")
def folder(make_model) -> Path:
    """The model of most tests."""
    return make_model()


@pytest.fixture(scope="session")
def solo(folder):
    """A function: (prompt ids, params) -> the tokens of that request alone with plenty of memory."""
    llm = LLM(folder, dtype="float64", enable_prefix_caching=False)

    def run(prompt: list[int], params: SamplingParams) -> list[int]:
        return llm.generate([prompt], params)[0].outputs[0].token_ids

    return run
