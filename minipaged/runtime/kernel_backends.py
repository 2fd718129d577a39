"""Attention backends of the engine that call the project's own kernels (chapters 12 and 13).

"triton" and "cuda" run compiled on a GPU. Without one Triton is interpreted and CUDA runs through g++: the
same source, slowly, which is enough to see that they give the oracle's tokens.
"""
from __future__ import annotations

import torch

from minipaged import kernels
from minipaged.runtime.inputs import StepInputs


class KernelBackend:
    """The requests of a step as one call of `paged_decode` (one new token each) or `paged_prefill`.

    `name`: "triton" or "cuda".
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def begin(self, inputs: StepInputs) -> None:
        """Block tables [requests, most blocks] (-1 where a table ends sooner), context lengths, first rows."""
        parts = inputs.sequences
        device = inputs.token_ids.device
        width = max((len(part.block_table) for part in parts), default=1)
        tables = [list(part.block_table) + [-1] * (width - len(part.block_table)) for part in parts]
        starts = [part.first_row for part in parts] + [sum(part.num_tokens for part in parts)]
        self._decode = all(part.num_tokens == 1 for part in parts)
        self._tables = torch.tensor(tables, dtype=torch.int32, device=device).reshape(len(parts), width)
        self._lens = torch.tensor([part.context_len for part in parts], dtype=torch.int32, device=device)
        self._starts = torch.tensor(starts, dtype=torch.int32, device=device)

    def attend(self, query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor,
               scale: float, window: int | None) -> torch.Tensor:
        """query [tokens, num_heads, head_dim] -> the same shape. Errors: KernelRefused, KernelUnavailable."""
        query = query.contiguous()
        if self._decode:
            return kernels.paged_decode(query, key_blocks, value_blocks, self._tables, self._lens, scale, window,
                                        backend=self._name)
        return kernels.paged_prefill(query, key_blocks, value_blocks, self._tables, self._starts, self._lens,
                                     scale, window, backend=self._name)
