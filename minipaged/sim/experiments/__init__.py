"""The field's known figures, made again on the virtual clock (chapters 02, 05 to 10 and 16).

One file and one function an experiment; `minipaged experiment NAME` prints its table. Every published
number stands with its source, every difference with its reason.
"""
from __future__ import annotations

import difflib
import importlib

from minipaged.sim.experiments.report import Report

#: name -> what it shows
EXPERIMENTS = {
    "memory_waste": "how much of the KV memory holds tokens: reservation against paging",
    "block_size": "throughput by block size, on long chats and short instructions",
    "request_rate": "latency against request rate, by memory system",
    "parallel_sampling": "blocks saved when several samples share a prompt",
    "beam_search": "blocks saved when beams share what they have in common",
    "shared_prefix": "throughput when all prompts begin alike",
    "recompute_or_swap": "what a preemption costs, by block size",
    "hit_rate": "prefix hits against the size of the cache, an hour of chats",
    "batching": "static against continuous batching",
    "chunk_budget": "tokens a step against the first token and the gaps between tokens",
}


def run_experiment(name: str, small: bool = False) -> Report:
    """Run an experiment in its course size, or in the small one of the tests. ValueError for another name."""
    key = name.replace("-", "_")
    if key not in EXPERIMENTS:
        close = difflib.get_close_matches(key, EXPERIMENTS, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise ValueError(f"no experiment {name!r}; {hint}there are {', '.join(EXPERIMENTS)}")
    return importlib.import_module(f"minipaged.sim.experiments.{key}").run(small)
