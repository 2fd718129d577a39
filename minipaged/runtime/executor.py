"""Running a plan: block moves, one forward pass, the logits of those who want a token (chapter 11)."""
from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from minipaged.core.plan import StepPlan
from minipaged.runtime.attention import Backend, DenseAttention, PagedAttention
from minipaged.runtime.inputs import StepInputs
from minipaged.runtime.kv_pool import KVPool
from minipaged.runtime.model import DecoderModel


class PagedExecutor:
    """Swap out, swap in, copy; then per layer write all new K and V, then attend."""

    def __init__(self, model: DecoderModel, pool: KVPool, backend: Backend) -> None:
        self.model, self.pool = model, pool
        self.attention = PagedAttention(pool, backend, model.config.head_dim ** -0.5, model.config.windows)

    def run(self, plan: StepPlan) -> torch.Tensor:
        """Logits [samples, vocab_size], in the order of the plan's requests that sample."""
        self.pool.move(plan.swap_outs, plan.swap_ins, plan.copies)
        if not plan.scheduled:
            return torch.empty(0, self.model.config.vocab_size)
        inputs = StepInputs.from_plan(plan, self.model.device)
        self.attention.begin(inputs)
        return self.model.forward(inputs, self.attention)


class RecomputeExecutor:
    """The baseline of chapter 01: no K and V are kept, so each new token computes all of its context again.

    `tokens_of(request_id)` gives a request's tokens so far; the plan only has the new ones.
    """

    def __init__(self, model: DecoderModel, tokens_of: Callable[[str], Sequence[int]]) -> None:
        self.model, self._tokens_of = model, tokens_of
        self.attention = DenseAttention(model.config.head_dim ** -0.5, model.config.windows)

    def run(self, plan: StepPlan) -> torch.Tensor:
        """Logits [samples, vocab_size], in the order of the plan's requests that sample."""
        sequences = [list(self._tokens_of(item.request_id)) for item in plan.scheduled if item.sample]
        if not sequences:
            return torch.empty(0, self.model.config.vocab_size)
        inputs = StepInputs.from_sequences(sequences, self.model.device)
        self.attention.begin(inputs)
        return self.model.forward(inputs, self.attention)
