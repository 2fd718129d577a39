"""The defaults of core, in one table: those of vLLM where vLLM has them."""
from __future__ import annotations

import inspect
from dataclasses import asdict

import pytest

from minipaged.core import (
    BlockAllocator,
    BlockTable,
    ContinuousBatchingScheduler,
    EventLog,
    KVCacheManager,
    PrefixCache,
    Request,
    RequestStatus,
    SamplingParams,
    StaticBatchingScheduler,
    StepPlan,
)
from minipaged.errors import RequestError

LIMITS = {"max_num_seqs": 64, "max_num_batched_tokens": 2048, "max_model_len": None, "eos_token_ids": (),
          "events": None}
DEFAULTS = {
    BlockAllocator: {"block_size": 16, "free_order": "unhashed_first", "events": None},
    BlockTable: {"block_size": 16, "blocks": ()},
    KVCacheManager: {"block_size": 16, "enable_prefix_caching": True, "share_partial_blocks": True,
                     "free_order": "unhashed_first", "num_cpu_blocks": 0, "events": None, "allocator": None,
                     "prefix_cache": None},
    PrefixCache: {"share_partial_blocks": True, "events": None},
    Request: {"params": None, "priority": 0, "arrival": None, "cache_salt": None,
              "skip_reading_prefix_cache": False},
    ContinuousBatchingScheduler: {
        **LIMITS, "enable_chunked_prefill": True, "long_prefill_token_threshold": 0, "scheduling_policy": "fcfs",
        "quantum": 16, "victim": "newest", "preemption_mode": "recompute", "watermark": 0.0},
    StaticBatchingScheduler: LIMITS,
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_defaults(kind: type) -> None:
    found = {name: parameter.default for name, parameter in inspect.signature(kind).parameters.items()
             if parameter.default is not parameter.empty and name != "hash_fn"}
    assert found == DEFAULTS[kind]


def test_sampling_defaults_are_those_of_vllm() -> None:
    assert asdict(SamplingParams()) == {
        "n": 1, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "repetition_penalty": 1.0, "seed": None, "max_tokens": 16, "min_tokens": 0,
        "stop": (), "stop_token_ids": (), "include_stop_str_in_output": False, "ignore_eos": False,
        "logprobs": None}


@pytest.mark.parametrize("name, inside, outside", [
    ("n", [1, 9], [0, -1]), ("max_tokens", [1], [0, -1]), ("min_tokens", [0, 16], [-1, 17]),
    ("top_k", [-1, 0, 1], [-2]),
    ("temperature", [0, 0.5, 9], [-0.01]), ("top_p", [0.01, 1], [0, -0.5, 1.01]),
    ("min_p", [0, 0.5, 1], [-0.01, 1.01]),
    ("repetition_penalty", [0.01, 3], [0, -0.5]), ("logprobs", [None, 0, 5], [-1]), ("seed", [None, 0, -5], [0.5]),
    ("stop_token_ids", [[], [0, 7]], [[-1], [3, -1], [1.5]])])
def test_sampling_limits_on_both_sides(name: str, inside: list, outside: list) -> None:
    for value in inside:
        SamplingParams(**{name: value})
    for value in outside:
        with pytest.raises(RequestError, match=name):
            SamplingParams(**{name: value})


def test_a_new_request_has_done_nothing() -> None:
    one = Request("a", [5, 6], SamplingParams(max_tokens=3, stop_token_ids=[9]))
    assert (one.status, one.finish_reason, one.num_computed_tokens, one.num_cached_tokens) == (
        RequestStatus.WAITING, None, 0, 0)
    assert (one.num_preemptions, one.steps_in_seat, one.max_num_tokens, one.outgrows_pool, one.stop_tokens) == (
        0, 0, 5, False, {9})


def test_new_parts_are_empty() -> None:
    assert (EventLog().step, len(EventLog()), StepPlan(0, 4).is_empty) == (-1, 0, True)
    assert KVCacheManager(4, 4).plan == StepPlan(-1, 4)
    scheduler = ContinuousBatchingScheduler(KVCacheManager(2, 4))
    assert (scheduler.step_index, scheduler.has_unfinished, scheduler.idle_rows) == (-1, False, [])
