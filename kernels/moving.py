"""What all backends share when whole blocks move: simultaneous copies, and swaps between host and device.

The backends differ only in the kernel that copies ``source[sources[i]]`` to ``target[targets[i]]`` on one
device, passed here as ``copy``. Chapter 05 uses the copies (copy-on-write), chapter 09 the swaps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .checks import KernelRefused, check_pairs

Copy = Callable[[Tensor, Tensor, Tensor, Tensor], None]


def copy_inside(caches: list[Tensor], pairs: list[tuple[int, int]], copy: Copy) -> None:
    """Copies inside each cache, with every read before every write.

    The blocks of one launch are copied in any order. If no target is also a source that is all the same;
    otherwise (a chain 1 -> 2, 2 -> 3, or an exchange) the sources go through a staging cache first.
    """
    if not pairs:
        return
    for cache in caches:
        if not cache.is_contiguous():
            raise KernelRefused(f"a cache has strides {cache.stride()}; block copies take contiguous caches")
        check_pairs(pairs, cache.shape[0], cache.shape[0])
    pairs = [(source, target) for source, target in pairs if source != target]
    if not pairs:
        return
    sources, targets = zip(*pairs)
    overlap = not set(sources).isdisjoint(targets)
    for cache in caches:
        read = torch.tensor(sources, dtype=torch.int64, device=cache.device)
        write = torch.tensor(targets, dtype=torch.int64, device=cache.device)
        if overlap:
            order = torch.arange(len(pairs), dtype=torch.int64, device=cache.device)
            staging = cache.new_empty(len(pairs), *cache.shape[1:])
            copy(staging, cache, read, order)
            copy(cache, staging, order, write)
        else:
            copy(cache, cache, read, write)


def copy_across(source: Tensor, target: Tensor, pairs: list[tuple[int, int]], copy: Copy) -> None:
    """Copies from one cache to another one, on the same device or between host and device."""
    if not pairs:
        return
    if source.shape[1:] != target.shape[1:] or source.dtype != target.dtype:
        raise KernelRefused(
            f"blocks of shape {tuple(source.shape[1:])} {source.dtype} cannot go into a cache with blocks "
            f"{tuple(target.shape[1:])} {target.dtype}"
        )
    if not (source.is_contiguous() and target.is_contiguous()):
        raise KernelRefused("block copies take contiguous caches")
    if source.untyped_storage().data_ptr() == target.untyped_storage().data_ptr():
        raise KernelRefused("source and target are the same cache; use copy_blocks inside one cache")
    check_pairs(pairs, source.shape[0], target.shape[0])
    if source.device == target.device:
        sources, targets = zip(*pairs)
        copy(
            target, source,
            torch.tensor(sources, dtype=torch.int64, device=source.device),
            torch.tensor(targets, dtype=torch.int64, device=source.device),
        )  # fmt: skip
        return
    # Between host and device the copy engine does the work. It likes large pieces: join neighbouring blocks.
    for first_source, first_target, count in _runs(pairs):
        target[first_target : first_target + count].copy_(
            source[first_source : first_source + count], non_blocking=True
        )


def _runs(pairs: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """``(first source, first target, count)`` of each stretch where both sides rise by one."""
    runs: list[tuple[int, int, int]] = []
    for source, target in pairs:
        if runs and (source, target) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2]):
            runs[-1] = (*runs[-1][:2], runs[-1][2] + 1)
        else:
            runs.append((source, target, 1))
    return runs
