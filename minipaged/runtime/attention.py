"""Attention over paged K and V (chapter 04), and over plain ones for the lesson without a cache (01).

A model calls `attention(layer, query, key, value)` and knows nothing of blocks. `PagedAttention` writes the
new K and V of all requests first and attends after that, so that requests may read blocks that others fill
in the same step. How the reading is done is the business of a backend:

- "reference": one request at a time, in words of the paper; slow, the measure of all others (reference_backend.py).
- "torch": many requests a call, through torch's own attention (torch_backend.py).
- "cpp": single tokens walk the pages in C++ (page_walk.py).
- "triton" and "cuda": the kernels of chapters 12 and 13, interpreted or on the CPU where there is no GPU
  (kernel_backends.py).

Positions at or past the context length are never read: what an unwritten slot holds, even NaN, can't show.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from minipaged.runtime.inputs import StepInputs
from minipaged.runtime.kv_pool import KVPool
from minipaged.runtime.reference_backend import ReferenceBackend, paged_attention
from minipaged.runtime.torch_backend import TorchBackend, causal_mask, grouped_attention

__all__ = ["BACKENDS", "Backend", "DenseAttention", "PagedAttention", "ReferenceBackend", "TorchBackend",
           "make_backend", "paged_attention"]


class Backend(Protocol):
    """How one step's queries read the pool. `begin` comes once a step, `attend` once a layer."""

    def begin(self, inputs: StepInputs) -> None: ...

    def attend(self, query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor, scale: float,
               window: int | None) -> torch.Tensor:
        """query [tokens, num_heads, head_dim] of all requests -> the same shape.

        key_blocks, value_blocks [num_blocks, block_size, num_kv_heads, head_dim]: one layer of the pool.
        """


class PagedAttention:
    """Write the new K and V into the pool, then attend through the block tables."""

    def __init__(self, pool: KVPool, backend: Backend, scale: float, windows: Sequence[int | None]) -> None:
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
            out[rows] = grouped_attention(query[rows], key[None, rows], value[None, rows], mask, self.scale)
        return out


def _page_walk() -> Backend:
    from minipaged.runtime.page_walk import PageWalkBackend

    return PageWalkBackend()


def _kernel_backend(name: str) -> Backend:
    """The project's own kernels; imported only where somebody asks for them."""
    from minipaged.runtime.kernel_backends import KernelBackend

    return KernelBackend(name)


#: name -> a function that makes the backend; others may add theirs
BACKENDS: dict[str, Callable[[], Backend]] = {
    "reference": ReferenceBackend, "torch": TorchBackend, "cpp": _page_walk,
    "triton": lambda: _kernel_backend("triton"), "cuda": lambda: _kernel_backend("cuda")}


def make_backend(name: str = "auto", device: torch.device | str = "cpu") -> Backend:
    """A backend by name; "auto" takes "cpp" on a CPU where it can be built, else "torch".

    Errors: ValueError naming those that there are, or why one can't be had here.
    """
    if name == "auto":
        from minipaged.runtime.page_walk import is_available

        name = "cpp" if torch.device(device).type == "cpu" and is_available() else "torch"
    if not isinstance(name, str) or name not in BACKENDS:
        raise ValueError(f"attention_backend is {name!r:.60}; here there are 'auto', "
                         f"{', '.join(map(repr, BACKENDS))}")
    return BACKENDS[name]()
