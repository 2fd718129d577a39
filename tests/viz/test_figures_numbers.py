"""Pictures of numbers: what is drawn and said is what was given or follows from it."""
from __future__ import annotations

from math import exp

import numpy as np
import pytest

from minipaged.formulas import KVShape, WasteSplit
from minipaged.presets import preset
from minipaged.sim.hardware import card
from minipaged.viz.figures.attention import attention_gather, online_softmax, softmax_states
from minipaged.viz.figures.ideas import EFFECTS, page_table_analogy
from minipaged.viz.figures.machine import Kernel, roofline, traffic_ladder, warp_reads
from minipaged.viz.figures.serving import beside_published, crossing, latency_percentiles, percentile, rate_curves
from minipaged.viz.figures.sizes import block_size_sweep, cache_work, kv_size_bars, kv_size_curve
from minipaged.viz.figures.waste import Region, region_strip, shares, waste_over_time, waste_stack


def widths(picture, gid: str) -> list[float]:
    return [patch.get_width() for axes in picture.figure.axes for patch in axes.patches if patch.get_gid() == gid]


def test_the_bar_of_waste_is_cut_where_the_split_says():
    picture = waste_stack({"x": WasteSplit(used=204, reserved=136, internal=580, external=60, free=20)})
    assert [widths(picture, kind)[0] for kind in ("used", "reserved", "internal", "external", "free")] == pytest.approx(
        [20.4, 13.6, 58, 6, 2])
    assert "x: used 20.4%, reserved 13.6%, internal 58.0%, external 6.0%, free 2.0%" in picture.alt


def test_waste_is_read_from_splits_shares_and_rows_of_the_experiment():
    as_split = shares(WasteSplit(used=3, free=1))
    assert as_split == shares({"used": 0.75, "free": 0.25, "sharing_saved": 0.5})
    assert as_split == shares({"system": "paged", "ours used %": 75.0, "free %": 25.0, "our batch": 7})
    with pytest.raises(ValueError, match="a memory without slots"):
        shares(WasteSplit())


def test_a_run_without_memory_samples_says_what_to_do():
    with pytest.raises(ValueError, match="sample_every above 0"):
        waste_over_time([])


def test_holes_smaller_than_the_next_request_are_lost():
    picture = region_strip(100, [Region("A", 0, 40, 10, 20), Region("B", 50, 20, 20, 20)], wanted=20)
    assert picture.data["holes"] == [(40, 10), (70, 30)]
    assert widths(picture, "external") == [10] and widths(picture, "free") == [30]
    assert (widths(picture, "used"), widths(picture, "reserved"), widths(picture, "internal")) == ([10, 20], [10], [20])


def test_sizes_are_those_of_the_formulas():
    shapes = {"MHA": preset("llama-2-13b").shape, "GQA": preset("llama-3-8b").shape}
    assert kv_size_bars(shapes, 4096).data["bytes"] == {"MHA": 3_355_443_200, "GQA": 131_072 * 4096}
    assert "MHA 3.125, multi-head (MHA)" in kv_size_bars(shapes, 4096).alt
    window = KVShape(2, 1, 8, num_window_layers=1, window=16)
    assert kv_size_curve({"w": window}, [0, 16, 32]).data["bytes"]["w"] == [0, 16 * 64, 32 * 32 + 16 * 32]


def test_work_without_a_cache_is_a_triangle():
    data = cache_work(4, prompt_tokens=3).data
    assert data == {"without": [3, 4, 5, 6], "cached": [3, 1, 1, 1]}


def test_17_tokens_waste_15_slots_of_16_and_47_of_64():
    """The source text has these two the other way round."""
    assert block_size_sweep([17], (16, 64)).data["empty"] == [15, 47]


