"""The hit rate of the prefix cache: vLLM's scenarios P16 and P17, on the plans of a scheduler and in the engine."""
from __future__ import annotations

from collections.abc import Sequence

from minipaged import LLM, SamplingParams
from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request
from minipaged.runtime.hit_rate import HitRate

COMMON = [token for token in range(3) for _ in range(16)]  # 3 full blocks of 16


class Counted:
    """A scheduler whose steps answer token 7 and are counted."""

    def __init__(self, num_blocks: int, block_size: int, *, enable_prefix_caching: bool = True, **options) -> None:
        kv = KVCacheManager(num_blocks, block_size, share_partial_blocks=False,
                            enable_prefix_caching=enable_prefix_caching)
        self.scheduler, self.rate = ContinuousBatchingScheduler(kv, **options), HitRate()

    def add(self, name: str, prompt: Sequence[int], max_tokens: int = 8) -> Request:
        request = Request(name, prompt, SamplingParams(max_tokens=max_tokens))
        self.scheduler.add_request(request)
        return request

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            plan = self.scheduler.schedule()
            self.rate.record_plan(plan, self.scheduler.requests)
            self.scheduler.commit(plan, {item.request_id: 7 for item in plan.scheduled})


def test_P16_hit_rate_window_of_five_requests() -> None:
    rate = HitRate(5)
    assert rate.value == 0.0
    seen = []
    for update in ((1, 20, 9), (4, 80, 16), (1, 10, 2), (0, 50, 50), (0, 0, 0), (11, 20, 10), (22, 40, 30)):
        rate.record(*update)
        seen.append(rate.value)
    assert seen == [0.45, 0.25, 0.2, 0.2, 0.2, 0.5, 0.75]
    rate.reset()
    assert rate.value == 0.0
    rate.record(1, 4, 1)
    assert rate.value == 0.25


def test_P17_a_request_is_counted_when_it_is_admitted_not_when_it_is_refused() -> None:
    counted = Counted(5, 16)
    counted.add("seed", COMMON[:32], max_tokens=1)
    counted.step()
    assert counted.rate.value == 0.0
    big = counted.add("big", range(1000, 1048), max_tokens=2)  # needs a 4th block in the next step and leaves 1
    counted.step()
    late = counted.add("late", COMMON, max_tokens=1)
    counted.step()
    assert late.num_cached_tokens == 0 and late.num_computed_tokens == 0
    assert counted.rate.value == 0 / (32 + 48)
    assert big.is_finished
    counted.step()
    assert late.num_cached_tokens == 16  # block 0 of the seed survived, its block 1 did not
    assert counted.rate.value == 16 / (32 + 48 + 48)


def test_P17_a_resumed_request_is_not_counted_again() -> None:
    counted = Counted(4, 4)
    counted.add("a", range(7))
    second = counted.add("b", range(10, 18))
    while second.num_preemptions == 0:
        counted.step()
    counted.scheduler.abort("a")
    plan = counted.scheduler.schedule()
    assert [(one.request_id, one.cached_tokens > 0) for one in plan.admitted] == [("b", True)]  # its own blocks
    counted.rate.record_plan(plan, counted.scheduler.requests)
    assert counted.rate.value == 0.0


def test_P17_a_rotated_request_is_not_counted_again() -> None:
    counted = Counted(8, 4, max_num_seqs=1, scheduling_policy="round_robin", quantum=1)
    requests = [counted.add(name, [*range(5)] if name == "a" else [*range(20, 25)]) for name in "ab"]
    counted.step(4)
    assert [one.num_computed_tokens for one in requests] == [6, 6]  # each ran twice
    assert [one.num_cached_tokens for one in requests] == [0, 0] and counted.rate.value == 0.0


def test_the_engine_counts_and_without_a_cache_it_counts_nothing() -> None:
    prompt, params = {"prompt_token_ids": [*range(2, 12)]}, SamplingParams(temperature=0, max_tokens=1)
    for enabled, rate in ((True, 8 / 20), (False, 0.0)):
        llm = LLM("tiny", block_size=4, num_blocks=16, share_partial_blocks=False, enable_prefix_caching=enabled)
        for _ in range(2):
            llm.generate([prompt], params)
        assert llm.engine.core.hit_rate.value == rate
