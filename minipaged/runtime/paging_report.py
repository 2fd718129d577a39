"""What paging did in a run, read from the event log alone (chapters 00 and 02).

The log is replayed: which block each request's table holds, how far each block is filled, how many blocks
are out of the free queue. Waste is measured where it matters most, at the step with most blocks in use,
beside what contiguous memory would take there: `max_model_len` slots for each request that holds memory.
"""
from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import NamedTuple

from minipaged.core.events import Event, EventLog


@dataclass(frozen=True)
class PagingReport:
    """Counts over the whole run, then the fullest step. A slot has room for the K and V of one token."""

    num_requests: int
    num_steps: int
    num_blocks: int
    block_size: int
    blocks_used: int  # most at one time
    blocks_shared: int  # times a table took a block that existed already
    blocks_copied: int  # copy-on-write
    blocks_evicted: int  # cached contents that had to go
    preemptions: int
    tokens_computed: int
    tokens_reused: int  # found in the prefix cache, at first or after preemption
    tokens_recomputed: int  # computed before and lost by preemption
    fullest_step: int
    fullest_requests: int  # requests that held memory then
    fullest_tokens: int  # tokens of their contexts
    fullest_slots: int  # slots of the blocks in use
    fullest_filled: int  # of these, filled; less than fullest_tokens where blocks are shared
    contiguous_slots: int  # what the same requests would reserve
    contiguous_requests: int  # how many could run at a time in this pool, each with max_model_len slots

    @property
    def paged_waste(self) -> float:
        """Share of the slots in use that hold nothing."""
        return 1 - self.fullest_filled / self.fullest_slots if self.fullest_slots else 0.0

    @property
    def contiguous_waste(self) -> float:
        return 1 - self.fullest_tokens / self.contiguous_slots if self.contiguous_slots else 0.0

    def to_dict(self) -> dict:
        return {**asdict(self), "paged_waste": round(self.paged_waste, 4),
                "contiguous_waste": round(self.contiguous_waste, 4)}


class _Moment(NamedTuple):
    """How full memory was after a commit."""

    step: int = -1
    requests: int = 0
    tokens: int = 0
    slots: int = 0
    filled: int = 0


class _Replay:
    """Tables, fill and counts as they stand after each event of a log."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.tables: dict[str, dict[int, int]] = defaultdict(dict)  # request -> logical -> physical
        self.filled: dict[int, int] = {}  # physical block -> slots filled
        self.contexts: dict[str, int] = {}  # request that holds memory -> tokens of its context
        self.furthest: dict[str, int] = defaultdict(int)  # positions that a request computed, over its whole life
        self.evicted_now: set[int] = set()  # blocks whose last allocation drove out cached contents
        self.plan: dict[str, list[int]] = {}  # request -> first position, tokens
        self.in_use = self.most_in_use = self.computed = self.recomputed = self.evicted = 0
        self.fullest = _Moment()

    def take(self, event: Event) -> None:
        kind, data = event.kind, event.data
        if kind in ("allocate", "share", "swap_in"):
            self._hold(kind, data)
        elif kind == "copy":
            self.filled[data["dst"]] = self.filled.get(data["src"], 0)
        elif kind == "free":
            self.in_use -= 1
        elif kind == "withdraw" and data["reason"] == "evict" and data["block"] not in self.evicted_now:
            self.evicted_now.add(data["block"])  # a block may be known by several keys: count it once
            self.evicted += 1
        elif kind == "admit":
            self.contexts[data["request"]] = data["cached_tokens"]
        elif kind in ("preempt", "finish"):
            self.tables.pop(data["request"], None)
            self.contexts.pop(data["request"], None)
        elif kind == "step":
            self.plan = data["scheduled"]
        elif kind == "commit":
            self._commit()
            self._look(event.step)

    def _hold(self, kind: str, data: dict) -> None:
        """A request gets a block: a fresh one, a shared one, or one that comes back from the host."""
        block = data["block"]
        if data["index"] is not None:
            self.tables[data["request"]][data["index"]] = block
        if kind == "allocate":
            self.filled[block] = 0
            self.evicted_now.discard(block)
        elif kind == "swap_in":
            self.filled[block] = self.block_size
        if kind == "allocate" or (kind == "share" and data["ref_count"] == 1):
            self.in_use += 1

    def _commit(self) -> None:
        """The tokens of the plan are in memory now."""
        size = self.block_size
        for request, (start, count) in self.plan.items():
            end = start + count
            self.computed += count
            self.recomputed += max(0, min(end, self.furthest[request]) - start)
            self.furthest[request] = max(self.furthest[request], end)
            self.contexts[request] = end
            for logical in range(start // size, (end - 1) // size + 1):
                block = self.tables[request].get(logical)
                self.filled[block] = max(self.filled.get(block, 0), min(size, end - logical * size))

    def _look(self, step: int) -> None:
        """Is this the fullest moment so far? Of equally many slots, the one with more of them filled."""
        self.most_in_use = max(self.most_in_use, self.in_use)
        held = {block for request in self.contexts for block in self.tables[request].values()}
        slots = len(held) * self.block_size
        if slots < self.fullest.slots:
            return
        filled = sum(self.filled.get(block, 0) for block in held)
        if (slots, filled) > (self.fullest.slots, self.fullest.filled):
            self.fullest = _Moment(step, len(self.contexts), sum(self.contexts.values()), slots, filled)


def paging_report(events: EventLog, max_model_len: int) -> PagingReport:
    """Replay a log that began with its pool. Raises ValueError for one that didn't."""
    pools = events.select("pool")
    if not pools:
        raise ValueError("the event log has no 'pool' event; attach it before the engine is made")
    size, num_blocks = pools[0].block_size, pools[0].num_blocks
    replay = _Replay(size)
    for event in events:
        replay.take(event)
    counts, fullest = events.counts(), replay.fullest
    return PagingReport(
        num_requests=counts.get("add", 0), num_steps=counts.get("commit", 0), num_blocks=num_blocks, block_size=size,
        blocks_used=replay.most_in_use, blocks_shared=counts.get("share", 0), blocks_copied=counts.get("copy", 0),
        blocks_evicted=replay.evicted, preemptions=counts.get("preempt", 0), tokens_computed=replay.computed,
        tokens_reused=sum(event.cached_tokens for event in events.select("admit")),
        tokens_recomputed=replay.recomputed, fullest_step=fullest.step, fullest_requests=fullest.requests,
        fullest_tokens=fullest.tokens, fullest_slots=fullest.slots, fullest_filled=fullest.filled,
        contiguous_slots=fullest.requests * max_model_len, contiguous_requests=num_blocks * size // max_model_len)