@pytest.mark.parametrize("position", [37, 0, 49])
def test_a_position_is_found_through_the_table(position):
    table = [3, 7, 12, 1]
    assert page_table_analogy(table, 16, position).data["slot"] == table[position // 16] * 16 + position % 16
    with pytest.raises(ValueError, match="the table has 4 entries"):
        page_table_analogy(table, 16, 64)


def test_the_table_of_events_names_what_the_engine_does():
    assert len(EFFECTS) == 9 and all(len(effects) == 4 for effects in EFFECTS.values())


def test_slots_past_the_context_are_not_read():
    picture = attention_gather([3, 7, 12, 1], 50, 16, 16)
    ids = [patch.get_gid() for patch in picture.figure.axes[0].patches if patch.get_gid()]
    assert sum(gid.endswith(":read") for gid in ids) == 50
    assert [gid for gid in ids if gid.startswith("1:") and gid.endswith(":read")] == ["1:0:read", "1:1:read"]
    windowed = attention_gather([2, 5, 1], 10, 4, 8, window=5)
    assert windowed.data["read"] == 5 and "in the order P5, P1" in windowed.alt
    assert "by 2 programs" in attention_gather([3, 7, 12, 1], 50, 16, 16, splits=2).alt
    with pytest.raises(ValueError, match="need 4 table entries"):
        attention_gather([3, 7], 50, 16, 16)


def test_the_running_sum_ends_as_the_softmax_sum_at_once():
    scores = [0.5, 1.2, -0.3, 0.8, 2.0, 1.0, 0.1, 1.9, 3.0]
    states = softmax_states(scores, 4)
    assert states[-1][0] == 3.0 and states[-1][1] == pytest.approx(sum(exp(score - 3.0) for score in scores))
    assert states[1][2] == pytest.approx(exp(1.2 - 2.0)), "the old sum is rescaled by exp(old max - new max)"
    assert "in 3 blocks of 4" in online_softmax(scores, 4).alt


def test_no_kernel_without_a_measurement_is_above_the_roof():
    a100 = card("a100-80g")
    points = roofline(a100, [Kernel("decode", 1e9, 1e9), Kernel("prefill", 1e15, 1e9), Kernel("slow", 1e9, 1e9, 1.0)]
                      ).data["points"]
    assert [point[2] for point in points] == [a100.bandwidth, a100.flops, 1e9]


def test_neighbouring_lanes_share_sectors():
    picture = warp_reads({"near": range(0, 128, 4), "far": range(0, 32 * 256, 256), "across": [30]})
    assert picture.data == {"near": [32] * 4, "far": [4] * 32, "across": [2, 2]}


def test_the_ladder_takes_numbers_or_counts():
    class Counted:
        barriers = 7

    assert traffic_ladder({"v0": Counted(), "v1": 3}, "barriers", best=2).data == {
        "barriers": {"v0": 7.0, "v1": 3.0}, "best": 2}


def test_percentiles_are_numpys():
    values = np.random.default_rng(0).exponential(size=57)
    assert [percentile(values, at) for at in (50, 90, 99)] == pytest.approx(list(np.percentile(values, [50, 90, 99])))
    assert percentile([4.0], 99) == 4.0
    with pytest.raises(ValueError, match="run 'a' has no values"):
        latency_percentiles({"a": []})


def test_a_curve_passes_its_limit_on_the_line_between_two_points():
    assert crossing([1, 2, 4], [0.05, 0.05, 0.15], 0.1) == pytest.approx(3)
    assert crossing([1, 2], [0.05, 0.06], 0.1) is None
    assert rate_curves({"a": ([1, 3], [0.0, 0.2])}, limit=0.1).data["crossed"] == {"a": 2.0}


def test_published_ranges_numbers_and_gaps_stand_beside_ours():
    rows = [{"s": "a", "p": "44.3 to 66.3", "o": 60}, {"s": "b", "p": 20.4, "o": 19}, {"s": "c", "p": None, "o": None},
            {"s": "d", "p": "up to 22", "o": 4.5}]
    picture = beside_published(rows, "s", "o", "p")
    assert picture.data == [("a", 44.3, 66.3, 60.0), ("b", 20.4, 20.4, 19.0), ("c", None, None, None),
                            ("d", 22.0, 22.0, 4.5)]
    assert "a: published 44.3 to 66.3, ours 60" in picture.alt
    assert "c: published nothing, ours not measured" in picture.alt
