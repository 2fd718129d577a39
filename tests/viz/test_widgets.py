"""Explorers: what the settings give, the picture and the sentence of it, and the widget around both."""
from __future__ import annotations

import itertools
import json
import random
import re
import sys
import time

import pytest

from minipaged.formulas import prefix_sharing
from minipaged.sim.serving import Serving
from minipaged.sim.workload import TraceRequest
from minipaged.viz.show import DATA_MIME
from minipaged.viz.style import luminance
from minipaged.viz.widgets import (
    EXPLORERS,
    Control,
    Explorer,
    Shown,
    batching_explorer,
    chunk_explorer,
    kv_size_explorer,
    preemption_explorer,
    prefix_explorer,
    scheduling_explorer,
    sharing_explorer,
    waste_explorer,
)
from minipaged.viz.widgets.runs import lives, run
from minipaged.viz.widgets.scene import WIDTH, Box, Line, Scene, Words, look_of, ticks
from minipaged.viz.widgets.svg import to_svg

WIDGET = "application/vnd.jupyter.widget-view+json"


def toy(show=None) -> Explorer:
    def twice(size: int, colour: str) -> Shown:
        scene = Scene(40, (Box(0, 0, size, 10, "used"), Words(4, 30, f"{size} < {colour} & more")))
        return Shown(scene, f"Twice {size} is {2 * size}, drawn in {colour} for whoever looks.", {"twice": 2 * size})
    return Explorer("Doubling", (Control("size", "Size", (1, 2, 3), 2, "cm"),
                                 Control("colour", "Colour", ("red", "blue"), "red", slider=False)), show or twice)


def each_value(explorer: Explorer):
    """The explorer with each control at each of its values, the others at the start."""
    for control in explorer.controls:
        for value in control.values:
            yield control, value, explorer.at(**{control.name: value})


# ---- one explorer

def test_settings_change_what_is_shown():
    explorer = toy()
    assert explorer.data == {"twice": 4}
    assert repr(explorer) == explorer.sentence == (
        "Doubling (Size: 2 cm; Colour: red). Twice 2 is 4, drawn in red for whoever looks.")
    assert explorer.at(size=3).data == {"twice": 6} and explorer.data == {"twice": 4}
    explorer.move(size=1, colour="blue")
    assert explorer.sentence.startswith("Doubling (Size: 1 cm; Colour: blue)")


@pytest.mark.parametrize("values, complaint", [
    ({"size": 4}, "size is 4; it can be 1, 2, 3"),
    ({"height": 4}, "has no setting 'height'; it has size, colour"),
])
def test_a_setting_that_is_not_there_is_refused(values, complaint):
    explorer = toy()
    with pytest.raises(ValueError, match=complaint):
        explorer.move(**values)
    assert explorer.values == {"size": 2, "colour": "red"}


def test_a_sentence_that_says_too_little_is_refused():
    with pytest.raises(ValueError, match="8 words or more"):
        toy(lambda size, colour: Shown(Scene(10, ()), f"{size} words", {})).sentence  # noqa: B018


def test_the_output_holds_a_static_twin_and_the_widget():
    bundle, metadata = toy()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png", DATA_MIME, WIDGET}
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert bundle["text/plain"] == metadata["image/png"]["alt"] == toy().sentence
    assert json.loads(bundle[DATA_MIME]) == {"settings": {"size": 2, "colour": "red"}, "twice": 4}


def test_without_anywidget_the_static_twin_stands_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, "minipaged.viz.widgets.view", raising=False)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    bundle, _ = toy()._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "image/png", DATA_MIME}


def test_the_widget_answers_what_is_asked():
    from minipaged.viz.widgets.view import ExplorerView

    view = ExplorerView(toy())
    assert view.answer["turn"] == 0 and "Twice 2 is 4" in view.answer["sentence"]
    assert [control["texts"] for control in view.controls] == [["1 cm", "2 cm", "3 cm"], ["red", "blue"]]
    view.asked = {"turn": 5, "values": {"size": 2, "colour": 1}}
    assert view.answer["turn"] == 5 and "Twice 3 is 6, drawn in blue" in view.answer["sentence"]
    assert "3 &lt; blue" in view.answer["svg"]


def test_settings_that_cannot_be_served_are_told_and_the_picture_stays():
    from minipaged.viz.widgets.view import ExplorerView

    good = toy()

    def show(size: int, colour: str) -> Shown:
        if size == 3:
            raise ValueError("request r1 needs 3 blocks; the pool holds 2")
        return good.at(size=size, colour=colour).shown
    view = ExplorerView(toy(show))
    before = view.answer
    view.asked = {"turn": 1, "values": {"size": 2, "colour": 0}}
    assert view.answer == {"turn": 1, "svg": before["svg"], "sentence": "request r1 needs 3 blocks; the pool holds 2"}
    view.asked = {"turn": 2, "values": {"size": 0, "colour": 0}}
    assert "Twice 1 is 2" in view.answer["sentence"]


