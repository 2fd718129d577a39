"""Choosing the next token from logits (chapter 11).

A draw is a pure function of (seed, position in the output). No generator is kept between steps, so that
batching, neighbours, preemption and recomputation can't change what a request says.

Order of operations, as in vLLM: `min_tokens` and penalties change the logits; the largest is the greedy
choice; else temperature, min-p, top-k and top-p, then the draw. Log-probabilities are those of the logits as
the model gave them.
"""
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from minipaged.core.request import SamplingParams
from minipaged.errors import RequestError
from minipaged.runtime.outputs import Logprob

GREEDY_BELOW = 1e-5  # a lower temperature means the most likely token


class SampleRow(NamedTuple):
    """What one row of logits is sampled with.

    `seed` is the request's own, `position` counts its output. The rest is read only where `params` asks for
    it: the tokens so far (penalties), and the tokens that may not come before `min_tokens`.
    """

    params: SamplingParams
    seed: int | str
    position: int
    prompt_token_ids: Sequence[int] = ()
    output_token_ids: Sequence[int] = ()
    stop_tokens: Iterable[int] = ()


def is_greedy(params: SamplingParams) -> bool:
    """True when the most likely token is taken, without a draw."""
    return params.temperature < GREEDY_BELOW


def has_penalties(params: SamplingParams) -> bool:
    """True when tokens that were there already lose (or win) by it."""
    return params.repetition_penalty != 1 or params.frequency_penalty != 0 or params.presence_penalty != 0


def changes_logits(params: SamplingParams) -> bool:
    """True when the most likely token of the model may not be the greedy choice."""
    return params.min_tokens > 0 or has_penalties(params)


def uniform(seed: int | str, position: int) -> float:
    """A number in [0, 1) that depends on nothing but its arguments: 53 bits of a hash."""
    digest = hashlib.blake2b(f"{seed}:{position}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2 ** 53


def sample(logits: torch.Tensor, rows: Sequence[SampleRow]) -> list[int]:
    """One token for each row of `logits` [rows, vocab_size].

    Greedy takes the largest logit (of equal ones the lowest id). Otherwise the token is drawn from
    softmax(logits / temperature), cut by min-p, top-k and top-p: the first token, in order of ids, at which
    the summed probability exceeds the draw.
    """
    if any(changes_logits(row.params) for row in rows):
        logits = torch.stack([_changed(line, row) for line, row in zip(logits, rows, strict=True)])
    tokens = logits.argmax(dim=-1).tolist()
    drawn = [index for index, row in enumerate(rows) if not is_greedy(row.params)]
    if not drawn:
        return tokens
    temperature = torch.tensor([rows[index].params.temperature for index in drawn], dtype=torch.float64)
    draws = torch.tensor([uniform(rows[index].seed, rows[index].position) for index in drawn], dtype=torch.float64)
    # In float64 even the largest logit divided by the smallest temperature is far from overflow.
    scaled = logits[drawn].to("cpu", torch.float64) / temperature[:, None]
    cut = [place for place, index in enumerate(drawn) if _is_cut(rows[index].params, logits.shape[-1])]
    if cut:  # only these rows: the others must not depend on their neighbours' wishes
        scaled[cut] = _cut(scaled[cut], [rows[drawn[place]].params for place in cut])
    summed = torch.softmax(scaled, dim=-1).cumsum(dim=-1)
    target = draws[:, None] * summed[:, -1:]
    chosen = torch.searchsorted(summed, target, right=True)  # "exceeds": a draw of 0 skips impossible tokens
    for index, token in zip(drawn, chosen.clamp_(max=logits.shape[-1] - 1)[:, 0].tolist()):
        tokens[index] = token
    return tokens


def _changed(line: torch.Tensor, row: SampleRow) -> torch.Tensor:
    """Logits [vocab_size] after `min_tokens` and penalties.

    The repetition penalty (Keskar et al., "CTRL", 2019) counts prompt and output, the other two (OpenAI's)
    the output only.
    """
    params = row.params
    if row.position < params.min_tokens and row.stop_tokens:
        line = line.index_fill(0, torch.tensor(list(row.stop_tokens), device=line.device), -torch.inf)
    if not has_penalties(params):
        return line
    output = torch.tensor(row.output_token_ids, dtype=torch.int64, device=line.device)
    counts = torch.bincount(output, minlength=len(line))
    seen = counts > 0
    if params.repetition_penalty != 1:
        prompt = torch.tensor(row.prompt_token_ids, dtype=torch.int64, device=line.device)
        repeated = seen.index_fill(0, prompt, True)
        penalised = torch.where(line > 0, line / params.repetition_penalty, line * params.repetition_penalty)
        line = torch.where(repeated, penalised, line)
    return line - params.frequency_penalty * counts - params.presence_penalty * seen


def _is_cut(params: SamplingParams, vocab_size: int) -> bool:
    return 0 < params.top_k < vocab_size or params.top_p < 1 or params.min_p > 0


def _cut(scaled: torch.Tensor, params: Sequence[SamplingParams]) -> torch.Tensor:
    """Put -inf where min-p, top-k or top-p leave a token out. `scaled` is [rows, vocab_size].

    top-k keeps exactly k tokens, of equal ones the lower ids. top-p keeps the fewest tokens that reach the
    sum, the one that crosses it included, so at least one. It counts what the other two have left.
    """
    def column(values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)[:, None]

    vocab_size = scaled.shape[-1]
    largest, order = scaled.sort(dim=-1, descending=True, stable=True)
    probabilities = torch.softmax(largest, dim=-1)
    keep = probabilities >= column([one.min_p for one in params]) * probabilities[:, :1]
    keep &= torch.arange(vocab_size) < column([one.top_k if one.top_k > 0 else vocab_size for one in params])
    probabilities = torch.softmax(largest.masked_fill(~keep, -torch.inf), dim=-1)
    before = probabilities.cumsum(dim=-1) - probabilities
    top_p = column([one.top_p for one in params])
    keep &= (before < top_p) | (top_p == 1)
    return scaled.masked_fill(~torch.zeros_like(keep).scatter_(-1, order, keep), -torch.inf)


def top_logprobs(line: torch.Tensor, token: int, count: int) -> dict[int, Logprob]:
    """The log-probability of a sampled token and of the `count` most likely ones, from logits [vocab_size].

    The sampled token comes first. Ranks start at 1. The text of the tokens is not known here.
    """
    logprobs = torch.log_softmax(line if line.dtype.itemsize >= 4 else line.float(), dim=-1)
    values, tokens = logprobs.topk(count) if count else (logprobs[:0], logprobs[:0])
    rank = int((logprobs > logprobs[token]).sum()) + 1
    found = {token: Logprob(float(logprobs[token]), rank)}
    for place, (value, other) in enumerate(zip(values.tolist(), tokens.tolist()), 1):
        found.setdefault(int(other), Logprob(value, place))
    return found


def check_params(params: SamplingParams, vocab_size: int) -> None:
    """Refuse what can't be served, before the request is queued. Errors: RequestError naming the field."""
    if not isinstance(params, SamplingParams):
        raise RequestError(f"sampling parameters are a SamplingParams object; got {params!r:.60}")
    for token in params.stop_token_ids:
        if token >= vocab_size:
            raise RequestError(f"stop_token_ids has {token}; the model's token ids are 0 to {vocab_size - 1}")
    if params.logprobs is not None and params.logprobs > vocab_size:
        raise RequestError(f"logprobs is {params.logprobs}; the model has {vocab_size} tokens")
