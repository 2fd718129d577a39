"""What a caller gets back (chapter 11). Names are vLLM's; times are logical, counted in steps."""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Logprob(NamedTuple):
    """The natural logarithm of a token's probability, its rank (1: most likely) and its text."""

    logprob: float
    rank: int
    decoded_token: str | None = None


@dataclass(frozen=True)
class RequestMetrics:
    """When things happened to a request, as numbers of scheduler steps (None: not yet), and what it cost.

    With several outputs these are the first times, and the sums over all.
    """

    arrival_step: int  # the first step that could have served it
    first_scheduled_step: int | None
    first_token_step: int | None
    finished_step: int | None
    num_preemptions: int
    num_computed_tokens: int  # over all steps: what preemption had to repeat counts again


@dataclass(frozen=True)
class CompletionOutput:
    """One continuation. `text` leaves out the stop token or stop text that ended it, `token_ids` has all tokens.

    While it runs, `text` keeps back what may become part of a stop text. finish_reason: "stop", "length",
    "capacity", "abort", or None while it runs. stop_reason: the stop token id or stop text that ended it; None
    for the model's own end-of-sequence token. logprobs: one dictionary a token when the request asked for it.
    """

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: list[dict[int, Logprob]] | None = None
    cumulative_logprob: float | None = None


@dataclass(frozen=True)
class RequestOutput:
    """A request and all of its output so far. `num_cached_tokens` of the prompt came from the prefix cache."""

    request_id: str
    prompt: str | None
    prompt_token_ids: list[int]
    outputs: list[CompletionOutput]
    finished: bool
    num_cached_tokens: int
    metrics: RequestMetrics


@dataclass(frozen=True)
class BeamSearchSequence:
    """One hypothesis: `tokens` and `text` with the prompt, the summed log-probability of the new tokens."""

    tokens: list[int]
    cum_logprob: float
    text: str
    finish_reason: str
    stop_reason: int | None = None


@dataclass(frozen=True)
class BeamSearchOutput:
    """The best hypotheses of one prompt, best first."""

    sequences: list[BeamSearchSequence]
