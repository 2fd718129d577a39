"""Attention in the words of the paper: one query, one block table, position by position (chapter 04).

Slow, and the measure of all other backends.
"""
from __future__ import annotations

from collections.abc import Sequence

import torch

from minipaged.runtime.inputs import StepInputs


def paged_attention(query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor,
                    block_table: Sequence[int], context_len: int, *, scale: float | None = None,
                    window: int | None = None) -> torch.Tensor:
    """The reference: the last `len(query)` positions of one context attend to it through its block table.

    query [tokens, num_heads, head_dim]; key_blocks and value_blocks [num_blocks, block_size, num_kv_heads,
    head_dim]; returns [tokens, num_heads, head_dim]. `window`: positions that a query sees, its own included.
    Query head h reads KV head h // (num_heads / num_kv_heads). Source: SOSP 2023 paper, equation 4.
    """
    tokens, num_heads, head_dim = query.shape
    block_size, num_kv_heads = key_blocks.shape[1:3]
    scale = head_dim ** -0.5 if scale is None else scale
    out = torch.zeros_like(query)
    for row in range(tokens):
        end = context_len - tokens + row + 1  # causal: this position and all before it
        start = 0 if window is None else max(0, end - window)
        if end <= 0:
            continue
        places = [divmod(position, block_size) for position in range(start, end)]
        keys = torch.stack([key_blocks[block_table[block], offset] for block, offset in places])
        values = torch.stack([value_blocks[block_table[block], offset] for block, offset in places])
        for head in range(num_heads):
            kv_head = head // (num_heads // num_kv_heads)
            weights = torch.softmax(keys[:, kv_head] @ query[row, head] * scale, dim=0)
            out[row, head] = weights @ values[:, kv_head]
    return out


class ReferenceBackend:
    """`paged_attention` above, request after request."""

    def begin(self, inputs: StepInputs) -> None:
        self._inputs = inputs

    def attend(self, query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor,
               scale: float, window: int | None) -> torch.Tensor:
        out = torch.empty_like(query)
        for part in self._inputs.sequences:
            rows = slice(part.first_row, part.first_row + part.num_tokens)
            out[rows] = paged_attention(query[rows], key_blocks, value_blocks, part.block_table,
                                        part.context_len, scale=scale, window=window)
        return out
