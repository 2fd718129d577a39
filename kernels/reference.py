"""Paged attention in plain torch: the gather-and-attend of the textbook, and the page-by-page online softmax.

Chapter 04 reads the first half, chapters 12 and 13 the second. Nothing here is fast. Every faster kernel
of this package is compared with these functions, computed in float64.

Layouts used by the whole package, per layer:

* ``key_cache``, ``value_cache``: ``[num_blocks, block_size, num_kv_heads, head_dim]``
* ``block_tables``: ``[num_seqs, max_blocks]`` integers, logical block -> physical block; entries past a
  sequence's context may hold anything
* ``query``: ``[num_seqs, num_heads, head_dim]`` for decode (one new token a sequence), or
  ``[num_tokens, num_heads, head_dim]`` for prefill (all new tokens of all sequences, one after the other)

Query head ``h`` reads KV head ``h // (num_heads / num_kv_heads)``. A context counts every token whose key
and value are in the cache, the new ones included. Positions at or past the context are never read. With
``window = w`` a token sees itself and the ``w - 1`` tokens before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor


def gather(cache: Tensor, block_table: Sequence[int] | Tensor, context_len: int) -> Tensor:
    """Put one sequence's pages side by side: ``[context_len, num_kv_heads, head_dim]``.

    Only the first ``context_len`` slots are taken: the rest of the last page belongs to nobody.
    """
    block_size = cache.shape[1]
    num_pages = -(-context_len // block_size)
    table = torch.as_tensor(block_table, device=cache.device).long()[:num_pages]
    return cache[table].flatten(0, 1)[:context_len]


def paged_attention(
    query: Tensor,
    key_blocks: Tensor,
    value_blocks: Tensor,
    block_table: Sequence[int] | Tensor,
    context_len: int,
    *,
    scale: float | None = None,
    window: int | None = None,
    compute_dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Attention of one sequence's newest tokens over its paged context, by gathering the pages first.

    ``query`` is ``[num_tokens, num_heads, head_dim]``; its rows are the *last* ``num_tokens`` positions of
    the context, so row ``i`` stands at position ``context_len - num_tokens + i`` and sees nothing later.
    Returns the same shape in ``compute_dtype``; float64 makes this the oracle of all kernels. Zeros for a
    context of 0.
    """
    num_tokens, num_heads, head_dim = query.shape
    group = num_heads // key_blocks.shape[2]
    scale = head_dim**-0.5 if scale is None else scale
    keys = gather(key_blocks, block_table, context_len).to(compute_dtype).repeat_interleave(group, dim=1)
    values = gather(value_blocks, block_table, context_len).to(compute_dtype).repeat_interleave(group, dim=1)
    if context_len == 0:
        return torch.zeros_like(query, dtype=compute_dtype)

    scores = torch.einsum("qhd,khd->hqk", query.to(compute_dtype), keys) * scale
    scores = scores.masked_fill(~_visible(num_tokens, context_len, window, query.device), float("-inf"))
    return torch.einsum("hqk,khd->qhd", scores.softmax(dim=-1), values)


def _visible(num_tokens: int, context_len: int, window: int | None, device: torch.device) -> Tensor:
    """``[num_tokens, context_len]``: may this query row see that key?"""
    rows = torch.arange(context_len - num_tokens, context_len, device=device)[:, None]
    keys = torch.arange(context_len, device=device)[None, :]
    seen = keys <= rows
    return seen if window is None else seen & (keys > rows - window)


