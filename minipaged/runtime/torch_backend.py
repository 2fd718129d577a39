"""Attention by torch: blocks are gathered, then one call serves many requests (chapter 11).

Blocks are gathered into a workspace that is kept, decoding requests of similar length together, and the query heads
that share a KV head become rows of one matrix. (Letting torch repeat the KV heads, `enable_gqa`, took 9 to 16 times
as long on a CPU in bfloat16.)
"""
from __future__ import annotations

from typing import NamedTuple

import torch
from torch.nn.functional import scaled_dot_product_attention

from minipaged.runtime.inputs import SequenceInputs, StepInputs

#: What one call of the kernels costs beside its work, in numbers of K gathered meanwhile (measured on a CPU).
CALL_COST = 40_000
#: More numbers of K than this are not gathered at once: the copy would leave the cache before it is used.
BATCH_SIZE = 262_144


class _Batch(NamedTuple):
    """Requests that one call serves. Only single tokens are batched, and then padded to the longest."""

    rows: slice | torch.Tensor  # of the step's queries
    num_requests: int
    blocks: torch.Tensor  # all blocks to gather, request after request
    seen: slice  # which of the gathered positions of each request count
    unwritten: torch.Tensor | None  # gathered positions of a batch that hold nothing yet
    mask: torch.Tensor | None


class TorchBackend:
    """Gather blocks into a workspace that is kept, then one call of torch's attention.

    Prompts and chunks are served one by one. Decoding requests of about the same length are served together,
    as long as the padding costs less than a call and the workspace stays small. What depends on the step but
    not on the layer (block numbers as tensors, masks) is made once a step.
    """

    def __init__(self) -> None:
        self._workspace = torch.empty(0)

    def begin(self, inputs: StepInputs) -> None:
        self._inputs = inputs
        self._batches: dict[int | None, list[_Batch]] = {}  # by window

    def attend(self, query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor,
               scale: float, window: int | None) -> torch.Tensor:
        """query [tokens, num_heads, head_dim] -> the same shape."""
        num_kv_heads, head_dim = key_blocks.shape[2:]
        batches = self._batches.get(window)
        if batches is None:
            group, width = query.shape[1] // num_kv_heads, num_kv_heads * head_dim
            batches = self._batches[window] = _make_batches(self._inputs, window, group, width, query.dtype,
                                                            query.device)
        out = torch.empty_like(query)
        for batch in batches:
            key = self._gather(key_blocks, batch, 0)
            value = self._gather(value_blocks, batch, 1)
            out[batch.rows] = grouped_attention(query[batch.rows], key, value, batch.mask, scale)
        return out

    def _gather(self, cache: torch.Tensor, batch: _Batch, side: int) -> torch.Tensor:
        """[requests, positions, num_kv_heads, head_dim] of a batch, in the workspace."""
        size = batch.blocks.numel() * cache[0].numel()
        if self._workspace.numel() < 2 * size or self._workspace.dtype != cache.dtype:
            self._workspace = torch.empty(2 * max(size, self._workspace.numel()), dtype=cache.dtype,
                                          device=cache.device)
        half = self._workspace.numel() // 2
        room = self._workspace[side * half:side * half + size].view(-1, *cache.shape[1:])
        torch.index_select(cache, 0, batch.blocks, out=room)
        if batch.unwritten is not None:  # masked, but NaN x 0 is NaN
            room.flatten(0, 1).index_fill_(0, batch.unwritten, 0)
        return room.view(batch.num_requests, -1, *cache.shape[2:])[:, batch.seen]


