"""What paging did in a run, read from the event log alone (chapters 00 and 02).

The log is replayed: which block each request's table holds, how far each block is filled, how many blocks
are out of the free queue. Waste is measured where it matters most, at the step with most blocks in use,
beside what contiguous memory would take there: `max_model_len` slots for each request that holds memory.
"""
from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass

from minipaged.core.events import EventLog


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


def paging_report(events: EventLog, max_model_len: int) -> PagingReport:
    """Replay a log that began with its pool. Raises ValueError for one that didn't."""
    pools = events.select("pool")
    if not pools:
        raise ValueError("the event log has no 'pool' event; attach it before the engine is made")
    size, num_blocks = pools[0].block_size, pools[0].num_blocks
    tables: dict[str, dict[int, int]] = defaultdict(dict)  # request -> logical -> physical
    filled: dict[int, int] = {}  # physical block -> slots filled
    contexts: dict[str, int] = {}
    furthest: dict[str, int] = defaultdict(int)  # positions that a request computed, over its whole life
    evicted_now: set[int] = set()  # blocks whose last allocation drove out cached contents
    in_use = peak = computed = recomputed = evicted = 0
    fullest = (-1, 0, 0, 0, 0)  # step, requests, tokens, slots, filled
    plan: dict[str, list[int]] = {}
    for event in events:
        kind, data = event.kind, event.data
        if kind in ("allocate", "share", "swap_in"):
            if data["index"] is not None:
                tables[data["request"]][data["index"]] = data["block"]
            if kind == "allocate":
                filled[data["block"]] = 0
                evicted_now.discard(data["block"])
            if kind == "allocate" or (kind == "share" and data["ref_count"] == 1):
                in_use += 1
            if kind == "swap_in":
                filled[data["block"]] = size
        elif kind == "copy":
            filled[data["dst"]] = filled.get(data["src"], 0)
        elif kind == "free":
            in_use -= 1
        elif kind == "withdraw" and data["reason"] == "evict" and data["block"] not in evicted_now:
            evicted_now.add(data["block"])  # a block may be known by several keys: count it once
            evicted += 1
        elif kind == "admit":
            contexts[data["request"]] = data["cached_tokens"]
        elif kind in ("preempt", "finish"):
            tables.pop(data["request"], None)
            contexts.pop(data["request"], None)
        elif kind == "step":
            plan = data["scheduled"]
        elif kind == "commit":
            for request, (start, count) in plan.items():
                computed += count
                recomputed += max(0, min(start + count, furthest[request]) - start)
                furthest[request] = max(furthest[request], start + count)
                contexts[request] = start + count
                for logical in range(start // size, (start + count - 1) // size + 1):
                    block = tables[request].get(logical)
                    end = min(size, start + count - logical * size)
                    filled[block] = max(filled.get(block, 0), end)
            peak = max(peak, in_use)
            held = {block for request in contexts for block in tables[request].values()}
            slots = len(held) * size
            if slots >= fullest[3]:
                full = sum(filled.get(block, 0) for block in held)
                if (slots, full) > fullest[3:]:
                    fullest = (event.step, len(contexts), sum(contexts.values()), slots, full)
    counts = events.counts()
    return PagingReport(
        num_requests=counts.get("add", 0), num_steps=counts.get("commit", 0), num_blocks=num_blocks, block_size=size,
        blocks_used=peak, blocks_shared=counts.get("share", 0), blocks_copied=counts.get("copy", 0),
        blocks_evicted=evicted,
        preemptions=counts.get("preempt", 0), tokens_computed=computed,
        tokens_reused=sum(event.cached_tokens for event in events.select("admit")), tokens_recomputed=recomputed,
        fullest_step=fullest[0], fullest_requests=fullest[1], fullest_tokens=fullest[2], fullest_slots=fullest[3],
        fullest_filled=fullest[4], contiguous_slots=fullest[1] * max_model_len,
        contiguous_requests=num_blocks * size // max_model_len)
