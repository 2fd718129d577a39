"""Where the slots of a simulated memory are at one moment (chapter 02)."""
from __future__ import annotations

from typing import NamedTuple

from minipaged.core.base_scheduler import BaseScheduler
from minipaged.formulas import WasteSplit
from minipaged.sim.reservation import ContiguousKV


class MemorySample(NamedTuple):
    """The split at a time in seconds. `table_blocks`: entries of all block tables; `used_blocks`: distinct
    blocks behind them. Their difference is what sharing saves."""

    time: float
    split: WasteSplit
    table_blocks: int
    used_blocks: int


def sample_memory(scheduler: BaseScheduler, time: float) -> MemorySample:
    """Look at a scheduler's memory between two steps."""
    kv = scheduler.kv
    live = {**scheduler.requests, **{row.request_id: row for row in scheduler.idle_rows}}
    if isinstance(kv, ContiguousKV):
        held = kv.num_blocks - kv.free_count
        return MemorySample(time, kv.waste_split(live), held, held)
    size, entries = kv.block_size, 0
    room: dict[int, tuple[int, int]] = {}  # first block with room -> (slots that will fill, that never will)
    for name, table in kv.tables().items():
        blocks, request = table.blocks, live[name]
        entries += len(blocks)
        computed = request.num_computed_tokens
        empty = len(blocks) * size - computed
        if empty > 0:
            will_fill = min(empty, max(0, request.max_num_tokens - 1 - computed))  # the last token is not stored
            room[blocks[computed // size]] = (will_fill, empty - will_fill)
    used_blocks = kv.num_blocks - kv.free_count
    reserved = sum(will_fill for will_fill, _ in room.values())
    internal = sum(never for _, never in room.values())
    split = WasteSplit(used_blocks * size - reserved - internal, reserved, internal, 0, kv.free_count * size)
    return MemorySample(time, split, entries, used_blocks)
