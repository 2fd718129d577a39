"""Count what each rung of the CUDA ladder asks of memory, on the CPU. Chapter 13.

The counts are those of a GPU's warps: requests, 32-byte sectors, barriers, divergence. They say why a rung is
faster than the one below without a GPU to time it on; they say nothing about time itself.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch

from . import build, cuda_ops

_NAMES = (
    "global_load_requests", "global_load_sectors", "global_load_bytes", "global_store_requests",
    "global_store_sectors", "global_store_bytes", "unique_load_sectors", "shared_requests", "shared_bytes",
    "shared_bank_conflicts", "barriers", "warp_operations", "warp_blocks", "divergent_warp_blocks",
    "active_lanes", "launched_blocks", "largest_shared_bytes",
)  # fmt: skip


class _Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in _NAMES]


@dataclass(frozen=True)
class Traffic:
    """One kernel call, counted. A request is one memory instruction of one warp; a sector is 32 bytes."""

    step: str
    global_load_requests: int
    global_load_sectors: int
    global_load_bytes: int  # what the lanes asked for, before sharing
    global_store_requests: int
    global_store_sectors: int
    unique_load_sectors: int  # what a perfect cache would fetch from memory
    shared_requests: int
    shared_bank_conflicts: int
    barriers: int  # x warps
    warp_operations: int
    divergent_share: float  # of the basic blocks that warps executed, those with idle lanes
    active_lanes: float  # lanes at work in a basic block, of 32

    @property
    def sectors_per_request(self) -> float:
        """4 when 32 lanes read 4 neighbouring bytes each, 16 for 16 bytes each, 32 when every lane goes elsewhere."""
        return self.global_load_sectors / max(self.global_load_requests, 1)

    @property
    def reread(self) -> float:
        """How often a sector is asked for on average."""
        return self.global_load_sectors / max(self.unique_load_sectors, 1)


def example(seed: int = 0) -> tuple[torch.Tensor, ...]:
    """The input of the chapter's table: 2 sequences of 64 and 40 tokens, 8 query heads over 2 KV heads, head size
    64, pages of 16, float32, pages shuffled."""
    generator = torch.Generator().manual_seed(seed)
    key_cache, value_cache = torch.randn(2, 10, 16, 2, 64, generator=generator)
    query = torch.randn(2, 8, 64, generator=generator)
    tables = torch.randperm(10, generator=generator)[:8].reshape(2, 4).int()
    return query, key_cache, value_cache, tables, torch.tensor([64, 40], dtype=torch.int32)


def count(step: str, *arguments: torch.Tensor, **options) -> Traffic:
    """Run ``cuda_ops.paged_decode(*arguments, step=step)`` in the counting build."""
    query, key_cache, _, block_tables, _ = arguments
    library = cuda_ops.library_for(query, key_cache, block_tables, step, "count")
    library.traffic_reset()
    cuda_ops.paged_decode(*arguments, step=step, mode="count", **options)
    counts = _Counts()
    library.traffic_read(ctypes.byref(counts))
    values = {name: getattr(counts, name) for name in _NAMES}
    return Traffic(
        step=step,
        divergent_share=values["divergent_warp_blocks"] / max(values["warp_blocks"], 1),
        active_lanes=values["active_lanes"] / max(values["warp_blocks"], 1),
        **{
            name: values[name]
            for name in Traffic.__dataclass_fields__
            if name in values and name != "active_lanes"
        },
    )


def table(
    steps: tuple[str, ...] = build.LADDER[1:], arguments: tuple[torch.Tensor, ...] | None = None
) -> str:
    """The counts of several rungs on one input, as a Markdown table."""
    rows = [count(step, *(arguments or example())) for step in steps]
    lines: list[tuple[str, list[str]]] = [
        ("global load requests", [f"{r.global_load_requests:,}" for r in rows]),
        ("sectors moved (32 B)", [f"{r.global_load_sectors:,}" for r in rows]),
        ("sectors a request", [f"{r.sectors_per_request:.1f}" for r in rows]),
        ("each sector asked for", [f"{r.reread:.1f} x" for r in rows]),
        ("shared-memory requests", [f"{r.shared_requests:,}" for r in rows]),
        ("bank conflicts", [f"{r.shared_bank_conflicts:,}" for r in rows]),
        ("barriers (x warps)", [f"{r.barriers:,}" for r in rows]),
        ("shuffles and votes (x warps)", [f"{r.warp_operations:,}" for r in rows]),
        ("warp steps with idle lanes", [f"{r.divergent_share:.0%}" for r in rows]),
        ("lanes at work, of 32", [f"{r.active_lanes:.1f}" for r in rows]),
    ]
    head = "| | " + " | ".join(steps) + " |"
    return "\n".join(
        [
            head,
            "|---|" + "---:|" * len(steps),
            *(f"| {name} | {' | '.join(cells)} |" for name, cells in lines),
        ]
    )
