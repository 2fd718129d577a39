"""Choosing tokens (situations E1, E2, E3, E5 to E9 as far as temperature and seeds go)."""
from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch

from minipaged import LLM, SamplingParams
from minipaged.errors import RequestError
from minipaged.runtime.sampler import SampleRow, sample, uniform

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


@pytest.mark.parametrize("field", [dict(n=2), dict(top_p=0.5), dict(top_k=3), dict(min_p=0.1), dict(stop="x"),
                                   dict(logprobs=1), dict(presence_penalty=1.0), dict(repetition_penalty=1.1)])
def test_what_is_not_served_is_refused(folder, field):
    with pytest.raises(RequestError, match=next(iter(field))):
        LLM(folder).generate([[1]], SamplingParams(**field))
