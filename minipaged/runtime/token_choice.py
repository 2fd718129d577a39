"""From the logits of a step to one token for each request that wants one (chapter 11).

A plain greedy request takes the largest logit. Others are sampled by their own rules, beams leave the choice to
their group, and a request with several outputs draws all their first tokens at once, from the same logits.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from minipaged.errors import RequestError
from minipaged.runtime.beam_search import BeamGroup
from minipaged.runtime.outputs import Logprob
from minipaged.runtime.sampler import sample, top_logprobs
from minipaged.runtime.sequence_group import OutputSequence, SequenceGroup
from minipaged.runtime.tokenizer import Tokenizer


class Choice(NamedTuple):
    """What a step chose, and what is left to do after its commit."""

    tokens: dict[str, int]  # request id -> the token to commit
    first_tokens: Sequence[tuple[SequenceGroup, list[int]]] = ()  # groups to be forked: a token for each output
    beam_groups: Sequence[BeamGroup] = ()  # that this step computed


def choose_tokens(names: list[str], owners: list[OutputSequence | BeamGroup], logits: torch.Tensor,
                  tokenizer: Tokenizer | None) -> Choice:
    """Row i of logits [samples, vocab_size] belongs to request names[i], which works for owners[i].

    Errors: RequestError naming a request whose logits are not finite.
    """
    largest = logits.argmax(dim=-1)
    _check_finite(names, logits, largest)
    if all(one.is_plain for one in owners):
        return Choice(dict(zip(names, largest.tolist(), strict=True)))
    beam_groups: list[BeamGroup] = []
    sampling: list[tuple[int, OutputSequence]] = []  # row of the logits, output
    for row, (name, one) in enumerate(zip(names, owners, strict=True)):
        if isinstance(one, BeamGroup):
            one.take(name, logits[row])
            if one not in beam_groups:
                beam_groups.append(one)
        else:
            sampling += [(row, each) for each in (one.group.sequences if one.group.begins else (one,))]
    tokens: dict[str, int] = {}
    for group in beam_groups:
        tokens |= group.choose()
    first_tokens: dict[str, tuple[SequenceGroup, list[int]]] = {}
    for (row, one), token in zip(sampling, _sample(sampling, logits), strict=True):
        if one.group.params.logprobs is not None:
            one.logprobs.append(_logprobs(logits[row], token, one.group.params.logprobs, tokenizer))
        if one.group.begins:
            first_tokens.setdefault(names[row], (one.group, []))[1].append(token)
        else:
            tokens[names[row]] = token
    tokens |= {name: group.first_token(drawn) for name, (group, drawn) in first_tokens.items()}
    return Choice(tokens, list(first_tokens.values()), beam_groups)


def _sample(sampling: list[tuple[int, OutputSequence]], logits: torch.Tensor) -> list[int]:
    """One token for each output. Several outputs may read one row."""
    if not sampling:
        return []
    rows = [row for row, _ in sampling]
    is_all = rows == [*range(len(logits))]
    return sample(logits if is_all else logits[rows], [one.sample_row() for _, one in sampling])


def _logprobs(line: torch.Tensor, token: int, count: int, tokenizer: Tokenizer | None) -> dict[int, Logprob]:
    """Of the chosen token and the `count` likeliest, with their text where there is a tokenizer."""
    found = top_logprobs(line, token, count)
    if tokenizer is None:
        return found
    return {token: one._replace(decoded_token=tokenizer.decode([token])) for token, one in found.items()}


def _check_finite(names: Sequence[str], logits: torch.Tensor, largest: torch.Tensor) -> None:
    """Refuse NaN, +inf and rows of -inf alone. Torch's argmax finds a NaN where there is one, so that looking
    at one logit a row is enough."""
    if not names:
        return
    finite = logits.gather(1, largest[:, None]).isfinite()
    if not finite.all():
        bad = [name for name, good in zip(names, finite[:, 0].tolist(), strict=True) if not good]
        raise RequestError(f"logits of request {bad[0]} are not finite: the weights are damaged, or their type has "
                           "too small a range (try dtype='float32'); its next token can't be chosen")
