"""Seeded sampling: what a request says depends on its seed, not on its company, the batch or preemption."""
from __future__ import annotations

import pytest

from minipaged import LLM, SamplingParams

LENGTH = 12


def params(index: int) -> SamplingParams:
    """Mixed neighbours: greedy, seeded at several temperatures, unseeded."""
    return SamplingParams(temperature=(0.0, 0.7, 1.0, 1.5)[index % 4], seed=None if index % 8 == 7 else 100 + index,
                          max_tokens=LENGTH)


@pytest.fixture(scope="module")
def alone(oracle):
    """The tokens of each request served by itself, with plenty of memory."""
    reference = oracle("Llama")
    llm = LLM(reference.folder, dtype="float64", enable_prefix_caching=False)
    return {index: llm.generate([prompt], params(index))[0].outputs[0].token_ids
            for index, prompt in enumerate(reference.prompts) if params(index).seed is not None}


@pytest.mark.parametrize("order", ["forward", "backward"])
@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("budget", [5, 64])
def test_equal_to_the_request_alone(oracle, alone, order, mode, budget):
    prompts = oracle("Llama").prompts
    indices = list(range(len(prompts)))[::1 if order == "forward" else -1]
    llm = LLM(oracle("Llama").folder, dtype="float64", block_size=4, num_blocks=18, num_cpu_blocks=12,
              preemption_mode=mode, max_num_batched_tokens=budget, check_invariants=True)
    outputs = llm.generate([prompts[index] for index in indices], [params(index) for index in indices])
    assert sum(output.metrics.num_preemptions for output in outputs) > 0
    found = {index: output.outputs[0].token_ids for index, output in zip(indices, outputs)}
    assert {index: found[index] for index in alone} == alone


def test_seeds_and_temperatures_differ(alone):
    sampled = [tuple(tokens) for index, tokens in alone.items() if index % 4]
    assert len(set(sampled)) == len(sampled)
