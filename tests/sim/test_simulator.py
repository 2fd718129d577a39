"""The virtual clock over core's scheduler: times, conservation, determinism, every policy and memory."""
from __future__ import annotations

import json

import pytest

from minipaged.sim import metrics
from minipaged.sim.cost_model import StepWork
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import Simulator, check_conservation, simulate
from minipaged.sim.traces import load_trace
from minipaged.sim.workload import Trace, TraceRequest, poisson

BUSY = poisson(n=60, rate=40, input=300, output=80, seed=5)

#: settings under which every request of BUSY must come to its end
MODES = {
    "plenty": {"num_blocks": 4000},
    "recompute": {"num_blocks": 130},
    "swap": {"num_blocks": 130, "preemption": "swap", "num_cpu_blocks": 400},
    "small host": {"num_blocks": 130, "preemption": "swap", "num_cpu_blocks": 30},
    "round robin": {"num_blocks": 300, "policy": "round_robin", "max_num_seqs": 6},
    "priority": {"num_blocks": 130, "policy": "priority"},
    "static": {"num_blocks": 300, "policy": "static", "max_num_seqs": 8},
    "no caching": {"num_blocks": 130, "enable_prefix_caching": False},
    "partial blocks": {"num_blocks": 130, "share_partial_blocks": True},
    "append": {"num_blocks": 130, "free_order": "append"},
    "blocks of one": {"num_blocks": 2080, "block_size": 1},
    "whole prompts": {"num_blocks": 130, "enable_chunked_prefill": False},
    "little budget": {"num_blocks": 130, "max_num_batched_tokens": 64},
    "max": {"num_blocks": 600, "memory": "max", "max_model_len": 2048},
    "pow2": {"num_blocks": 300, "memory": "pow2"},
    "oracle": {"num_blocks": 300, "memory": "oracle", "fit": "first_fit"},
}


class Fixed:
    """A cost model of one second a step."""

    def step_seconds(self, work: StepWork) -> float:
        return 1.0

    def describe(self) -> dict:
        return {}


def fixed(requests: list[TraceRequest], **settings):
    return simulate(Serving(**{"num_blocks": 100, **settings}).scheduler(), Fixed(), Trace("t", tuple(requests)))


@pytest.mark.parametrize("mode", MODES)
def test_everything_ends_and_no_token_is_lost(serve, mode):
    result = serve(BUSY, **MODES[mode])
    assert [record.finish for record in result.records] == ["length"] * 60
    for record, wanted in zip(result.records, BUSY.requests):
        assert record.output_tokens == wanted.output_tokens
        assert record.arrival <= record.scheduled < record.first_token <= record.last_token
    assert result.steps.free_blocks[-1] < result.num_blocks  # in the last step
    assert sum(result.steps.sampled) == sum(record.output_tokens for record in result.records)


def test_all_blocks_are_free_at_the_end():
    settings = Serving(130)
    scheduler = settings.scheduler()
    simulate(scheduler, Fixed(), BUSY)
    assert scheduler.kv.free_count == 130 and not scheduler.requests


def test_nothing_is_kept_of_requests_that_ended():
    """Else a long trace would cost more a token than a short one."""
    simulator = Simulator(Serving(130).scheduler(), Fixed(), BUSY)
    simulator.run()
    live = (simulator._token, simulator._index, simulator._unfinished, simulator._branches.groups)
    assert not any(live)


def test_tokens_in_are_computed_plus_reused_without_preemption(serve):
    result = serve(load_trace("multi_turn:n=10"), 4000)
    counts = result.counts
    assert counts.preemptions == counts.lost_tokens == 0 and counts.reused_tokens > 0
    needed = sum(record.input_tokens + record.output_tokens - 1 for record in result.records)
    assert needed == counts.computed_tokens + counts.reused_tokens


def test_a_lost_token_is_noticed(serve):
    result = serve(BUSY)
    result.counts.computed_tokens -= 1
    with pytest.raises(AssertionError, match="not conserved"):
        check_conservation(result)


@pytest.mark.parametrize("mode", ["recompute", "swap", "round robin"])
def test_same_seed_same_bytes(serve, mode):
    texts = [metrics.to_json(metrics.summary(serve(BUSY, **MODES[mode]))) for _ in range(2)]
    assert texts[0] == texts[1]


def test_beams_depend_on_the_seed_only(serve):
    trace = load_trace("beams:n=4,input=40,output=40")
    first, again, other = (serve(trace, seed=seed).counts for seed in (1, 1, 2))
    assert first == again != other


def test_the_clock_by_hand():
    """Blocks of 16, a budget of 20 tokens, a second a step."""
    result = fixed([TraceRequest(0.0, 30, 3), TraceRequest(0.5, 5, 2), TraceRequest(9.0, 4, 1)],
                   max_num_batched_tokens=20)
    times = [(one.scheduled, one.first_token, one.last_token) for one in result.records]
    # 20 of 30 | 10 of 30 and all 5 of the second | third token of 0, last of 1 | last of 0 | idle until 9
    assert times == [(0, 2, 4), (1, 2, 3), (9, 10, 10)]
    assert list(result.steps.tokens) == [20, 15, 2, 1, 4]
    assert list(result.steps.decodes) == [0, 0, 2, 1, 0]
    assert result.end == 10


