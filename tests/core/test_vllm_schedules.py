"""Step for step the schedule of the real vLLM 0.32: tokens, hits, preemptions, free blocks and block ids.

The recordings are data/vllm_schedules*.jsonl beside this file (see its README); `VLLM_SCHEDULES` names other
files or folders, separated by the system's path separator. vLLM keeps block 0 as its null block, so its ids
are ours plus 1.
"""
from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams, check_invariants

HERE = Path(__file__).parent / "data"


def recordings() -> list:
    named = os.environ.get("VLLM_SCHEDULES")
    places = [Path(name) for name in named.split(os.pathsep)] if named else [HERE]
    files = [file for place in places
             for file in (sorted(place.glob("vllm_schedules*.jsonl")) if place.is_dir() else [place])]
    return [pytest.param(line, id=f"{file.stem}-{number}") for file in files
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines()) if line.strip()]


@pytest.mark.parametrize("line", recordings())
def test_every_step_equals_vllm(line: str) -> None:
    case = json.loads(line)
    kv = KVCacheManager(case["usable_blocks"], case["block_size"], enable_prefix_caching=case["prefix_caching"],
                        share_partial_blocks=False)
    scheduler = ContinuousBatchingScheduler(kv, max_num_seqs=case["max_num_seqs"],
                                            max_num_batched_tokens=case["max_num_batched_tokens"])
    arrivals: dict[int, list] = {}
    answers = {}
    for row in case["requests"]:
        arrivals.setdefault(row["arrival_step"], []).append(row)
        answers[row["id"]] = row["output_token_ids"]
    for expected in case["steps"]:
        for row in arrivals.pop(expected["step"], []):
            scheduler.add_request(Request(row["id"], row["prompt_token_ids"],
                                          SamplingParams(max_tokens=len(row["output_token_ids"]))))
        plan = scheduler.schedule()
        first_admissions = [{"id": admission.request_id, "cached_tokens": admission.cached_tokens,
                             "block_ids": [block + 1 for block in table_of(plan, admission.request_id)]}
                            for admission in plan.admitted if not admission.resumed]
        assert {"step": plan.step, "preempted": sorted(plan.preempted), "scheduled": plan.num_scheduled_tokens,
                "new": first_admissions, "free_blocks": kv.free_count} == expected
        sampled = {item.request_id: answers[item.request_id][scheduler.requests[item.request_id].num_output_tokens]
                   for item in plan.scheduled if item.sample}
        scheduler.commit(plan, sampled)
        check_invariants(scheduler)
    assert not arrivals and not scheduler.has_unfinished and kv.free_count == kv.num_blocks


def table_of(plan, request_id: str) -> tuple[int, ...]:
    return next(item.block_table for item in plan.scheduled if item.request_id == request_id)