# ---- drawings

def test_an_svg_has_an_element_for_each_shape_and_hatches_as_patterns():
    scene = Scene(50, (Box(1, 2, 3, 4, "prefill"), Box(5, 2, 3, 4, "decode"), Box(9, 2, 3, 4, "request 12"),
                       Words(1, 20, "a < b", "end", 12, True), Line(((0, 0), (4, 5)), "mark")))
    svg = to_svg(scene, 'say "what"')
    assert svg.count("<rect x=") == 3 and svg.count("<text") == 1 and svg.count("<polyline") == 1
    assert svg.count("<pattern") == 2 and 'fill="url(#minipaged-look-prefill)"' in svg
    assert "a &lt; b" in svg and "say &quot;what&quot;" in svg and "http" not in svg.replace(
        "http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("largest, expected", [
    (320, [0, 100, 200, 300]), (1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0.03, [0, 0.01, 0.02, 0.03]), (7, [0, 2, 4, 6]),
    (16384, [0, 5000, 10000, 15000]), (0, [0]),
])
def test_ticks_are_round(largest, expected):
    assert ticks(largest) == pytest.approx(expected)


def test_lives_have_every_step_of_every_request():
    """The spans of a request cover, without a hole, its time from arrival to its end; at work as often as scheduled."""
    requests = [TraceRequest(3.0 * index, 20, 10 + 7 * index, priority=index % 2) for index in range(6)]
    for options in ({"policy": "round_robin", "quantum": 3}, {"preemption": "swap", "num_cpu_blocks": 9}, {},
                    {"policy": "static"}, {"policy": "priority"}):
        one = run(requests, Serving(24, 4, max_num_seqs=3, max_num_batched_tokens=16, enable_prefix_caching=False,
                                    **options))
        spans = lives(one)
        scheduled = {name: 0 for name in spans}
        for event in one.events.select("step"):
            for name in event.scheduled:
                scheduled[name] += 1
        for record in one.result.records:
            row = spans[f"r{record.number}"]
            assert row[0].start == record.arrival and row[-1].end == record.last_token
            assert all(left.end == right.start and left.look != right.look for left, right in zip(row, row[1:]))
            # the first span at work may begin between two steps, with the arrival
            at_work = sum(span.end - span.start for span in row if span.look in ("prefill", "decode"))
            assert at_work <= scheduled[f"r{record.number}"] < at_work + 1
        looks = {span.look for row in spans.values() for span in row}
        assert ("paused" in looks) is ("quantum" in options)
        assert ("swapped" in looks) is (options.get("preemption") == "swap")


# ---- all of them

@pytest.mark.parametrize("name", EXPLORERS)
def test_every_position_of_every_control_says_something_with_numbers(name):
    explorer = EXPLORERS[name]()
    seen = set()
    for control, value, moved in each_value(explorer):
        where = f"{control.name}={value}"
        said = moved.shown.sentence
        assert len(said.split()) >= 8 and len(re.findall(r"\d", said)) >= 3, where
        assert not re.search(r"(?<![\d.,])1 (?!ms\b)[a-z]+s\b", said), f"{where}: {said}"
        assert "nan" not in moved.svg() and "inf" not in moved.svg().replace("info", ""), where
        for shape in moved.shown.scene.shapes:
            if isinstance(shape, Box):
                assert -0.01 <= shape.x and shape.x + shape.width <= WIDTH + 0.01, f"{where}: {shape}"
                assert shape.width >= 0 and 0 <= shape.y <= moved.shown.scene.height, f"{where}: {shape}"
        seen.add(said)
    assert len(seen) > 10, "moving the controls changes little"