def _make_batches(inputs: StepInputs, window: int | None, group: int, width: int, dtype: torch.dtype,
                  device: torch.device) -> list[_Batch]:
    """Divide the requests of a step into calls. `group`: query heads of a KV head. `width`: numbers of K a position
    has in one layer."""
    size = inputs.block_size
    batches, decodes = [], []
    for part in inputs.sequences:
        start = 0 if window is None else max(0, part.context_len - part.num_tokens + 1 - window)
        first_block, last_block = start // size, -(-part.context_len // size)
        if part.num_tokens == 1:
            decodes.append((last_block - first_block, part, start, first_block))
        else:
            batches.append(_Batch(
                slice(part.first_row, part.first_row + part.num_tokens), 1,
                torch.tensor(part.block_table[first_block:last_block], dtype=torch.int64, device=device),
                slice(start - first_block * size, part.context_len - first_block * size), None,
                causal_mask(part.num_tokens, part.context_len - start, window, group, device)))
    decodes.sort(key=lambda item: -item[0])
    while decodes:
        longest, waste, count = decodes[0][0], 0, 0
        for blocks, *_ in decodes:
            waste += (longest - blocks) * size * width
            if count and (waste > CALL_COST or (count + 1) * longest * size * width > BATCH_SIZE):
                break
            count += 1
        batches.append(_decode_batch(decodes[:count], size, dtype, device))
        decodes = decodes[count:]
    return batches


def _decode_batch(items: list[tuple[int, SequenceInputs, int, int]], size: int, dtype: torch.dtype,
                  device: torch.device) -> _Batch:
    """One token each; `items` are (blocks, part, first position seen, first block), longest first."""
    longest = items[0][0]
    if len(items) == 1:
        _, part, start, first = items[0]
        blocks = torch.tensor(part.block_table[first:first + longest], dtype=torch.int64, device=device)
        return _Batch(slice(part.first_row, part.first_row + 1), 1, blocks,
                      slice(start - first * size, part.context_len - first * size), None, None)
    filler = items[0][1].block_table[items[0][3]]  # a full block where there is anything to pad
    rows, blocks, unwritten, bounds = [], [], [], []
    for index, (count, part, start, first) in enumerate(items):
        rows.append(part.first_row)
        blocks += part.block_table[first:first + count]
        blocks += (filler,) * (longest - count)
        bounds.append((start - first * size, part.context_len - first * size))
        base = index * longest * size
        unwritten += range(base + bounds[-1][1], base + count * size)
    low, high = torch.tensor(bounds, device=device).view(-1, 2, 1, 1, 1).unbind(1)
    position = torch.arange(longest * size, device=device)
    mask = torch.zeros(len(items), 1, 1, longest * size, dtype=dtype, device=device)
    mask.masked_fill_((position < low) | (position >= high), -torch.inf)
    in_order = rows == [*range(rows[0], rows[0] + len(rows))]
    return _Batch(slice(rows[0], rows[0] + len(rows)) if in_order else torch.tensor(rows, device=device), len(rows),
                  torch.tensor(blocks, dtype=torch.int64, device=device), slice(0, longest * size),
                  torch.tensor(unwritten, dtype=torch.int64, device=device) if unwritten else None, mask)


def causal_mask(num_tokens: int, num_keys: int, window: int | None, group: int,
                device: torch.device | str = "cpu") -> torch.Tensor | None:
    """[group x num_tokens, num_keys]: True where the last `num_tokens` of `num_keys` positions may look.

    None when all may look everywhere, as a single token does whose keys begin with its window.
    """
    if num_tokens == 1 and (window is None or num_keys <= window):
        return None
    query = torch.arange(num_keys - num_tokens, num_keys, device=device)[:, None]
    key = torch.arange(num_keys, device=device)[None, :]
    mask = key <= query
    if window is not None:
        mask &= key > query - window
    return mask.repeat(group, 1)


def grouped_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
            scale: float) -> torch.Tensor:
    """query [requests x tokens, num_heads, head_dim]; key, value [requests, keys, num_kv_heads, head_dim].

    The heads of a group are folded into rows: [requests, num_kv_heads, group x tokens, head_dim] against one
    KV head each.
    """
    rows, num_heads, head_dim = query.shape
    requests, _, num_kv_heads, _ = key.shape
    folded = query.view(requests, -1, num_kv_heads, num_heads // num_kv_heads, head_dim).permute(0, 2, 3, 1, 4)
    folded = folded.reshape(requests, num_kv_heads, -1, head_dim)
    out = scaled_dot_product_attention(folded, key.transpose(1, 2), value.transpose(1, 2), attn_mask=mask, scale=scale)
    out = out.view(requests, num_kv_heads, -1, rows // requests, head_dim).permute(0, 3, 1, 2, 4)
    return out.reshape(rows, num_heads, head_dim)
