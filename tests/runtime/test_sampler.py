"""Choosing tokens (situations E1 to E9 of the public bug reports)."""
from __future__ import annotations

import itertools
import math
from collections import Counter

import pytest
import torch

from minipaged import LLM, SamplingParams
from minipaged.errors import RequestError
from minipaged.runtime.sampler import SampleRow, sample, top_logprobs, uniform

LOGITS = torch.tensor([[30.0, 0.0, -30.0]])


def draw(logits: torch.Tensor, temperature: float, count: int = 1, seed: int = 0) -> list[int]:
    params = SamplingParams(temperature=temperature)
    return [sample(logits, [SampleRow(params, seed, position)])[0] for position in range(count)]


@pytest.mark.parametrize("temperature", [0, 1e-300, 1e-10, 1e-5, 1e-4, 0.01, 1.0])
def test_e1_tiny_temperatures_are_greedy(temperature):
    assert set(draw(LOGITS, temperature, 50)) == {0}


def test_e1_a_high_temperature_reaches_all():
    assert set(draw(LOGITS, 100.0, 200)) == {0, 1, 2}


def test_frequencies_are_the_softmax():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
    found = Counter(draw(logits, 2.0, 4000))
    for token, probability in enumerate(torch.softmax(logits[0] / 2, 0).tolist()):
        assert found[token] / 4000 == pytest.approx(probability, abs=0.03)


def test_impossible_tokens_are_never_drawn():
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]])
    assert set(draw(logits, 1.0, 300)) == {1, 3}


@pytest.mark.parametrize(("number", "token"), [(0.0, 1), (1 - 2 ** -53, 3)])
def test_the_ends_of_the_range_hit_possible_tokens(monkeypatch, number, token):
    monkeypatch.setattr("minipaged.runtime.sampler.uniform", lambda seed, position: number)
    assert draw(torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0, -torch.inf]]), 1.0) == [token]


def test_the_engine_draws_by_seed_and_position(folder):
    """At a very high temperature all tokens are equally likely, so the draw itself chooses."""
    params = SamplingParams(temperature=1e12, seed=11, max_tokens=10)
    output = LLM(folder).generate([[1, 2, 3]], params)[0].outputs[0]
    assert output.token_ids == [int(uniform(11, position) * 300) for position in range(10)]


def test_e2_e3_greedy_rows_beside_others():
    rows = torch.tensor([[1.0, -torch.inf, 3.0, -torch.inf], [0.0, 0.0, 0.0, 0.0]])
    greedy, warm = SamplingParams(temperature=0), SamplingParams(temperature=0.8)
    together = [sample(rows, [SampleRow(greedy, 1, i), SampleRow(warm, 5, i)]) for i in range(20)]
    assert {tokens[0] for tokens in together} == {2}
    assert [tokens[1] for tokens in together] == [sample(rows[1:], [SampleRow(warm, 5, i)])[0] for i in range(20)]


def test_e6_ties_go_to_the_lowest_id():
    assert draw(torch.tensor([[1.0, 5.0, 5.0]]), 0) == [1]


def test_uniform_numbers():
    values = [uniform(seed, position) for seed in range(20) for position in range(50)]
    assert all(0 <= value < 1 for value in values) and len(set(values)) == 1000
    assert sum(values) / 1000 == pytest.approx(0.5, abs=0.05)
    assert uniform(1, 23) != uniform(12, 3)
    assert uniform(7, 3) == 0.6666092004987639  # the same on every machine


def test_e7_e8_order_and_unseeded_neighbours_change_nothing(folder, solo):
    prompts = {"a": [1, 2, 3], "b": [4, 5], "c": [6]}
    params = {name: SamplingParams(temperature=1.0, max_tokens=8, seed=seed)
              for name, seed in (("a", 42), ("b", 7), ("c", None))}
    expected = {name: solo(prompts[name], params[name]) for name in "ab"}
    for order in itertools.permutations("abc"):
        llm = LLM(folder, dtype="float64", block_size=4)
        outputs = llm.generate([prompts[name] for name in order], [params[name] for name in order])
        found = {name: output.outputs[0].token_ids for name, output in zip(order, outputs)}
        assert {name: found[name] for name in "ab"} == expected


