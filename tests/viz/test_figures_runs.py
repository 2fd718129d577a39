"""Pictures of runs along their steps: what they draw is what the scheduler did."""
from __future__ import annotations

import random

import pytest

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog
from minipaged.viz.figures.anatomy import step_anatomy
from minipaged.viz.figures.examples import value
from minipaged.viz.figures.plan import chained_keys, hash_chain, step_writes
from minipaged.viz.figures.pool import block_map
from minipaged.viz.figures.prefixes import prefix_tree
from minipaged.viz.figures.steps import spans, steps_of
from minipaged.viz.figures.timeline import batching_gantt, chunk_interleaving, kv_use_over_time, longest_waits, waits


def bars(picture) -> list[tuple[str, float, float]]:
    """(gid, left, width) of every bar."""
    return [(patch.get_gid(), patch.get_x(), patch.get_width()) for axes in picture.figure.axes
            for patch in axes.patches if patch.get_gid()]


@pytest.mark.parametrize("options", [
    {}, {"scheduling_policy": "round_robin", "quantum": 2}, {"victim": "most_generated"}, {"preemption_mode": "swap"},
    {"max_num_batched_tokens": 6}], ids=str)
def test_the_steps_are_those_of_the_scheduler(options):
    """Random requests in a small pool: tokens, seats, blocks in use and preemptions of each step."""
    chance = random.Random(3)
    events = EventLog()
    kv = KVCacheManager(7, 4, events=events, num_cpu_blocks=8 if "preemption_mode" in options else 0)
    scheduler = ContinuousBatchingScheduler(kv, max_num_seqs=3, events=events, **options)
    for number in range(10):
        prompt = [5] * chance.randint(1, 12) + [number]
        scheduler.add_request(Request(f"r{number}", prompt, SamplingParams(max_tokens=chance.randint(2, 12))))
    seen = []
    while scheduler.has_unfinished:
        plan = scheduler.schedule()
        running = {one.request_id for one in scheduler.running}
        seen.append((plan.num_scheduled_tokens, running, kv.num_blocks - kv.free_count,
                     sum(count > 1 for count in kv.allocator.ref_count), sorted(plan.preempted)))
        scheduler.commit(plan, {item.request_id: 1 for item in plan.scheduled if item.sample})
    steps = steps_of(events)
    assert [(step.tokens, {name for name, what in step.doing.items() if what in ("prefill", "decode", "idle")},
             step.used_blocks, step.shared_blocks, sorted(step.preempted)) for step in steps] == seen
    assert any(step.preempted for step in steps), "the case is too easy"


def test_the_source_texts_static_batch_uses_47_5_percent_of_its_seats():
    """100, 50, 200 and 30 tokens: D idles from step 31 on, B from 51, A from 101."""
    picture = batching_gantt({"static": value("static_events")}, first_step=1)
    assert "47.5% of the steps of 4 seats compute" in picture.alt
    idle = {name: [(start + 1, length) for what, start, length in spans if what == "idle"]
            for name, spans in picture.data["static"].items()}
    assert idle == {"A": [(101, 100)], "B": [(51, 150)], "C": [], "D": [(31, 170)]}
    drawn = [(left, width) for gid, left, width in bars(picture) if gid == "D:idle"]
    assert drawn == [(30.5, 170)]


def test_the_source_texts_continuous_batch_lets_E_F_G_in_at_31_51_101():
    data = batching_gantt({"": value("continuous_events")}).data[""]
    begin = {name: next(start + 1 for what, start, _ in spans if what == "prefill") for name, spans in data.items()}
    assert begin == {"A": 1, "B": 1, "C": 1, "D": 1, "E": 31, "F": 51, "G": 101}


def test_runs_are_compared_by_the_same_number_of_seats():
    """One request after the other in one run, both at once in the other: the first leaves a seat empty."""
    def run(seats: int) -> EventLog:
        events = EventLog()
        scheduler = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=events), max_num_seqs=seats, events=events)
        for name in "AB":
            scheduler.add_request(Request(name, [1], SamplingParams(max_tokens=4)))
        while scheduler.has_unfinished:
            scheduler.step(lambda plan: {item.request_id: 1 for item in plan.scheduled})
        return events

    titles = [axes.get_title(loc="left") for axes in batching_gantt({"one": run(1), "two": run(2)}).figure.axes]
    assert titles == ["one: 8 steps, 50.0% of the seats compute", "two: 4 steps, 100.0% of the seats compute"]


def test_recompute_starts_again_and_swap_goes_on():
    lost = [spans(steps_of(value(name)), "C") for name in ("recompute_events", "swap_events")]
    assert [what for what, _, _ in lost[0]] == ["prefill", "decode", "preempted", "prefill", "decode"]
    assert [what for what, _, _ in lost[1]] == ["prefill", "decode", "swapped", "decode"]


