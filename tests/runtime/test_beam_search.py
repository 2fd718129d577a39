"""Beams: the hypotheses of an exhaustive search by hand, under every kind of memory pressure."""
from __future__ import annotations

import pytest
import torch

from minipaged import LLM, SamplingParams
from minipaged.errors import RequestError
from minipaged.runtime.attention import DenseAttention
from minipaged.runtime.engine import BeamSearchParams
from minipaged.runtime.inputs import StepInputs

PROMPT = [1, 2, 3, 4, 5, 6]


def logprobs_after(llm: LLM, tokens: list[int]) -> list[float]:
    """Log-probabilities of the next token, from a forward pass without any cache."""
    config = llm.model.config
    attention = DenseAttention(config.head_dim ** -0.5, config.windows)
    inputs = StepInputs.from_sequences([tokens])
    attention.begin(inputs)
    return torch.log_softmax(llm.model.forward(inputs, attention)[0].double(), -1).tolist()


def by_hand(llm: LLM, prompt: list[int], width: int, max_tokens: int, eos=frozenset(), penalty=1.0, include=False):
    """vLLM's rules in a few lines: [(tokens, summed log-probability)], best first."""
    beams, done = [(prompt, 0.0)], []
    for _ in range(max_tokens):
        candidates = []
        for tokens, total in beams:
            line = logprobs_after(llm, tokens)
            for token in sorted(range(len(line)), key=lambda token: -line[token])[:2 * width]:
                if token in eos:
                    done.append((tokens + [token] * include, total + line[token]))
                else:
                    candidates.append((tokens + [token], total + line[token]))
        beams = sorted(candidates, key=lambda one: -one[1])[:width]
    done += beams
    return sorted(done, key=lambda one: -one[1] / (len(one[0]) - (one[0][-1] in eos)) ** penalty)[:width]


SETTINGS = {
    "plenty": {}, "chunks": dict(max_num_batched_tokens=3), "few seats": dict(max_num_seqs=2),
    "one seat": dict(max_num_seqs=1), "preempting": dict(num_blocks=6),
    "swapping": dict(num_blocks=6, preemption_mode="swap", num_cpu_blocks=9),
    "one at a time": dict(num_blocks=3), "no prefix cache": dict(enable_prefix_caching=False, num_blocks=5),
    "round-robin": dict(scheduling_policy="round_robin", quantum=1, max_num_seqs=2),
    "no KV cache": dict(use_cache=False),
}


@pytest.fixture(scope="module")
def expected(folder):
    return by_hand(LLM(folder, dtype="float64"), PROMPT, 4, 6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_texts_and_scores(folder, expected, setting):
    llm = LLM(folder, block_size=4, dtype="float64", check_invariants=True, **SETTINGS[setting])
    if llm.engine.pool is not None:
        llm.engine.pool.fill(float("nan"))
    found = llm.beam_search([PROMPT], BeamSearchParams(beam_width=4, max_tokens=6))[0].sequences
    assert [one.tokens for one in found] == [tokens for tokens, _ in expected]
    assert [one.cum_logprob for one in found] == pytest.approx([total for _, total in expected])
    assert [one.text for one in found] == [llm.tokenizer.decode(tokens) for tokens, _ in expected]
    assert {one.finish_reason for one in found} == {"length"}
    engine = llm.engine
    assert engine.kv.free_count == engine.kv.num_blocks
    assert not (engine.has_unfinished or engine.scheduler.requests or engine.core.owners)


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.5])
@pytest.mark.parametrize("include", [False, True])
def test_hypotheses_that_end(make_model, folder, penalty, include):
    best = by_hand(LLM(folder, dtype="float64"), PROMPT, 3, 4)
    eos = best[0][0][-2]  # the best one would have ended early
    llm = LLM(make_model(eos_token_id=eos), dtype="float64", block_size=4, check_invariants=True)
    params = BeamSearchParams(3, 4, length_penalty=penalty, include_stop_str_in_output=include)
    found = llm.beam_search(PROMPT, params)[0].sequences
    expected = by_hand(llm, PROMPT, 3, 4, {eos}, penalty, include)
    assert [(one.tokens, pytest.approx(one.cum_logprob)) for one in found] == expected
    ignoring = llm.beam_search(PROMPT, BeamSearchParams(3, 4, ignore_eos=True))[0].sequences
    assert [one.tokens for one in ignoring] == [tokens for tokens, _ in best]


