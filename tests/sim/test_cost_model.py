"""The roofline, cards, and how far a datasheet is from measured operators."""
from __future__ import annotations

import csv

import pytest

from minipaged.sim.cost_model import Roofline, StepWork
from minipaged.sim.hardware import CARDS, card, served_model
from minipaged.sim.profile import Profiled
from minipaged.sim.traces import VLLM_RUN

LLAMA = served_model("llama-3.1-8b")


def test_a_lone_decode_reads_all_weights_and_its_own_kv():
    gpu = card("a100-80g")
    seconds = Roofline(gpu, LLAMA).step_seconds(StepWork(num_decodes=1, decode_kv=1000))
    assert seconds == pytest.approx((8_030_261_248 * 2 + 1001 * 131_072) / 2.039e12)


def test_a_long_prompt_is_bound_by_operations():
    gpu, count = card("a100-80g"), 2048
    seconds = Roofline(gpu, LLAMA).step_seconds(StepWork(chunks=[(count, 0)]))
    pairs = count * (count + 1) // 2
    assert seconds == pytest.approx((2 * 8_030_261_248 * count + 4 * 32 * 4096 * pairs) / 312e12)


def test_a_prompt_costs_the_same_attention_in_chunks():
    cost = Roofline(card("laptop-cpu"), LLAMA)
    whole = cost.step_seconds(StepWork(chunks=[(1024, 0)]))
    parts = sum(cost.step_seconds(StepWork(chunks=[(256, before)])) for before in (0, 256, 512, 768))
    assert parts == pytest.approx(whole, rel=1e-3)


def test_swaps_go_through_the_host_link_and_copies_through_memory():
    gpu, block = card("a100-80g"), 16 * 131_072
    cost = Roofline(gpu, LLAMA)
    assert cost.step_seconds(StepWork(swap_blocks=10)) == pytest.approx(10 * block / 32e9)
    assert cost.step_seconds(StepWork(copied_blocks=10)) == pytest.approx(20 * block / 2.039e12)
    assert cost.step_seconds(StepWork()) == 0


def test_efficiency_and_overhead():
    work = StepWork(num_decodes=4, decode_kv=400)
    plain = Roofline(card("h100"), LLAMA).step_seconds(work)
    half = Roofline(card("h100"), LLAMA, efficiency=0.5, host_overhead_us=100).step_seconds(work)
    assert half == pytest.approx(2 * plain + 100e-6)
    with pytest.raises(ValueError, match="efficiency is 1.2"):
        Roofline(card("h100"), LLAMA, efficiency=1.2)


def test_the_datasheet_against_the_measured_operators():
    """Large products reach the 4090's rate, one token's reach 93% of its bandwidth: the numbers of the docstring."""
    with (VLLM_RUN / "prof_dense.csv").open(encoding="utf-8", newline="") as lines:
        micros = {(row["layer"], int(row["tokens"])): float(row["time_us"]) for row in csv.DictReader(lines)}
    weights = {"qkv_proj": 4096 * 6144, "o_proj": 4096 * 4096, "gate_up_proj": 4096 * 28672, "down_proj": 4096 * 14336}
    gpu = card("rtx-4090")
    flops = 2 * 2048 * sum(weights.values()) / (sum(micros[name, 2048] for name in weights) * 1e-6)
    bandwidth = 2 * sum(weights.values()) / (sum(micros[name, 1] for name in weights) * 1e-6)
    assert flops / gpu.flops == pytest.approx(1.00, abs=0.01)
    assert bandwidth / gpu.bandwidth == pytest.approx(0.93, abs=0.01)
    measured = Profiled(VLLM_RUN)
    for work in (StepWork(num_decodes=1, decode_kv=500), StepWork(num_decodes=64, decode_kv=64 * 700),
                 StepWork(chunks=[(2048, 0)])):
        assert 0.75 < Roofline(gpu, LLAMA).step_seconds(work) / measured.step_seconds(work) < 1.1


def test_every_card_has_a_source_and_every_refusal_advice():
    assert all(len(one.source) > 20 for one in CARDS.values())
    assert {"a100-80g", "h100", "h200", "rtx-4090", "laptop-cpu"} <= CARDS.keys()
    with pytest.raises(ValueError, match="did you mean h100"):
        card("h10")
    with pytest.raises(ValueError, match="mixture of experts"):
        served_model("mixtral-8x7b")
    with pytest.raises(ValueError, match="larger card"):
        served_model("llama-3-70b").num_blocks(card("rtx-4090"))


def test_blocks_beside_the_weights():
    assert LLAMA.num_blocks(card("a100-80g")) == (72 * 10**9 - 2 * 8_030_261_248) // (16 * 131_072)
