"""Small runs and numbers that the gallery draws; the same values on every machine (every chapter's figures).

`EXAMPLES` maps a name to a function that makes the value; `value(name)` makes it once.
"""
from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import sin

from minipaged.core import (
    ContinuousBatchingScheduler,
    KVCacheManager,
    Request,
    SamplingParams,
    StaticBatchingScheduler,
    StepPlan,
)
from minipaged.core.events import EventLog
from minipaged.viz.figures.machine import Kernel
from minipaged.viz.figures.waste import Region

SYSTEM_PROMPT = list(range(50, 60))  # ten tokens: two full blocks of 4, and a tail
#: the running example: name -> (prompt, new tokens)
STORY = {"A": (SYSTEM_PROMPT, 9), "B": ([*SYSTEM_PROMPT, 7], 12), "C": ([*SYSTEM_PROMPT, 8, 9], 12),
         "D": ([1, 2, 3, 4, 5], 20)}
#: the source text's requests, in its order: name -> output tokens
OUTPUTS = {"A": 100, "B": 50, "C": 200, "D": 30, "E": 120, "F": 80, "G": 60}


def _answer(plan: StepPlan) -> dict[str, int]:
    return {item.request_id: 7 for item in plan.scheduled if item.sample}


def _run(requests: Iterable[tuple[str, list[int], int]], num_blocks: int = 200, block_size: int = 16, *,
         static: bool = False, memory: dict | None = None, **options: object) -> EventLog:
    """Serve these requests, all there from the start; the log."""
    events = EventLog()
    kv = KVCacheManager(num_blocks, block_size, events=events, **(memory or {}))
    scheduler = (StaticBatchingScheduler if static else ContinuousBatchingScheduler)(kv, events=events, **options)
    for name, tokens, new in requests:
        scheduler.add_request(Request(name, tokens, SamplingParams(max_tokens=new)))
    while scheduler.has_unfinished:
        scheduler.step(_answer)
    return events


def _own(lengths: dict[str, tuple[int, int]]) -> list[tuple[str, list[int], int]]:
    """Requests with prompts that nobody shares, from (prompt tokens, new tokens)."""
    return [(name, list(range(1000 * at, 1000 * at + prompt)), new)
            for at, (name, (prompt, new)) in enumerate(lengths.items(), 1)]


def _story() -> EventLog:
    return _run([(name, tokens, new) for name, (tokens, new) in STORY.items()], 14, 4, max_num_seqs=4)


def _late() -> tuple[EventLog, ContinuousBatchingScheduler]:
    """Request 1 has run for a step when request 2, with the same beginning, comes."""
    events = EventLog()
    scheduler = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=events), events=events)
    scheduler.add_request(Request("1", SYSTEM_PROMPT, SamplingParams(max_tokens=6)))
    scheduler.step(_answer)
    scheduler.add_request(Request("2", [*SYSTEM_PROMPT, 9], SamplingParams(max_tokens=6)))
    return events, scheduler


def _copy_events() -> EventLog:
    events, scheduler = _late()
    while scheduler.has_unfinished:
        scheduler.step(_answer)
    return events


def _simulated(memory: str, rate: float | None = None, count: int = 60, **options: object):
    from minipaged.sim.experiments.common import SHAREGPT_300, paper_machine, serve, workload
    from minipaged.sim.serving import Serving

    settings = Serving(400, max_model_len=2048, memory=memory, enable_prefix_caching=False, **options)
    return serve(workload(SHAREGPT_300, count, rate), settings, paper_machine(), sample_every=0 if rate else 0.5)


def _curves() -> dict:
    from minipaged.sim.experiments.common import normalized_latency

    rates = (0.5, 1.0, 2.0, 4.0)
    return {label: (rates, [normalized_latency(_simulated(memory, rate, 40)) for rate in rates])
            for label, memory in (("reserve the maximum", "max"), ("reserve the true length", "oracle"),
                                  ("paged", "paged"))}


