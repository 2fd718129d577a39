"""Small random models of every family, saved by `transformers`, and what it says to 32 ragged prompts."""
from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

VOCAB_SIZE, NUM_PROMPTS, MAX_TOKENS = 151, 32, 12


@dataclass
class Oracle:
    """A saved model, prompts, and the greedy tokens that `transformers` gives to them in float64."""

    folder: Path
    model: object
    prompts: list[list[int]]
    expected: list[list[int]]


def ragged_prompts(seed: int = 1) -> list[list[int]]:
    """1 to 44 tokens; half begin alike, two are equal, one is the start of another."""
    rng = random.Random(seed)
    shared = [rng.randrange(VOCAB_SIZE) for _ in range(21)]
    prompts = []
    for index in range(NUM_PROMPTS):
        length = 1 + index * 37 // NUM_PROMPTS
        own = [rng.randrange(VOCAB_SIZE) for _ in range(length)]
        prompts.append(own if index % 2 else (shared[:5 + index // 2] + own)[:44])
    prompts[9], prompts[20] = list(prompts[30]), prompts[30][:17]
    rng.shuffle(prompts)
    return prompts


def _config(family: str) -> tuple[type, object]:
    import transformers

    common = dict(vocab_size=VOCAB_SIZE, hidden_size=48, intermediate_size=72, num_hidden_layers=2,
                  num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                  bos_token_id=None, eos_token_id=None, pad_token_id=None)
    extra = {"Llama": {}, "Mistral": {"sliding_window": 9, "head_dim": 16},
             "Qwen2": {"use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1},
             "Qwen3": {"head_dim": 16, "tie_word_embeddings": True}}[family]
    return getattr(transformers, f"{family}ForCausalLM"), getattr(transformers, f"{family}Config")(**common, **extra)


@pytest.fixture(scope="session")
def oracle(tmp_path_factory):
    """A function: family -> Oracle. Weights are wide enough for each token to depend on all before it."""
    pytest.importorskip("transformers", reason="transformers is the oracle; install the 'test' extra")
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    made: dict[str, Oracle] = {}

    def make(family: str) -> Oracle:
        if family not in made:
            kind, config = _config(family)
            torch.manual_seed(7)
            model = kind(config).double().eval()
            with torch.no_grad():
                for name, weight in model.named_parameters():
                    weight.normal_(1.0 if "norm" in name else 0.0, 0.25)
            folder = tmp_path_factory.mktemp(family)
            model.save_pretrained(folder)
            prompts = ragged_prompts()
            made[family] = Oracle(folder, model, prompts, [greedy(model, prompt, MAX_TOKENS) for prompt in prompts])
        return made[family]

    return make


def greedy(model, prompt: list[int], max_tokens: int) -> list[int]:
    with torch.no_grad():
        return model.generate(torch.tensor([prompt]), max_new_tokens=max_tokens,
                              do_sample=False)[0, len(prompt):].tolist()
