"""Bugs of choosing the next token (chapter 11)."""
from __future__ import annotations

import math
import random
from collections import Counter

from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Run

SAMPLER = "minipaged.runtime.sampler"  # imported when a bug is switched on: it needs torch
CHAPTER = "11_engine"
TESTS = "tests/runtime/test_sampler.py::"


MANY = 400  # draws: a right share is off by 0.1, which is 4 standard deviations or more, once in 10,000 times at most


def any_logits(rng: random.Random) -> tuple[float, ...]:
    """Four logits between -1 and 1, none of them twice."""
    return tuple(number / 10 for number in rng.sample(range(-10, 11), 4))


def expect_shares(run: Run, what: str, tokens: list[int], logits: tuple[float, ...]) -> None:
    """Many draws must come as often as softmax says, within a tenth."""
    total, counts = sum(map(math.exp, logits)), Counter(tokens)
    far = [token for token, logit in enumerate(logits)
           if abs(counts[token] / len(tokens) - math.exp(logit) / total) > 0.1]
    run.expect(f"tokens that come too often or too seldom in {len(tokens)} draws of {what}", far, [], "recount")


def draw(params: list[dict], positions: int = 1, logits: tuple = (1.0, 1.2, 0.8, 1.1)) -> list[list[int]]:
    """The tokens of each row at positions 0, 1, ... of its output, from the same logits each time."""
    import torch

    from minipaged.core import SamplingParams
    from minipaged.runtime.sampler import SampleRow, sample

    rows = [SamplingParams(**one) for one in params]
    lines = torch.tensor([logits] * len(rows))
    steps = [sample(lines, [SampleRow(one, one.seed or 0, position) for one in rows]) for position in range(positions)]
    return [list(row) for row in zip(*steps)]


@change(SAMPLER, "is_greedy")
def nobody_is_greedy(right, params):
    return False


def temperature_zero() -> Run:
    run, rng = Run(), random.Random(1)
    for logits in [any_logits(rng) for _ in range(4)]:
        largest = logits.index(max(logits))
        run.expect(f"tokens at temperature 0 from {logits}", draw([{"temperature": 0}], 3, logits), [[largest] * 3],
                   "recount")
    return run


@change(SAMPLER, "uniform")
def one_number_for_all_seeds(right, seed, position):
    return right("engine", position)


def four_seeds() -> Run:
    run = Run()
    rows = draw([{"seed": seed} for seed in (1, 2, 3, 4)], 8)
    run.note("different answers of 4 with their own seeds", len({tuple(row) for row in rows}))
    logits = any_logits(random.Random(2))
    first = [row[0] for row in draw([{"seed": seed} for seed in range(MANY)], 1, logits)]
    expect_shares(run, "as many seeds", first, logits)
    return run


@change(SAMPLER, "uniform")
def the_first_number_again(right, seed, position):
    return right(seed, 0)


def eight_positions() -> Run:
    run = Run()
    run.note("different tokens of one request in 8 draws from equal logits", len(set(draw([{"seed": 1}], 8)[0])))
    logits = any_logits(random.Random(3))
    expect_shares(run, "one request", draw([{"seed": 1}], MANY, logits)[0], logits)
    return run


@change(SAMPLER, "sample")
def the_first_rows_wishes_for_all(right, logits, rows):
    return right(logits, [row._replace(params=rows[0].params) for row in rows])


def a_greedy_neighbour() -> Run:
    """Who says what beside others: the same as alone."""
    run, rng = Run(), random.Random(4)
    params = [{"temperature": 0}, *({"seed": seed, "temperature": rng.choice((0.7, 1.0, 1.5))} for seed in range(3))]
    together = draw(params, 8)
    for one, row in zip(params, together):
        run.expect(f"{one} beside others", row, draw([one], 8)[0], "tokens")
    return run


PIECES = (
    Piece("temperature-zero-divides", "Temperature 0 is a division", "vllm-project/vllm#1623", CHAPTER,
          "The most careful setting gives nonsense, or none at all: logits / 0 are infinite or not a number.",
          "Below 1e-5 a temperature means: the largest logit.",
          (nobody_is_greedy,), temperature_zero, "recount", TESTS + "test_e1_tiny_temperatures_are_greedy"),
    Piece("seeds-are-ignored", "All requests draw the same random numbers", "vllm-project/vllm#11898", CHAPTER,
          "Four answers to one prompt, with four seeds, are the same answer.",
          "A draw depends on the request's own seed and on its position, and on nothing else.",
          (one_number_for_all_seeds,), four_seeds, "recount", TESTS + "test_uniform_numbers"),
    Piece("generator-starts-again", "The random numbers begin anew at each step", "vllm-project/vllm#19940", CHAPTER,
          "Where a request is computed again, it draws the number that it has drawn before.",
          "The n-th token of a request takes the n-th number of its seed, preempted or not.",
          (the_first_number_again,), eight_positions, "recount",
          TESTS + "test_uniform_numbers"),
    Piece("neighbour-decides", "One row's parameters are used for the whole batch", "vllm-project/vllm#51226", CHAPTER,
          "A request with a seed says something else when a greedy one is in the same batch.",
          "Every row of a batch is sampled by its own parameters.",
          (the_first_rows_wishes_for_all,), a_greedy_neighbour, "tokens",
          TESTS + "test_e2_e3_greedy_rows_beside_others"),
)