@pytest.mark.parametrize("name", EXPLORERS)
def test_a_move_is_computed_and_drawn_in_time(name):
    """150 ms is the limit from key to picture; the browser takes some 50 of them."""
    spent = []
    for _, _, moved in each_value(EXPLORERS[name]()):
        moved._kept.clear()
        start = time.process_time()
        moved.svg()
        spent.append(time.process_time() - start)
    assert sorted(spent)[len(spent) // 2] < 0.1, f"median {sorted(spent)[len(spent) // 2]:.3f} s"


@pytest.mark.parametrize("name", EXPLORERS)
def test_the_same_settings_give_the_same_bytes(name):
    first, second = EXPLORERS[name](), EXPLORERS[name]()
    assert first.svg() == second.svg() and first.sentence == second.sentence and first.png() == second.png()


@pytest.mark.parametrize("name", EXPLORERS)
def test_classes_of_a_picture_stay_apart_in_grey(name):
    looks = {shape.look for _, _, moved in each_value(EXPLORERS[name]())
             for shape in moved.shown.scene.shapes if isinstance(shape, Box)}
    for one, other in itertools.combinations(sorted(looks), 2):
        a, b = look_of(one), look_of(other)
        assert a.hatch != b.hatch or abs(luminance(a.facecolor) - luminance(b.facecolor)) > 0.15, (one, other)


@pytest.mark.full
@pytest.mark.parametrize("name", EXPLORERS)
def test_any_mix_of_settings_can_be_served(name):
    chance, explorer = random.Random(name), EXPLORERS[name]()
    for _ in range(150):
        values = {control.name: chance.choice(control.values) for control in explorer.controls}
        assert re.search(r"\d", explorer.at(**values).shown.sentence), values


# ---- what they say is true

def test_kv_size_is_the_formula():
    explorer = kv_size_explorer()
    assert explorer.data["bytes_per_token"] == 2 * 32 * 8 * 128 * 2
    assert explorer.data["kv_bytes"] == 16 * 8192 * 131072
    assert explorer.at(dtype="fp8").data["kv_bytes"] * 2 == explorer.data["kv_bytes"]
    assert list(explorer.data["bytes_per_token_by_heads"].values()) == [4 * 131072, 131072, 131072 // 8]


def test_a_static_batch_of_the_four_keeps_its_seats_at_work_for_47_5_percent():
    explorer = batching_explorer().at(workload="A to D")
    assert explorer.data["static"] == {"steps": 200, "seat_use": 0.475, "mean_end": 95.0}
    assert "47.5%" in explorer.sentence
    more = batching_explorer().at(workload="A to D, then E, F, G").data
    assert more["fcfs"]["steps"] < more["static"]["steps"]
    assert more["fcfs"]["seat_use"] == pytest.approx(640 / (4 * more["fcfs"]["steps"]))
    alike = batching_explorer().at(workload="all alike").data
    assert alike["static"] == alike["fcfs"]


def test_paging_wastes_least_and_large_blocks_waste_more():
    explorer = waste_explorer()
    used = {memory: explorer.at(memory=memory).data["shares"]["used"] for memory in ("max", "pow2", "oracle", "paged")}
    assert used["max"] < used["pow2"] < used["oracle"] < 0.5 < 0.9 < used["paged"]
    by_size = [explorer.at(block_size=size).data["shares"]["reserved"] for size in (1, 16, 64, 256)]
    assert by_size == sorted(by_size) and by_size[0] == 0
    for shares in (explorer.data["shares"], explorer.at(memory="pow2").data["shares"]):
        assert sum(shares.values()) == pytest.approx(1)


def test_answers_share_the_full_blocks_of_the_prompt_and_copy_its_tail():
    explorer = sharing_explorer()  # 4 answers of 50 to 500 tokens in blocks of 16: 31 full blocks and a tail
    assert (explorer.data["shared"], explorer.data["copies"]) == (31, 3)
    sharing = prefix_sharing(4, 500, 16, own_tokens=49)  # the last token of an answer takes no slot
    assert (explorer.data["apart"], explorer.data["held"]) == (sharing.blocks_apart, sharing.blocks_shared)
    whole = explorer.at(prompt=496).data
    assert (whole["shared"], whole["copies"]) == (31, 0)
    assert explorer.at(answers=1).data["saved"] == 0


def test_a_cache_needs_blocks_smaller_than_the_common_beginning():
    explorer = prefix_explorer().at(prefix=100, groups=1)
    assert explorer.at(block_size=256).data["hit_rate"] == 0
    assert explorer.at(block_size=16).data["hit_rate"] > explorer.at(block_size=64).data["hit_rate"] > 0
    assert explorer.data["with"]["first_token_ms"] < explorer.data["without"]["first_token_ms"]


def test_round_robin_trades_the_first_token_for_gaps():
    explorer = scheduling_explorer()
    fcfs, shared = explorer.data, explorer.at(policy="round_robin").data
    assert shared["mean_first_token"] < fcfs["mean_first_token"] and shared["longest_gap"] > fcfs["longest_gap"] == 1
    urgent = scheduling_explorer().at(workload="the urgent come last", every=0)
    assert urgent.at(policy="priority").data["mean_first_token"] < urgent.data["mean_first_token"]


def test_swap_computes_nothing_again_and_a_large_pool_needs_no_victim():
    explorer = preemption_explorer()
    assert explorer.data["lost_tokens"] > 0 == explorer.data["swapped_blocks"]
    swap = explorer.at(mode="swap").data
    assert swap["lost_tokens"] == 0 < swap["swapped_blocks"]
    largest = explorer.at(pool=explorer.controls[0].values[-1]).data
    assert largest["preemptions"] == 0 and largest["seconds"] == largest["seconds_without"]


def test_a_small_budget_bounds_the_gaps_and_delays_the_newcomer():
    rows = [chunk_explorer().at(budget=budget).data for budget in (64, 256, 1024, 4096)]
    assert [row["longest_gap_ms"] for row in rows] == sorted(row["longest_gap_ms"] for row in rows)
    assert rows[0]["first_token_ms"] > rows[-1]["first_token_ms"]
