"""What a caller gets back (chapter 11). Names are vLLM's; times are logical, counted in steps."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RequestMetrics:
    """When things happened to a request, as numbers of scheduler steps (None: not yet), and what it cost."""

    arrival_step: int  # the first step that could have served it
    first_scheduled_step: int | None
    first_token_step: int | None
    finished_step: int | None
    num_preemptions: int
    num_computed_tokens: int  # over all steps: what preemption had to repeat counts again


@dataclass(frozen=True)
class CompletionOutput:
    """One continuation. `text` leaves out the token that stopped it, `token_ids` has it.

    finish_reason: "stop", "length", "capacity", "abort", or None while it runs. stop_reason: the stop token
    id that ended it; None for the model's own end-of-sequence token.
    """

    index: int
    text: str
    token_ids: list[int]
    finish_reason: str | None = None
    stop_reason: int | None = None


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