def test_forks_share_and_copy_on_write(folder):
    llm = LLM(folder, block_size=4, dtype="float64", check_invariants=True)
    llm.beam_search([PROMPT], BeamSearchParams(beam_width=4, max_tokens=6))
    counts = llm.engine.events.counts()
    assert counts["fork"] >= 3 and counts["copy"] >= 3
    assert counts["add"] == 1  # nothing was computed twice
    computed = sum(count for event in llm.engine.events.select("step") for _, count in event.scheduled.values())
    assert computed == 6 + 4 * 5
    # Contiguous copies would hold 4 x 11 tokens = 4 x 3 blocks; the shared first block counts once.
    assert len(llm.engine.events.select("allocate")) > 0
    held = [llm.engine.kv.num_blocks - event.free_blocks for event in llm.engine.events.select("step")]
    assert max(held) <= 4 * 2 + 1


def test_several_prompts_and_other_requests_at_the_same_time(folder, expected, solo):
    llm = LLM(folder, block_size=4, dtype="float64", num_blocks=16, check_invariants=True)
    greedy = SamplingParams(temperature=0, max_tokens=12)
    stream = llm.engine.stream([9, 8], greedy)
    next(stream)
    outputs = llm.beam_search([PROMPT, [7, 7], PROMPT], BeamSearchParams(4, 6))
    for index in (0, 2):
        assert [one.tokens for one in outputs[index].sequences] == [tokens for tokens, _ in expected]
    assert [one.tokens for one in outputs[1].sequences] == [tokens for tokens, _ in by_hand(llm, [7, 7], 4, 6)]
    assert [*stream][-1].outputs[0].token_ids == solo([9, 8], greedy)


def test_one_beam_is_greedy(folder, solo):
    found = LLM(folder, dtype="float64").beam_search([PROMPT], BeamSearchParams(1, 8))[0].sequences
    assert [one.tokens for one in found] == [PROMPT + solo(PROMPT, SamplingParams(temperature=0, max_tokens=8))]


def test_the_ends_of_model_and_pool(folder):
    by_length = LLM(folder, max_model_len=9).beam_search([PROMPT], BeamSearchParams(2, 50))[0].sequences
    assert {(len(one.tokens), one.finish_reason) for one in by_length} == {(9, "length")}
    by_pool = LLM(folder, block_size=4, num_blocks=2).beam_search([PROMPT], BeamSearchParams(2, 50))[0].sequences
    assert {(len(one.tokens), one.finish_reason) for one in by_pool} == {(9, "capacity")}


@pytest.mark.parametrize(("field", "value"), [("beam_width", 0), ("max_tokens", 0), ("beam_width", 1.5),
                                              ("length_penalty", float("nan"))])
def test_bad_parameters(field, value):
    with pytest.raises(RequestError, match=f"{field} is"):
        BeamSearchParams(**{"beam_width": 2, "max_tokens": 3, field: value})


def test_bad_prompts_and_schedulers(folder):
    llm = LLM(folder)
    with pytest.raises(RequestError, match="prompt 1: .*empty"):
        llm.beam_search([PROMPT, []], BeamSearchParams(2, 3))
    assert not llm.engine.has_unfinished
    with pytest.raises(RequestError, match="BeamSearchParams"):
        llm.beam_search([PROMPT], SamplingParams())
    with pytest.raises(RequestError, match="'static'"):
        LLM(folder, scheduling_policy="static").beam_search([PROMPT], BeamSearchParams(2, 3))