def _waits() -> dict:
    from minipaged.sim import metrics

    return {label: metrics.ttft(_simulated("paged", 4.0, 40, policy=policy, max_num_seqs=8)).tolist()
            for label, policy in (("first come, first served", "fcfs"), ("round robin", "round_robin"))}


def _shapes() -> dict:
    from minipaged.presets import preset

    return {name: preset(name).shape for name in ("llama-2-13b", "llama-3-8b", "gemma-2-9b", "deepseek-v3",
                                                  "falcon-7b")}


def _lengths() -> list[int]:
    from minipaged.sim.traces import load_trace

    return [one.input_tokens + one.output_tokens for one in load_trace("sharegpt-300").requests]


def _report_rows() -> list[dict]:
    from minipaged.sim.experiments import run_experiment

    return list(run_experiment("memory_waste", small=True).rows)


def _card():
    from minipaged.sim.hardware import card

    return card("a100-80g")


_PREEMPTED = _own({"A": (10, 8), "B": (6, 9), "C": (7, 7), "D": (5, 6)})
_QUEUE = _own({name: (3, 8) for name in "ABCDEF"})
_MIXED = _own({"A": (3, 14), "B": (4, 12), "C": (30, 4), "D": (20, 3)})
_NO_CACHE = {"enable_prefix_caching": False}

EXAMPLES = {
    "events": _story,
    "copy_events": _copy_events,
    "plan": lambda: _late()[1].schedule(),
    "static_events": lambda: _run([(name, [at], new) for at, (name, new) in enumerate(list(OUTPUTS.items())[:4])],
                                  56, static=True, max_num_seqs=4),
    "continuous_events": lambda: _run([(name, [at], new) for at, (name, new) in enumerate(OUTPUTS.items())],
                                      56, max_num_seqs=4),
    "recompute_events": lambda: _run(_PREEMPTED, 8, 4, max_num_seqs=4, memory=_NO_CACHE),
    "swap_events": lambda: _run(_PREEMPTED, 8, 4, max_num_seqs=4, memory={**_NO_CACHE, "num_cpu_blocks": 8},
                                preemption_mode="swap"),
    "fcfs_events": lambda: _run(_QUEUE, max_num_seqs=2),
    "round_robin_events": lambda: _run(_QUEUE, max_num_seqs=2, scheduling_policy="round_robin", quantum=3),
    "whole_events": lambda: _run(_MIXED, max_num_batched_tokens=64, enable_chunked_prefill=False),
    "chunked_events": lambda: _run(_MIXED, max_num_batched_tokens=8),
    "rows": _report_rows,
    "splits": lambda: {row["system"]: row for row in value("rows")[:4]},
    "result": lambda: _simulated("pow2"),
    "regions": lambda: [Region("A", 0, 2048, 700, 900), Region("B", 2048, 2048, 90, 200),
                        Region("C", 5120, 1024, 800, 1000)],
    "shapes": _shapes,
    "lengths": _lengths,
    "table": lambda: [3, 7, 12, 1],
    "scores": lambda: [round(1.5 * sin(0.9 * at) + 0.12 * at, 2) for at in range(14)],
    "prompts": lambda: {"A": [*SYSTEM_PROMPT, 1, 2], "B": [*SYSTEM_PROMPT, 9, 9], "C": [*SYSTEM_PROMPT, 1, 2]},
    "card": _card,
    "kernels": lambda: [Kernel("decode, 40 of 40 heads", 4 * 40 * 128, 2 * 40 * 128 * 2),
                        Kernel("decode, 8 of 32 heads", 4 * 32 * 128, 2 * 8 * 128 * 2),
                        Kernel("prefill of 2,048 tokens", 2 * 8e9 * 2048, 16e9)],
    "sectors": lambda: {"a row a lane": 32, "16 bytes a lane": 16, "4 bytes a lane": 4},
    "curves": _curves,
    "first_tokens": _waits,
}


@cache
def value(name: str) -> object:
    """The example of that name."""
    return EXAMPLES[name]()
