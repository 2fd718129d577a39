"""The paged KV pool: the tensors that block numbers point into (chapters 03 and 04).

One K and one V tensor a layer, `[num_blocks, block_size, num_kv_heads, head_dim]`, made once. Blocks never
move and are never resized: `core` hands out their numbers, an executor writes and reads them here. The host
pool for swapping has the same layout in CPU memory.
"""
from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

import torch

from minipaged.errors import whole_number
from minipaged.formulas import cdiv, format_bytes, parse_bytes
from minipaged.runtime.config import ModelConfig

DEFAULT_KV_MEMORY = 256 * 2 ** 20  # bytes of a pool on a CPU where nobody says it; less when it could not be used
BOOKKEEPING = 200  # bytes that core needs for a block, about


def block_bytes(config: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
    """Bytes of one block: K and V of all layers."""
    return 2 * config.num_layers * block_size * config.num_kv_heads * config.head_dim * dtype.itemsize


def pool_blocks(config: ModelConfig, block_size: int, dtype: torch.dtype, device: torch.device, *,
                num_blocks: int | None, kv_memory: int | str | None, most_tokens: int) -> int:
    """Blocks of a pool: as many as asked, or as fit into `kv_memory` (bytes, or "64MiB").

    With neither: what `most_tokens` tokens, all seats at their longest, could use, within 256 MiB on a CPU and 4/5
    of the free memory of a GPU. Errors: ValueError for both, or for a memory that holds no block.
    """
    if num_blocks is not None:
        if kv_memory is not None:
            raise ValueError(f"num_blocks is {num_blocks} and kv_memory {kv_memory!r}; give one of them")
        return whole_number("num_blocks", num_blocks, 1)
    size = block_bytes(config, block_size, dtype)
    if kv_memory is not None:
        budget = parse_bytes(kv_memory)
        if budget < size:
            raise ValueError(f"kv_memory is {kv_memory!r}; one block of {block_size} tokens takes {size} bytes; give "
                             "more, or a smaller block_size")
        return budget // size
    budget = torch.cuda.mem_get_info(device)[0] * 4 // 5 if device.type == "cuda" else DEFAULT_KV_MEMORY
    return max(1, min(cdiv(most_tokens, block_size), budget // size))


def check_fits(num_blocks: int, num_cpu_blocks: int, bytes_per_block: int, device: torch.device) -> None:
    """Refuse a pool that this machine can't hold, before anything of it is made. Errors: ValueError.

    The system hands out memory on paper and ends the process that uses too much of it, so that trying is no test.
    """
    on_device, on_host = num_blocks * bytes_per_block, num_cpu_blocks * bytes_per_block
    if device.type == "cuda":
        _refuse_above(torch.cuda.mem_get_info(device)[1], on_device, "num_blocks or kv_memory", num_blocks, "the GPU")
    else:
        on_host += on_device
    name = "num_cpu_blocks" if num_cpu_blocks > num_blocks else "num_blocks or kv_memory"
    _refuse_above(_physical_memory(), on_host, name, max(num_blocks, num_cpu_blocks), "this machine")


def _refuse_above(most: int | None, asked: int, name: str, blocks: int, where: str) -> None:
    if asked > (2**63 - 1 if most is None else most):
        has = "" if most is None else f", {where} has {format_bytes(most, exact=False)}"
        raise ValueError(f"a pool of {blocks:,} blocks takes {asked:,} bytes{has}; lower {name}")


def _physical_memory() -> int | None:
    """Bytes of RAM; None where the system doesn't say (Windows)."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


class KVPool:
    """K and V of all layers. `key[layer]` and `value[layer]` are views of one tensor each."""

    def __init__(self, config: ModelConfig, num_blocks: int, block_size: int, *, num_cpu_blocks: int = 0,
                 dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._device = self._tensor(config, num_blocks, block_size, dtype, device)
        self._host = self._tensor(config, num_cpu_blocks, block_size, dtype, "cpu")
        self.key, self.value = self._device[0].unbind(), self._device[1].unbind()
        # The same memory, one row a slot: what a slot mapping indexes.
        self._slots = [[layer.flatten(0, 1) for layer in side] for side in (self.key, self.value)]

    @staticmethod
    def _tensor(config: ModelConfig, blocks: int, block_size: int, dtype: torch.dtype,
                device: torch.device | str) -> torch.Tensor:
        shape = (2, config.num_layers, blocks, block_size, config.num_kv_heads, config.head_dim)
        try:
            return torch.zeros(shape, dtype=dtype, device=device)  # pages that nobody touches cost nothing
        except (RuntimeError, MemoryError, OverflowError):
            asked = blocks * block_bytes(config, block_size, dtype)
            raise ValueError(f"there is no memory for a pool of {blocks:,} blocks, {asked:,} bytes; lower num_blocks, "
                             "kv_memory or num_cpu_blocks") from None

    @property
    def nbytes(self) -> int:
        return self._device.nbytes

    def fill(self, value: float) -> None:
        """Overwrite everything. With NaN in unwritten slots, reading one slot too many shows."""
        self._device.fill_(value)
        self._host.fill_(value)

    def write(self, layer: int, slot_mapping: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        """Put the K and V of new tokens, [tokens, num_kv_heads, head_dim], into their slots [tokens]."""
        self._slots[0][layer].index_copy_(0, slot_mapping, key)
        self._slots[1][layer].index_copy_(0, slot_mapping, value)

    def move(self, swap_outs: Iterable[tuple[int, int]] = (), swap_ins: Iterable[tuple[int, int]] = (),
             copies: Iterable[tuple[int, int]] = ()) -> None:
        """The block moves of a plan, K and V of every layer: swap out, then swap in, then copies.

        The order matters: a block that was just saved may be the destination of the next two.
        """
        self._copy(self._device, self._host, swap_outs)
        self._copy(self._host, self._device, swap_ins)
        self._copy(self._device, self._device, copies)

    @staticmethod
    def _copy(source: torch.Tensor, target: torch.Tensor, pairs: Iterable[tuple[int, int]]) -> None:
        pairs = list(pairs)
        if pairs:
            sources, targets = zip(*pairs)
            rows = source.index_select(2, _index(sources, source.device))
            target.index_copy_(2, _index(targets, target.device), rows.to(target.device))


def _index(blocks: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.tensor(blocks, dtype=torch.int64, device=device)
