"""Adapters that need torch: a learner's attention and slots inside the engine (labs of chapters 03 and 04)."""
from __future__ import annotations

from collections.abc import Callable

import torch

from minipaged.core.plan import StepPlan
from minipaged.lab.adapters import SwapError
from minipaged.runtime.inputs import StepInputs


class OneTokenBackend:
    """Asks the learner's function for one token of one request at a time, with a copy of its context's length."""

    def __init__(self, attend_one: Callable) -> None:
        self._attend_one = attend_one

    def begin(self, inputs: StepInputs) -> None:
        self._inputs = inputs

    def attend(self, query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor, scale: float,
               window: int | None) -> torch.Tensor:
        if window is not None:
            raise SwapError("this model has layers with a window; a lab's attention sees the whole context")
        query = query * (scale * query.shape[-1] ** 0.5)  # the learner divides by sqrt(head_dim)
        out = torch.empty_like(query)
        for part in self._inputs.sequences:
            for row in range(part.num_tokens):
                context = part.context_len - part.num_tokens + row + 1
                answer = self._attend_one(query[part.first_row + row].clone(), key_blocks, value_blocks,
                                          list(part.block_table), context)
                if not isinstance(answer, torch.Tensor) or answer.shape != query.shape[1:]:
                    what = list(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
                    raise SwapError(f"your paged_attention gave {what}; a tensor of shape {list(query.shape[1:])} is "
                                    "needed")
                out[part.first_row + row] = answer
        return out


def inputs_class(slot: Callable) -> type:
    """StepInputs whose slots come from the learner's slot(block_table, position, block_size)."""
    class LearnersInputs(StepInputs):
        @classmethod
        def from_plan(cls, plan: StepPlan, device: torch.device | str = "cpu") -> StepInputs:
            inputs = StepInputs.from_plan(plan, device)
            slots = [slot(list(item.block_table), position, plan.block_size) for item in plan.scheduled
                     for position in range(item.start, item.start + len(item.token_ids))]
            odd = [value for value in slots if type(value) is not int or value < 0]
            if odd:
                raise SwapError(f"your slot gave {odd[0]!r:.60}; a slot is a whole number of at least 0")
            inputs.slot_mapping = torch.tensor(slots, dtype=torch.int64, device=device)
            return inputs

    return LearnersInputs