def test_a_cancelled_plan_is_no_step():
    events = EventLog()
    scheduler = ContinuousBatchingScheduler(KVCacheManager(4, 4, events=events), events=events)
    scheduler.add_request(Request("A", [1, 2], SamplingParams(max_tokens=1)))
    scheduler.cancel(scheduler.schedule())
    scheduler.step(lambda plan: {"A": 1})
    assert [step.tokens for step in steps_of(events)] == [{"A": 2}]


def test_waits_count_the_steps_between_two_tokens():
    assert longest_waits(steps_of(value("fcfs_events"))) == {"A": 0, "B": 0, "C": 8, "D": 8, "E": 16, "F": 16}
    picture = waits({"round robin": value("round_robin_events")}, bound=6)
    assert set(picture.data["waits"]["round robin"].values()) == {6} and "The bound is 6." in picture.alt


def test_chunks_keep_to_the_budget_and_whole_prompts_do_not():
    picture = chunk_interleaving({"whole": value("whole_events"), "chunks": value("chunked_events")}, budget=8)
    tokens = {label: [sum(step.values()) for step in steps] for label, steps in picture.data.items()}
    assert max(tokens["chunks"]) == 8 and max(tokens["whole"]) == 3 + 4 + 30 + 20
    assert sum(tokens["chunks"]) == sum(tokens["whole"])


def test_use_over_time_adds_up_to_the_pool():
    picture = kv_use_over_time(value("events"))
    parts = [picture.data[name] for name in ("held by one", "shared", "free, still cached")]
    assert all(sum(column) <= picture.data["blocks"] for column in zip(*parts))
    assert max(parts[1]) == 2 and "14 over" in picture.alt


def test_long_runs_and_large_pools_stay_small_and_readable():
    """Hundreds of steps, 70 requests, 2,000 blocks: nothing overlaps, the data stay short."""
    events = EventLog()
    scheduler = ContinuousBatchingScheduler(KVCacheManager(2000, 4, events=events), max_num_seqs=2, events=events)
    for number in range(70):
        scheduler.add_request(Request(f"request-{number}", [number, 1, 2], SamplingParams(max_tokens=9)))
    while scheduler.has_unfinished:
        scheduler.step(lambda plan: {item.request_id: 1 for item in plan.scheduled if item.sample})
    assert len(steps_of(events)) > 300
    for picture in (kv_use_over_time(events), waits(events), chunk_interleaving(events), block_map(events)):
        assert len(picture.compact_data()) < 9000, picture.alt
    assert len(block_map(events).data) == 256 and "Map of 2000 blocks" in block_map(events).alt
    with pytest.raises(ValueError, match="a tree with 70 ends"):
        prefix_tree(events)


def test_a_log_without_steps_is_refused():
    with pytest.raises(ValueError, match="has no step; pass an event log of a run"):
        batching_gantt(EventLog())


def test_a_step_writes_the_slots_of_its_plan():
    plan = value("plan")
    picture = step_writes(plan, 8)
    assert picture.data["slots"] == {"1": [2 * 4 + 2], "2": [3 * 4 + 2]} and picture.data["copies"] == [(2, 3)]
    faces = {patch.get_gid(): patch.get_facecolor() for patch in picture.figure.axes[0].patches}
    assert faces["slot 10"] != faces["slot 14"] and faces["slot 0"] == faces["slot 8"]


def test_a_step_is_told_as_plan_run_and_commit_in_this_order():
    """Request 2 comes, shares two blocks and the tail, which is copied before it is written."""
    plan, run, commit = step_anatomy(value("copy_events"), 1).data["columns"]
    assert plan[:3] == ["2 shares P0, count 2", "2 shares P1, count 2", "2 shares P2, count 2"]
    assert run == ["P2 is copied to P3 for 2", "1 computes position 10", "2 computes position 10"]
    assert commit[:2] == ["P2 can be found by its contents", "P3 can be found by its contents"]
    assert commit[-2:] == ["1 gets token 7", "2 gets token 7"]
    with pytest.raises(ValueError, match="the log has no step 99"):
        step_anatomy(value("copy_events"), 99)


def test_the_keys_of_the_picture_are_those_of_the_prefix_cache():
    tokens = [*range(50, 60), 1, 2]
    events = EventLog()
    scheduler = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=events), events=events)
    scheduler.add_request(Request("A", tokens, SamplingParams(max_tokens=1)))
    scheduler.step(lambda plan: {"A": 1})
    published = [event.key for event in events.select("publish", tail=False)]
    assert hash_chain({"A": tokens}).data == {"A": published}
    assert not set(chained_keys(tokens, 4)) & set(chained_keys(tokens, 4, "blue")), "a salt changes every key"
