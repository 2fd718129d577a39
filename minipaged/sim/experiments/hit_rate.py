"""Prefix hits against the size of the cache, an hour of chats (chapter 06)."""
from __future__ import annotations

from minipaged.core import KVCacheManager, Request
from minipaged.sim.experiments.report import Report
from minipaged.sim.traces import load_trace
from minipaged.sim.workload import Trace

#: blocks of 512 tokens -> measured hit rate in % of an LRU cache that is a dictionary of hash ids
SIZES = (1_000, 3_000, 10_000, 30_000, 50_000, 300_000)


def run(small: bool = False) -> Report:
    """Requests one after the other through core's own cache, each freed before the next comes."""
    trace = load_trace("mooncake-conv")
    trace = trace.first(1500) if small else trace
    rows = []
    for size in (300, 3_000, 30_000) if small else SIZES:
        hits, total = hit_blocks(trace, size)
        lru, most = reference_lru(trace, size), reference_lru(trace, 1 << 60)
        rows.append({"blocks of 512": size, "published hit %": None,
                     "ours hit %": round(100 * hits / total, 1), "LRU of ids hit %": round(100 * lru / total, 1),
                     "of the most possible %": round(100 * hits / most, 1),
                     "KV of llama-3.1-8b, GB": round(size * 512 * 131_072 / 1e9)})
    return Report(
        "hit_rate", f"Prompt blocks found in a cache of that size ({len(trace):,} chats of one hour)",
        'the trace: Qin et al., "Mooncake", FAST 2025. No published hit rate is quoted: a plain LRU '
        "over the trace's hash ids stands beside ours", rows,
        ["Each request is served alone and at once, so the order of use is the order of arrival: what is left is the "
         "effect of size.",
         "Ours may hit less than the plain LRU by a block a request: at least one token is always computed, so a "
         "prompt's last block is never taken whole."])


def hit_blocks(trace: Trace, size: int) -> tuple[int, int]:
    """(hit, all) prompt blocks with `size` blocks. One token stands for one block of 512: same hits, less work."""
    kv = KVCacheManager(size, 1, share_partial_blocks=False)
    hits = total = 0
    for number, wanted in enumerate(trace.requests):
        total += len(wanted.segments)
        if len(wanted.segments) > size:
            continue
        request = Request(f"r{number}", wanted.segments)
        match = kv.match(request)
        kv.admit(request, match, request.num_tokens - match.num_tokens)
        hits += match.num_tokens
        request.num_computed_tokens = request.num_tokens
        kv.commit([request])
        kv.free(request)
    return hits, total


def reference_lru(trace: Trace, size: int) -> int:
    """Hits of an LRU dictionary of hash ids: the longest known start of each prompt."""
    known: dict[int, None] = {}
    hits = 0
    for wanted in trace.requests:
        leading = True
        for identity in wanted.segments:
            leading = leading and identity in known
            hits += leading
        for identity in reversed(wanted.segments):  # the start of a prompt is evicted last
            known.pop(identity, None)
            known[identity] = None
        while len(known) > size:
            del known[next(iter(known))]
    return hits
