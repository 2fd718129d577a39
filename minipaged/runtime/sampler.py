"""Choosing the next token from logits (chapter 11).

A draw is a pure function of (seed, position in the output). No generator is kept between steps, so that
batching, neighbours, preemption and recomputation can't change what a request says.
"""
from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import torch

from minipaged.core.request import SamplingParams
from minipaged.errors import RequestError

GREEDY_BELOW = 1e-5  # a lower temperature means the most likely token


class SampleRow(NamedTuple):
    """What one row of logits is sampled with: `seed` is the request's own, `position` counts its output."""

    params: SamplingParams
    seed: int | str
    position: int


def uniform(seed: int | str, position: int) -> float:
    """A number in [0, 1) that depends on nothing but its arguments: 53 bits of a hash."""
    digest = hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2 ** 53


def sample(logits: torch.Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """One token for each row of `logits` [rows, vocab_size].

    Greedy takes the largest logit (of equal ones the lowest id). Otherwise the token is drawn from
    softmax(logits / temperature): the first one at which the summed probability exceeds the draw.
    """
    tokens = logits.argmax(dim=-1).tolist()
    drawn = [index for index, row in enumerate(rows) if row.params.temperature >= GREEDY_BELOW]
    if not drawn:
        return tokens
    temperature = torch.tensor([rows[index].params.temperature for index in drawn], dtype=torch.float64)
    draws = torch.tensor([uniform(rows[index].seed, rows[index].position) for index in drawn], dtype=torch.float64)
    # In float64 even the largest logit divided by the smallest temperature is far from overflow.
    scaled = logits[drawn].to("cpu", torch.float64) / temperature[:, None]
    summed = torch.softmax(scaled, dim=-1).cumsum(dim=-1)
    target = draws[:, None] * summed[:, -1:]
    chosen = torch.searchsorted(summed, target, right=True)  # "exceeds": a draw of 0 skips impossible tokens
    for index, token in zip(drawn, chosen.clamp_(max=logits.shape[-1] - 1)[:, 0].tolist()):
        tokens[index] = token
    return tokens


def check_params(params: SamplingParams, vocab_size: int) -> None:
    """Refuse what can't be served, before the request is queued. Errors: RequestError naming the field."""
    if not isinstance(params, SamplingParams):
        raise RequestError(f"sampling parameters are a SamplingParams object; got {params!r:.60}")
    for token in params.stop_token_ids:
        if token >= vocab_size:
            raise RequestError(f"stop_token_ids has {token}; the model's token ids are 0 to {vocab_size - 1}")
    default = SamplingParams()
    for name in ("n", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty",
                 "stop", "logprobs"):
        value = getattr(params, name)
        if value != getattr(default, name) and not (name == "top_k" and value == -1):
            raise RequestError(f"{name} is {value!r}; this engine serves {getattr(default, name)!r} only")
