"""Greedy tokens equal those of `transformers`, under every way of paging, batching and preempting.

A pairwise cover of the grid: any two settings meet in at least one run. The rest of the grid has the mark
`full` (`make oracle-full`); with ORACLE_FULL=1 every run of pytest takes all of it.
"""
from __future__ import annotations

import itertools
import os

import pytest

from minipaged import LLM, SamplingParams

GRID = {
    "block_size": (1, 3, 4, 16, 32),
    "chunk_budget": (1, 5, 64, None),  # None: chunked prefill off
    "pool": ("ample", "small"),  # small: it preempts
    "preemption_mode": ("recompute", "swap"),
    "prefix_cache": (True, False),
    "share_partial": (True, False),
    "start": ("cold", "warm"),
}
FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3")


def pairwise(grid: dict[str, tuple]) -> list[dict]:
    """Few rows in which every two values of different settings meet: each row takes the first pair that has
    not met yet and fills the rest with the values that make most new pairs."""
    names = list(grid)
    open_pairs = {frozenset(((a, x), (b, y))) for a, b in itertools.combinations(names, 2)
                  for x in grid[a] for y in grid[b]}
    order = [frozenset(((a, x), (b, y))) for a, b in itertools.combinations(names, 2)
             for x in grid[a] for y in grid[b]]
    rows = []
    while open_pairs:
        row = dict(next(pair for pair in order if pair in open_pairs))
        for name in names:
            if name not in row:
                row[name] = max(grid[name], key=lambda value: sum(
                    frozenset(((name, value), item)) in open_pairs for item in row.items()))
        open_pairs -= {frozenset(pair) for pair in itertools.combinations(row.items(), 2)}
        rows.append({name: row[name] for name in names})
    return rows


def whole(grid: dict[str, tuple]) -> list[dict]:
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def cases() -> list:
    cover, everything = pairwise(GRID), os.environ.get("ORACLE_FULL")
    return [pytest.param(family, row, id=family + "-" + "-".join(map(str, row.values())),
                         marks=() if everything or row in cover else pytest.mark.full)
            for family in FAMILIES for row in whole(GRID)]


def test_the_cover_meets_every_pair():
    rows = pairwise(GRID)
    for a, b in itertools.combinations(GRID, 2):
        met = {(row[a], row[b]) for row in rows}
        assert met == set(itertools.product(GRID[a], GRID[b])), (a, b)
    assert len(rows) < 40


def make_llm(folder, row: dict, longest: int) -> LLM:
    size = row["block_size"]
    needed = -(-longest // size)
    return LLM(
        folder, block_size=size, dtype="float64", check_invariants=True,
        num_blocks=40 * needed if row["pool"] == "ample" else needed + max(1, needed // 3),
        preemption_mode=row["preemption_mode"], num_cpu_blocks=needed if row["preemption_mode"] == "swap" else 0,
        enable_chunked_prefill=row["chunk_budget"] is not None, max_num_batched_tokens=row["chunk_budget"] or 64,
        enable_prefix_caching=row["prefix_cache"], share_partial_blocks=row["share_partial"])


@pytest.mark.parametrize(("family", "row"), cases())
def test_greedy_tokens_equal_transformers(oracle, family, row):
    reference = oracle(family)
    max_tokens = len(reference.expected[0])
    longest = max(map(len, reference.prompts)) + max_tokens
    llm = make_llm(reference.folder, row, longest)
    llm.engine.pool.fill(float("nan"))
    params = SamplingParams(temperature=0, max_tokens=max_tokens)
    for _ in range(2 if row["start"] == "warm" else 1):
        outputs = llm.generate(reference.prompts, params)
        assert [output.outputs[0].token_ids for output in outputs] == reference.expected
        assert llm.engine.kv.free_count == llm.engine.kv.num_blocks
    # The run did what its settings are there for.
    if row["pool"] == "small" and row["chunk_budget"] != 1:  # one token a step runs requests one by one
        assert sum(output.metrics.num_preemptions for output in outputs) > 0
        if row["preemption_mode"] == "swap":
            assert llm.engine.events.select("preempt", mode="swap")
    cached = sum(output.num_cached_tokens for output in outputs)
    assert cached > 0 if row["prefix_cache"] else cached == 0