def paged_attention_online(
    query: Tensor,
    key_blocks: Tensor,
    value_blocks: Tensor,
    block_table: Sequence[int] | Tensor,
    context_len: int,
    *,
    scale: float | None = None,
    window: int | None = None,
    compute_dtype: torch.dtype = torch.float32,
) -> Tensor:
    """The same result one page at a time, never holding more than one page of scores.

    This is what the fast kernels do. Each head keeps three things: the largest score so far, the sum of
    ``exp(score - largest)``, and the sum of the values with those weights. When a page brings a larger
    score, what was summed before is scaled down by ``exp(old - new)``; the division comes once, at the end.
    """
    num_tokens, num_heads, head_dim = query.shape
    block_size = key_blocks.shape[1]
    group = num_heads // key_blocks.shape[2]
    scale = head_dim**-0.5 if scale is None else scale
    query = query.to(compute_dtype)
    visible = _visible(num_tokens, context_len, window, query.device)

    largest = query.new_full((num_heads, num_tokens), float("-inf"))
    total = query.new_zeros(num_heads, num_tokens)
    weighted = query.new_zeros(num_heads, num_tokens, head_dim)
    for start in range(0, context_len, block_size):
        stop = min(start + block_size, context_len)
        physical = int(block_table[start // block_size])
        keys = key_blocks[physical, : stop - start].to(compute_dtype).repeat_interleave(group, dim=1)
        values = value_blocks[physical, : stop - start].to(compute_dtype).repeat_interleave(group, dim=1)

        scores = torch.einsum("qhd,khd->hqk", query, keys) * scale
        scores = scores.masked_fill(~visible[:, start:stop], float("-inf"))
        new_largest = torch.maximum(largest, scores.amax(dim=-1))
        # A row that has seen no key yet keeps -inf; exp(-inf - -inf) would be NaN, so measure from 0 there.
        base = torch.where(new_largest.isinf(), torch.zeros_like(new_largest), new_largest)
        rescale = torch.exp(largest - base)
        weights = torch.exp(scores - base[..., None])
        total = total * rescale + weights.sum(dim=-1)
        weighted = weighted * rescale[..., None] + torch.einsum("hqk,khd->hqd", weights, values)
        largest = new_largest

    divisor = torch.where(total > 0, total, torch.ones_like(total))
    return (weighted / divisor[..., None]).transpose(0, 1)


def paged_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    context_lens: Tensor,
    scale: float | None = None,
    window: int | None = None,
    compute_dtype: torch.dtype = torch.float64,
) -> Tensor:
    """A batch of sequences with one new token each: ``[num_seqs, num_heads, head_dim]``."""
    rows = [
        paged_attention(
            query[i : i + 1], key_cache, value_cache, block_tables[i], int(context_lens[i]),
            scale=scale, window=window, compute_dtype=compute_dtype,
        )
        for i in range(query.shape[0])
    ]  # fmt: skip
    return torch.cat(rows) if rows else torch.zeros_like(query, dtype=compute_dtype)


def paged_prefill(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    block_tables: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    scale: float | None = None,
    window: int | None = None,
    compute_dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Sequences with any number of new tokens each (chunks of a prompt, or one token: decode).

    Sequence ``i`` owns rows ``query_start_loc[i] .. query_start_loc[i + 1]`` of ``query``; they are the last
    positions of its ``seq_lens[i]`` tokens. The keys and values of the new tokens are in the cache already.
    """
    starts = [int(x) for x in query_start_loc]
    out = torch.zeros_like(query, dtype=compute_dtype)
    for i, (first, last) in enumerate(zip(starts, starts[1:])):
        if last > first:
            out[first:last] = paged_attention(
                query[first:last], key_cache, value_cache, block_tables[i], int(seq_lens[i]),
                scale=scale, window=window, compute_dtype=compute_dtype,
            )  # fmt: skip
    return out


def reshape_and_cache(
    key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor
) -> None:
    """Write new keys and values, ``[num_tokens, num_kv_heads, head_dim]``, into their slots.

    A slot is ``block * block_size + offset``. Tokens with a negative slot (padding) are skipped.
    """
    block_size = key_cache.shape[1]
    real = slot_mapping >= 0
    slots = slot_mapping[real].long()
    key_cache[slots // block_size, slots % block_size] = key[real]
    value_cache[slots // block_size, slots % block_size] = value[real]


def copy_blocks(caches: Iterable[Tensor], pairs: Sequence[tuple[int, int]]) -> None:
    """Copy whole blocks inside each cache, all at once: every read sees the contents from before the call."""
    copy_between([(cache, cache) for cache in caches], pairs)


def copy_between(caches: Iterable[tuple[Tensor, Tensor]], pairs: Sequence[tuple[int, int]]) -> None:
    """Copy block ``source`` of the first cache to block ``target`` of the second, for every pair."""
    if not pairs:
        return
    sources, targets = (list(column) for column in zip(*pairs))
    for source_cache, target_cache in caches:
        # Indexing copies the sources out before anything is written.
        target_cache[targets] = source_cache[sources].to(target_cache.device)