def test_unseeded_requests_follow_the_engines_seed(folder):
    def run(seed):
        llm = LLM(folder, dtype="float64", seed=seed)
        outputs = llm.generate([[1, 2], [1, 2]], SamplingParams(temperature=1.0, max_tokens=8))
        return [output.outputs[0].token_ids for output in outputs]

    assert run(0) == run(0) != run(1)
    assert run(0)[0] != run(0)[1]


# ---- top-k, top-p, min-p ----

def kept(logits: list[float], **params) -> set[int]:
    """Which tokens can still be drawn: 400 draws at temperature 1."""
    row = torch.tensor([logits])
    return {sample(row, [SampleRow(SamplingParams(**params), 0, position)])[0] for position in range(400)}


@pytest.mark.parametrize(("top_k", "count"), [(-1, 10), (0, 10), (1, 1), (3, 3), (9, 9), (10, 10), (11, 10),
                                              (9999999, 10)])
def test_e4_top_k_off_inside_and_past_the_vocabulary(top_k, count):
    assert kept([1 - 0.01 * i for i in range(10)], top_k=top_k) == set(range(count))


def test_e4_top_k_beside_greedy_and_plain_rows():
    logits = torch.tensor([[0.3, 0.2, 0.1, 0.0]] * 3)
    rows = [SamplingParams(top_k=2), SamplingParams(temperature=0), SamplingParams()]
    for position in range(50):
        together = sample(logits, [SampleRow(params, 9, position) for params in rows])
        alone = [sample(logits[:1], [SampleRow(params, 9, position)])[0] for params in rows]
        assert together == alone and together[1] == 0 and together[0] in (0, 1)


def test_e5_top_p_keeps_the_token_that_crosses_the_sum():
    half = [math.log(0.5), math.log(0.3), math.log(0.2)]
    assert kept(half, top_p=1e-9) == {0}
    assert kept(half, top_p=0.49) == {0}
    assert kept(half, top_p=0.51) == {0, 1}
    assert kept(half, top_p=0.79) == {0, 1}
    assert kept(half, top_p=0.81) == {0, 1, 2}
    assert kept([0.0, 0.0], top_p=0.5) == {0}


def test_e5_top_p_of_1_changes_nothing_and_others_are_refused():
    logits = torch.randn(1, 50, generator=torch.Generator().manual_seed(0))
    for position in range(100):
        plain, full = (sample(logits, [SampleRow(SamplingParams(min_p=0.0, **extra), 4, position)])
                       for extra in ({}, {"top_p": 1.0, "top_k": 50}))
        assert plain == full
    for top_p in (0, -0.1, 1.1):
        with pytest.raises(RequestError, match="top_p is"):
            SamplingParams(top_p=top_p)


def test_e6_top_k_of_1_and_greedy_agree_on_ties():
    assert kept([1.0, 5.0, 5.0], top_k=1) == {1} == kept([1.0, 5.0, 5.0], temperature=0)


def test_min_p_is_a_share_of_the_largest():
    logits = [math.log(0.5), math.log(0.26), math.log(0.24)]
    assert kept(logits, min_p=0.5) == {0, 1}
    assert kept(logits, min_p=0.47) == {0, 1, 2}
    assert kept(logits, min_p=1.0) == {0}


def test_top_p_counts_what_top_k_left():
    logits = [math.log(0.4), math.log(0.3), math.log(0.3)]
    assert kept(logits, top_p=0.55) == {0, 1}
    assert kept(logits, top_p=0.55, top_k=2) == {0}  # 0.4 of 0.7 is enough


def test_frequencies_after_a_cut_are_renormalised():
    logits = torch.tensor([[math.log(0.1), math.log(0.6), math.log(0.3)]])
    found = Counter(sample(logits, [SampleRow(SamplingParams(top_k=2), 1, position)])[0] for position in range(3000))
    assert set(found) == {1, 2}
    assert found[1] / 3000 == pytest.approx(2 / 3, abs=0.03)


# ---- penalties and min_tokens ----

def greedy(logits: list[float], output=(), prompt=(), **params) -> int:
    row = SampleRow(SamplingParams(temperature=0, max_tokens=9, **params), 0, len(output), prompt, output, [0])
    return sample(torch.tensor([logits]), [row])[0]


