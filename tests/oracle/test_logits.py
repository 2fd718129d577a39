"""Logits in float32, by every backend, and the angles of rotary positions, against `transformers`."""
from __future__ import annotations

import copy

import pytest
import torch

from minipaged import LLM, SamplingParams
from minipaged.runtime.rope import rope_frequencies

FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3")


def recorded(llm: LLM) -> dict[tuple[str, int], torch.Tensor]:
    """(request id, number of tokens so far) -> the logits that chose its next token, filled as it runs."""
    seen, run = {}, llm.engine.executor.run

    def watched(plan):
        logits = run(plan)
        sampling = [item for item in plan.scheduled if item.sample]
        seen.update({(item.request_id, item.context_len): row for item, row in zip(sampling, logits)})
        return logits

    llm.engine.executor.run = watched
    return seen


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("backend", ["torch", "reference"])
def test_float32_logits_agree(oracle, family, backend):
    reference = oracle(family)
    prompts = reference.prompts[::4]
    llm = LLM(reference.folder, block_size=4, num_blocks=30, max_num_batched_tokens=24, dtype="float32",
              attention_backend=backend, check_invariants=True)
    llm.engine.pool.fill(float("nan"))
    seen = recorded(llm)
    outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=6))
    model = copy.deepcopy(reference.model).float()
    for output in outputs:
        tokens = output.prompt_token_ids + output.outputs[0].token_ids
        with torch.no_grad():
            expected = model(torch.tensor([tokens])).logits[0]
        for length in range(len(output.prompt_token_ids), len(tokens)):
            torch.testing.assert_close(seen[output.request_id, length], expected[length - 1], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_cache_the_same_tokens_and_more_work(oracle, family):
    reference = oracle(family)
    prompt, count = reference.prompts[3], len(reference.expected[3])
    params = SamplingParams(temperature=0, max_tokens=count)
    projections = {}
    for use_cache in (True, False):
        llm = LLM(reference.folder, dtype="float64", use_cache=use_cache, check_invariants=True)
        assert llm.generate([prompt], params)[0].outputs[0].token_ids == reference.expected[3]
        projections[use_cache] = llm.engine.num_kv_projections
    last = len(prompt) + count - 1  # the newest token is never computed
    assert projections[True] == last
    assert projections[False] == sum(range(len(prompt), last + 1))


ROPES = [{"rope_type": "default"},
         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192},
         {"rope_type": "yarn", "factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0,
          "original_max_position_embeddings": 4096},
         {"rope_type": "yarn", "factor": 64.0, "attention_factor": 1.0, "original_max_position_embeddings": 4096},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 16.0,
          "truncate": False},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "mscale": 0.7}]


@pytest.mark.parametrize("head_dim", [8, 64, 128])
@pytest.mark.parametrize("scaling", ROPES, ids=lambda scaling: "-".join(map(str, scaling.values())))
def test_rope_frequencies(scaling, head_dim):
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = transformers.LlamaConfig(hidden_size=head_dim, num_attention_heads=1, head_dim=head_dim,
                                      max_position_embeddings=131072,
                                      rope_parameters={"rope_theta": 5e5, **scaling})
    expected = LlamaRotaryEmbedding(config)
    frequencies, factor = rope_frequencies(head_dim, 5e5, scaling)
    torch.testing.assert_close(frequencies, expected.inv_freq, rtol=1e-6, atol=0)
    assert factor == pytest.approx(expected.attention_scaling)
