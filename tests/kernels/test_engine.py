"""The engine with our kernels gives the tokens of the reference backend, on the bundled model."""

from __future__ import annotations

import pytest

from minipaged import LLM, SamplingParams

PROMPTS = ["Once upon a time", "The little dog", "One day, a girl named Lily went to the park and"]


def tokens(backend):
    llm = LLM(
        model="tiny",
        block_size=4,
        max_num_batched_tokens=16,  # prompts come in chunks
        attention_backend=backend,
        check_invariants=True,
    )
    outputs = llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=6))
    return [output.outputs[0].token_ids for output in outputs]


@pytest.mark.parametrize("backend", ["triton", "cuda"])
def test_tokens_on_the_bundled_model(request, backend):
    request.getfixturevalue("cxx" if backend == "cuda" else "triton_kernels")
    assert tokens(backend) == tokens("reference")
