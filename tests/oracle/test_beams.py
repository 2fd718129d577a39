"""Beam search against `transformers`: the same hypotheses in the same order with the same scores."""
from __future__ import annotations

import pytest
import torch

from minipaged import LLM
from minipaged.runtime.engine import BeamSearchParams

WIDTH, MAX_TOKENS = 4, 8


@pytest.mark.parametrize("family", ["Llama", "Mistral", "Qwen3"])
@pytest.mark.parametrize("num_blocks", [200, 20])
def test_beams_equal_transformers(oracle, family, num_blocks):
    reference = oracle(family)
    prompts = reference.prompts[2:12:3]
    llm = LLM(reference.folder, dtype="float64", block_size=4, num_blocks=num_blocks, check_invariants=True)
    llm.engine.pool.fill(float("nan"))
    outputs = llm.beam_search([{"prompt_token_ids": prompt} for prompt in prompts], BeamSearchParams(WIDTH, MAX_TOKENS))
    for prompt, output in zip(prompts, outputs):
        with torch.no_grad():
            expected = reference.model.generate(
                torch.tensor([prompt]), max_new_tokens=MAX_TOKENS, do_sample=False, num_beams=WIDTH,
                num_return_sequences=WIDTH, return_dict_in_generate=True, output_scores=True, length_penalty=1.0)
        assert [one.tokens for one in output.sequences] == expected.sequences.tolist()
        assert [one.cum_logprob / MAX_TOKENS for one in output.sequences] == pytest.approx(
            expected.sequences_scores.tolist(), abs=1e-5)