def test_penalties_count_prompt_and_output_as_vllm_does():
    assert greedy([2.0, 1.5, 0.0], output=[0], presence_penalty=0.6) == 1
    assert greedy([2.0, 1.5, 0.0], prompt=[0], presence_penalty=0.6) == 0  # output only
    assert greedy([2.0, 1.5, 0.0], output=[0, 0], frequency_penalty=0.3) == 1
    assert greedy([2.0, 1.5, 0.0], output=[0], frequency_penalty=0.3) == 0  # counts
    assert greedy([2.0, 1.5, 0.0], prompt=[0], repetition_penalty=1.5) == 1
    assert greedy([-1.0, -1.4, -9.0], output=[0], repetition_penalty=1.5) == 1  # negative logits are multiplied
    assert greedy([2.0, 1.5, 0.0], output=[1], presence_penalty=-0.6) == 1  # a negative one invites


def test_a_penalty_leaves_the_neighbours_alone():
    logits = torch.tensor([[2.0, 1.5], [2.0, 1.5]])
    plain = SampleRow(SamplingParams(temperature=0), 0, 1, [], [0])
    assert sample(logits, [plain._replace(params=SamplingParams(temperature=0, presence_penalty=1.0)), plain]) == [1, 0]
    assert logits.tolist() == [[2.0, 1.5], [2.0, 1.5]]


def test_no_stop_token_before_min_tokens():
    assert greedy([2.0, 1.0], min_tokens=2) == 1
    assert greedy([2.0, 1.0], output=[1], min_tokens=2) == 1
    assert greedy([2.0, 1.0], output=[1, 1], min_tokens=2) == 0


def test_min_tokens_and_ignore_eos_in_the_engine(make_model):
    eos = LLM(make_model(), dtype="float64").generate([[5, 6, 7]], SamplingParams(temperature=0, max_tokens=1))
    eos = eos[0].outputs[0].token_ids[0]
    llm = LLM(make_model(eos_token_id=eos), dtype="float64")

    def run(**params):
        return llm.generate([[5, 6, 7]], SamplingParams(temperature=0, max_tokens=6, **params))[0].outputs[0]

    assert (run().token_ids, run().text, run().finish_reason) == ([eos], "", "stop")
    assert eos not in run(min_tokens=4).token_ids[:4] and len(run(min_tokens=4).token_ids) > 4
    assert run(ignore_eos=True).token_ids[0] == eos and len(run(ignore_eos=True).token_ids) == 6


# ---- log-probabilities ----

def test_top_logprobs_are_of_the_models_logits():
    found = top_logprobs(torch.tensor([0.0, 2.0, 1.0, -1.0]), 2, 2)
    expected = torch.log_softmax(torch.tensor([0.0, 2.0, 1.0, -1.0]), 0)
    assert list(found) == [2, 1]  # the sampled one first
    assert (found[2].rank, found[1].rank) == (2, 1)
    assert found[2].logprob == pytest.approx(float(expected[2]))
    assert list(top_logprobs(torch.tensor([0.0, 2.0]), 0, 0)) == [0]


def test_logprobs_of_a_request(folder):
    llm = LLM(folder)
    params = SamplingParams(temperature=1.0, seed=3, max_tokens=5, logprobs=3, top_k=5)
    output = llm.generate([[1, 2, 3]], params)[0].outputs[0]
    assert [next(iter(step)) for step in output.logprobs] == output.token_ids
    assert all(len(step) in (3, 4) for step in output.logprobs)
    assert output.cumulative_logprob == pytest.approx(sum(
        step[token].logprob for step, token in zip(output.logprobs, output.token_ids)))
    one = output.logprobs[0][output.token_ids[0]]
    assert one.decoded_token == llm.tokenizer.decode([output.token_ids[0]])
    without = llm.generate([[1, 2, 3]], SamplingParams(max_tokens=2))[0].outputs[0]
    assert without.logprobs is None and without.cumulative_logprob is None
    with pytest.raises(RequestError, match="logprobs is 301; the model has 300"):
        llm.generate([[1]], SamplingParams(logprobs=301))
