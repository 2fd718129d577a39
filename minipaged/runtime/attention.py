"""Attention over paged K and V (chapter 04), and over plain ones for the lesson without a cache (01).

A model calls `attention(layer, query, key, value)` and knows nothing of blocks. `PagedAttention` writes the
new K and V of all requests first and attends after that, so that requests may read blocks that others fill
in the same step. How the reading is done is the business of a backend:

- "reference": one request at a time, in words of the paper; slow, the measure of all others.
- "triton" and "cuda": the kernels of chapters 12 and 13, interpreted or on the CPU where there is no GPU.
- "torch": one request at a time too, but its blocks are gathered into a workspace that is kept, and the
  query heads that share a KV head become rows of one matrix. (Letting torch repeat the KV heads,
  `enable_gqa`, took 9 to 16 times as long on a CPU in bfloat16.)

Positions at or past the context length are never read: what an unwritten slot holds, even NaN, can't show.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from minipaged.runtime.inputs import SequenceInputs, StepInputs
from minipaged.runtime.kv_pool import KVPool


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


class TorchBackend:
    """Gather a request's blocks, then one call of torch's attention.

    What depends on the step but not on the layer (block numbers as tensors, masks) is made once a step.
    """

    def __init__(self) -> None:
        self._workspace = torch.empty(0)

    def begin(self, inputs: StepInputs) -> None:
        self._inputs = inputs
        self._parts: dict[int | None, list[tuple]] = {}  # window -> what `_part` says of each request

    def attend(self, query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor,
               scale: float, window: int | None) -> torch.Tensor:
        """query [tokens, num_heads, head_dim] -> the same shape."""
        num_heads, num_kv_heads = query.shape[1], key_blocks.shape[2]
        group = num_heads // num_kv_heads
        if window not in self._parts:
            self._parts[window] = [_part(part, self._inputs.block_size, window, group, query.device)
                                   for part in self._inputs.sequences]
        out = torch.empty_like(query)
        for rows, blocks, seen, mask in self._parts[window]:
            key = self._gather(key_blocks, blocks, 0)[seen]
            value = self._gather(value_blocks, blocks, 1)[seen]
            out[rows] = _attend(query[rows], key, value, mask, scale)
        return out

    def _gather(self, cache: torch.Tensor, blocks: torch.Tensor, side: int) -> torch.Tensor:
        """[positions, num_kv_heads, head_dim] of these blocks, in a workspace that is reused."""
        shape = (len(blocks), *cache.shape[1:])
        size = shape[0] * shape[1] * shape[2] * shape[3]
        if self._workspace.numel() < 2 * size or self._workspace.dtype != cache.dtype:
            self._workspace = torch.empty(2 * max(size, self._workspace.numel()), dtype=cache.dtype,
                                          device=cache.device)
        half = self._workspace.numel() // 2
        room = self._workspace[side * half:side * half + size].view(shape)
        torch.index_select(cache, 0, blocks, out=room)
        return room.flatten(0, 1)


def _part(part: SequenceInputs, block_size: int, window: int | None, group: int,
          device: torch.device) -> tuple[slice, torch.Tensor, slice, torch.Tensor | None]:
    """(rows of the batch, blocks to gather, which of the gathered positions count, mask)."""
    first_query = part.context_len - part.num_tokens
    start = 0 if window is None else max(0, first_query + 1 - window)
    first_block = start // block_size
    blocks = part.block_table[first_block:-(-part.context_len // block_size)]
    seen = slice(start - first_block * block_size, part.context_len - first_block * block_size)
    return (slice(part.first_row, part.first_row + part.num_tokens),
            torch.tensor(blocks, dtype=torch.int64, device=device), seen,
            causal_mask(part.num_tokens, part.context_len - start, window, group, device))


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


def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None,
            scale: float) -> torch.Tensor:
    """query [tokens, num_heads, head_dim], key and value [keys, num_kv_heads, head_dim].

    The heads of a group are folded into rows: [num_kv_heads, group x tokens, head_dim] against one KV head.
    """
    tokens, num_heads, head_dim = query.shape
    num_kv_heads = key.shape[1]
    rows = query.view(tokens, num_kv_heads, -1, head_dim).permute(1, 2, 0, 3)
    rows = rows.reshape(1, num_kv_heads, -1, head_dim)
    out = scaled_dot_product_attention(rows, key.transpose(0, 1)[None], value.transpose(0, 1)[None],
                                       attn_mask=mask, scale=scale)
    return out.view(num_kv_heads, -1, tokens, head_dim).permute(2, 0, 1, 3).reshape(tokens, num_heads, head_dim)


class PagedAttention:
    """Write the new K and V into the pool, then attend through the block tables."""

    def __init__(self, pool: KVPool, backend, scale: float, windows: Sequence[int | None]) -> None:
        self.pool, self.backend, self.scale, self.windows = pool, backend, scale, windows

    def begin(self, inputs: StepInputs) -> None:
        self._slots = inputs.slot_mapping
        self.backend.begin(inputs)

    def __call__(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        self.pool.write(layer, self._slots, key, value)
        return self.backend.attend(query, self.pool.key[layer], self.pool.value[layer], self.scale,
                                   self.windows[layer])


class DenseAttention:
    """No cache: every K and V of a sequence is in this step's rows, and is forgotten after it (chapter 01)."""

    def __init__(self, scale: float, windows: Sequence[int | None]) -> None:
        self.scale, self.windows = scale, windows

    def begin(self, inputs: StepInputs) -> None:
        self._inputs = inputs

    def __call__(self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        group, window = query.shape[1] // key.shape[1], self.windows[layer]
        out = torch.empty_like(query)
        for part in self._inputs.sequences:
            rows = slice(part.first_row, part.first_row + part.num_tokens)
            mask = causal_mask(part.num_tokens, part.context_len, window, group, query.device)
            out[rows] = _attend(query[rows], key[rows], value[rows], mask, self.scale)
        return out


def _kernel_backend(name: str):
    """The project's own kernels; imported only where somebody asks for them."""
    from minipaged.runtime.kernel_backends import KernelBackend

    return KernelBackend(name)


#: name -> a function that makes the backend; others may add theirs
BACKENDS: dict[str, Callable[[], object]] = {
    "reference": ReferenceBackend, "torch": TorchBackend,
    "triton": lambda: _kernel_backend("triton"), "cuda": lambda: _kernel_backend("cuda")}


def make_backend(name: str = "auto"):
    """A backend by name; "auto" takes "torch". Errors: ValueError naming those that there are."""
    name = "torch" if name == "auto" else name
    if name not in BACKENDS:
        raise ValueError(f"attention_backend is {name!r}; here there are 'auto', "
                         f"{', '.join(map(repr, BACKENDS))}")
    return BACKENDS[name]()
