"""One step as flat tensors: the tokens of all requests in one row, no padding (chapter 11)."""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from minipaged.core.plan import StepPlan


class SequenceInputs(NamedTuple):
    """One request's rows of a step: rows first_row .. first_row + num_tokens - 1 are its last positions.

    Position p of its context (0 .. context_len - 1) lives in block block_table[p // block_size].
    """

    first_row: int
    num_tokens: int
    context_len: int
    block_table: tuple[int, ...]


@dataclass(slots=True)
class StepInputs:
    """What a model reads in one step. All tensors are int64; [tokens] counts those of all requests."""

    token_ids: torch.Tensor  # [tokens]
    positions: torch.Tensor  # [tokens]
    slot_mapping: torch.Tensor  # [tokens]: where each K and V goes; empty without a pool
    sample_rows: torch.Tensor  # [samples]: the rows whose logits are wanted
    sequences: list[SequenceInputs]
    block_size: int

    @classmethod
    def from_plan(cls, plan: StepPlan, device: torch.device | str = "cpu") -> StepInputs:
        """The rows of a plan, request after request in the plan's order."""
        tokens, positions, slots, sample_rows, sequences = [], [], [], [], []
        size = plan.block_size
        for item in plan.scheduled:
            start, count, table = item.start, len(item.token_ids), item.block_table
            sequences.append(SequenceInputs(len(tokens), count, start + count, table))
            tokens += item.token_ids
            positions += range(start, start + count)
            slots += [table[p // size] * size + p % size for p in range(start, start + count)]
            if item.sample:
                sample_rows.append(len(tokens) - 1)
        row = [torch.tensor(values, dtype=torch.int64, device=device)
               for values in (tokens, positions, slots, sample_rows)]
        return cls(*row, sequences, size)

    @classmethod
    def from_sequences(cls, sequences: list[list[int]], device: torch.device | str = "cpu") -> StepInputs:
        """Whole token sequences from position 0, without a pool; the last row of each is sampled."""
        tokens = [token for sequence in sequences for token in sequence]
        positions = [p for sequence in sequences for p in range(len(sequence))]
        parts, row = [], 0
        for sequence in sequences:
            parts.append(SequenceInputs(row, len(sequence), len(sequence), ()))
            row += len(sequence)
        rows = [part.first_row + part.num_tokens - 1 for part in parts]
        tensors = [torch.tensor(values, dtype=torch.int64, device=device) for values in (tokens, positions, [], rows)]
        return cls(*tensors, parts, 1)
