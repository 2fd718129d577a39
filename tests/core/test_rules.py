"""Small rules that the larger tests pass by."""
from __future__ import annotations

from minipaged.core import EventLog, KVCacheManager, PrefixCache, Request

from .helpers import add, finish_all, make, play
from .shadow import ShadowExecutor


def test_nobody_is_rotated_while_seats_are_free() -> None:
    events = EventLog()
    scheduler = make(12, scheduling_policy="round_robin", quantum=1, max_num_seqs=4, events=events)
    for name in "abc":
        add(scheduler, name, 3, max_tokens=9)
    play(scheduler, 5)
    assert events.select("rotate") == []
    assert [request.request_id for request in scheduler.running] == ["a", "b", "c"]


def test_a_paused_request_that_feeds_a_copy_keeps_its_blocks_in_that_step() -> None:
    """Else a block could be restored into the freed source before the copy is made."""
    events = EventLog()
    scheduler = make(4, scheduling_policy="round_robin", quantum=1, max_num_seqs=2, preemption_mode="swap",
                     num_cpu_blocks=8, events=events)
    executor = ShadowExecutor(scheduler)
    a, w = add(scheduler, "a", 7, max_tokens=6), add(scheduler, "w", 5, max_tokens=3)
    assert play(scheduler, 3, executor.run)[-1].preempted == ["w"]
    parent = scheduler.kv.blocks_of("a")
    child = scheduler.fork("a", "child", a.params)
    plan = play(scheduler, 1, executor.run)[0]  # a is rotated, the child writes, w finds no room
    assert [item.request_id for item in plan.scheduled] == ["child"]
    assert [source for source, _ in plan.copies] == [parent[2]]
    assert plan.preempted == [] and scheduler.kv.blocks_of("a") == parent
    finish_all(scheduler, a, w, executor=executor)
    assert child.token_ids == a.token_ids
    assert [(event.was, event.cached_tokens) for event in events.select("admit", request="w")] == [
        ("waiting", 0), ("swapped", 0)]  # what came back from the host is no hit


def test_without_prefix_caching_nothing_is_looked_up() -> None:
    cache = PrefixCache(4, 4)
    cache.store([1, 2, 3, 4], [0])
    one = Request("one", [1, 2, 3, 4, 5])
    assert KVCacheManager(4, 4, prefix_cache=cache).match(one).num_tokens == 4
    assert KVCacheManager(4, 4, prefix_cache=cache, enable_prefix_caching=False).match(one).num_tokens == 0