def test_swap_and_copies_reach_the_cost_model():
    seen: list[StepWork] = []

    class Watching(Fixed):
        def step_seconds(self, work: StepWork) -> float:
            seen.append(work)
            return 0.01

    settings = Serving(130, preemption="swap", num_cpu_blocks=400)
    result = simulate(settings.scheduler(), Watching(), BUSY)
    assert sum(work.swap_blocks for work in seen) == result.counts.swapped_blocks > 0
    seen.clear()
    result = simulate(Serving(2000).scheduler(), Watching(), load_trace("samples:n=5,input=40,output=40"))
    assert sum(work.copied_blocks for work in seen) == result.counts.copied_blocks > 0


def test_what_can_never_fit_is_refused_and_the_rest_is_served():
    result = fixed([TraceRequest(0, 5000, 3), TraceRequest(0, 10, 2)])
    assert result.records[0].finish.startswith("refused: request r0 needs 5000 tokens = 313 blocks")
    assert result.records[1].finish == "length"
    report = metrics.summary(result)
    assert (report["requests"], report["finished"], report["refused"]) == (2, 1, 1)
    reserved = fixed([TraceRequest(0, 1500, 300), TraceRequest(0, 10, 2)], memory="pow2")
    assert "no region" in reserved.records[0].finish and reserved.records[1].finish == "length"


def test_a_request_that_outgrows_the_pool_ends_with_capacity():
    result = fixed([TraceRequest(0, 1500, 400)])
    assert result.records[0].finish == "capacity" and result.records[0].output_tokens == 101


def test_samples_share_their_prompt_and_each_is_complete(serve):
    trace = load_trace("samples:n=6,rate=50,input=100,output=30,num_samples=4")
    result = serve(trace, check_every=1)
    for record, wanted in zip(result.records, trace.requests):
        assert record.output_tokens == 1 + 4 * (wanted.output_tokens - 1)
        assert record.sequences == 4
    assert metrics.memory_shares(result)["sharing_saved"] > 0.3
    lone = serve(load_trace("samples:n=6,rate=50,input=100,output=30,num_samples=1"))
    assert metrics.memory_shares(lone)["sharing_saved"] == 0


@pytest.mark.parametrize("settings", [{"policy": "static"}, {"memory": "oracle"}])
def test_what_branches_needs_paged_memory_and_continuous_batching(settings):
    with pytest.raises(ValueError, match="beams has samples or beams"):
        simulate(Serving(100, **settings).scheduler(), Fixed(), load_trace("beams:n=1"))


def test_beams_keep_their_width(serve):
    trace = load_trace("beams:n=3,rate=50,input=60,output=40,beam_width=3")
    result = serve(trace, check_every=1)
    for record, wanted in zip(result.records, trace.requests):
        assert record.output_tokens == 1 + 3 * (wanted.output_tokens - 1)


def test_beams_survive_preemption(serve):
    result = serve(load_trace("beams:n=20,rate=50,input=60,output=60,beam_width=3"), 90, check_every=3)
    assert result.counts.preemptions > 0
    assert all(record.finish == "length" for record in result.records)


def test_invariants_hold_in_a_thinned_hour(serve):
    """Each 60th chat of the production hour, seven times as fast, in a small memory."""
    trace = load_trace("azure-conv").every(60).at_rate(12)
    result = serve(trace, 1500, check_every=10)
    assert result.counts.preemptions > 0 and len(metrics.done(result)) == len(trace)


def test_mooncake_prefixes_are_reused_under_the_clock(serve):
    result = serve(load_trace("mooncake-conv").first(60), 26_674, check_every=50)
    assert 0.02 < metrics.summary(result)["hit_rate"] < 0.5
    off = serve(load_trace("mooncake-conv").first(60), 26_674, check_every=0, enable_prefix_caching=False)
    assert metrics.summary(off)["hit_rate"] == 0 and off.end > result.end


def test_until_stops_the_clock():
    simulator = Simulator(Serving(100).scheduler(), Fixed(), Trace("t", (TraceRequest(0, 10, 50),)))
    result = simulator.run(until=5)
    assert len(result.steps) == 5


def test_progress_is_told():
    told = []
    simulate(Serving(4000).scheduler(), Fixed(), poisson(n=30, rate=0.05, output=40, seed=1),
             progress=lambda arrived, now: told.append((arrived, now)))
    assert told and told == sorted(told)


@pytest.mark.parametrize("settings, reason", [
    ({"memory": "odd"}, "memory is 'odd'"), ({"memory": "max"}, "max_model_len"),
    ({"memory": "oracle", "policy": "priority"}, "baseline"), ({"preemption": "swap"}, "num_cpu_blocks"),
    ({"policy": "static", "preemption": "swap", "num_cpu_blocks": 9}, "static batching never preempts"),
    ({"memory": "oracle", "fit": "odd"}, "fit is 'odd'"), ({"policy": "odd"}, "scheduling_policy is 'odd'"),
])
def test_settings_that_do_not_go_together(settings, reason):
    with pytest.raises(ValueError, match=reason):
        Serving(100, **settings).scheduler()


def test_summary_is_json_without_surprises(serve):
    text = metrics.to_json(metrics.summary(serve(BUSY), {"ttft": 0.5}))
    assert "NaN" not in text and "Infinity" not in text
    assert json.loads(text)["slo"] == {"ttft": 0.5}
