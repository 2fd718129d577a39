"""The event log: memory and queues can be rebuilt from it alone, at every step; the running example's golden log."""
from __future__ import annotations

import json

import pytest

from minipaged.core import Event, EventLog, KVCacheManager
from minipaged.core.events import KINDS
from minipaged.event_file import load_events, save_events, to_dict, to_json

from .helpers import Rebuilt, add, finish_all, make, play
from .shadow import ShadowExecutor, StepFailed

# ---- everything from the log alone ----


class Follower:
    """Feeds new events to a `Rebuilt` and compares."""

    def __init__(self, scheduler, log: EventLog) -> None:
        self.scheduler, self.log, self.seen = scheduler, log, 0
        self.rebuilt = Rebuilt()

    def check(self) -> None:
        for event in self.log[self.seen:]:
            self.rebuilt.see(event)
        self.seen = len(self.log)
        self.rebuilt.equals(self.scheduler)


RUNS = {
    "recompute": {},
    "swap": {"preemption_mode": "swap", "num_cpu_blocks": 12},
    "small host": {"preemption_mode": "swap", "num_cpu_blocks": 3},
    "append": {"free_order": "append"},
    "no caching": {"enable_prefix_caching": False},
    "full blocks only": {"share_partial_blocks": False},
    "round-robin": {"scheduling_policy": "round_robin", "quantum": 2},
    "round-robin with swap": {"scheduling_policy": "round_robin", "quantum": 1, "preemption_mode": "swap",
                              "num_cpu_blocks": 12},
    "priority": {"scheduling_policy": "priority"},
    "static": {"static": True},
}


@pytest.mark.parametrize("name", RUNS)
def test_memory_and_queues_from_the_log_alone(name: str) -> None:
    log = EventLog()
    scheduler = make(7, max_num_seqs=3, max_num_batched_tokens=11, events=log, **RUNS[name])
    follower = Follower(scheduler, log)
    executor = ShadowExecutor(scheduler)
    follower.check()
    forks = 0
    for number in range(70):
        if number % 2 == 0 and number < 50:
            add(scheduler, str(number), [number % 3] * 3 + list(range(number % 9)), max_tokens=6 + number % 4,
                priority=number % 3)
            follower.check()
        if name != "static" and number % 9 == 4 and scheduler.running:
            parent = scheduler.running[0]
            if parent.num_output_tokens + 1 < parent.params.max_tokens:
                scheduler.fork(parent.request_id, f"fork{number}")
                forks += 1
                follower.check()
        if number % 11 == 7 and scheduler.waiting:
            scheduler.abort(scheduler.waiting[-1].request_id)
            follower.check()
        plan = scheduler.schedule()
        follower.check()
        if number % 13 == 9:
            scheduler.cancel(plan)
        else:
            scheduler.commit(plan, executor.run(plan))
        follower.check()
    while scheduler.has_unfinished:
        play(scheduler, run=executor.run)
        follower.check()
    assert scheduler.kv.reset_prefix_cache()
    follower.check()
    counts = log.counts()
    wanted = {"pool", "scheduler", "add", "admit", "allocate", "free", "step", "commit", "cancel", "finish", "reset"}
    if name != "static":
        wanted |= {"fork", "share", "release", "copy", "preempt"}
    if "swap" in name or name == "small host":
        wanted |= {"swap_out", "swap_in", "host_free"}
    if "round" in name:
        wanted |= {"rotate"}
    if name != "no caching":
        wanted |= {"publish", "withdraw"}
    assert wanted <= counts.keys(), wanted - counts.keys()
    assert forks or name == "static"


def test_a_failing_step_can_be_followed_too() -> None:
    log = EventLog()
    scheduler = make(8, events=log)
    follower = Follower(scheduler, log)
    executor = ShadowExecutor(scheduler)

    def fail(plan) -> dict[str, int]:
        raise StepFailed("now")

    add(scheduler, "a", range(10)), add(scheduler, "b", range(10))
    with pytest.raises(StepFailed):
        scheduler.step(fail)
    follower.check()
    play(scheduler, run=executor.run)
    follower.check()


def test_every_kind_of_event_has_exactly_the_fields_it_promises() -> None:
    seen = set()
    for options in ({"preemption_mode": "swap", "num_cpu_blocks": 4, "scheduling_policy": "round_robin", "quantum": 1,
                     "max_num_seqs": 2}, {}):
        log = EventLog()
        scheduler = make(5, events=log, **options)
        executor = ShadowExecutor(scheduler)
        for number in range(4):
            add(scheduler, str(number), [1, 2, 3, 4, 5, number][:6 - number % 2], max_tokens=6)
        play(scheduler, 2, run=executor.run)
        scheduler.fork(scheduler.running[0].request_id, "fork")
        scheduler.cancel(scheduler.schedule())
        while scheduler.has_unfinished:
            play(scheduler, run=executor.run)
        scheduler.kv.reset_prefix_cache()
        for event in log:
            assert tuple(event.data) == KINDS[event.kind][1], str(event)
            seen.add(event.kind)
    assert seen == set(KINDS)


# ---- the running example: blocks of 4; P0, P1, P2 are blocks 0, 1, 2 ----

PROMPT = list(range(50, 60))  # 10 tokens: P0 and P1 full, P2 half full

GOLDEN = """
-1 pool num_blocks=6 block_size=4 num_cpu_blocks=0 free_order=unhashed_first
-1 scheduler policy=fcfs max_num_seqs=64 max_num_batched_tokens=2048
-1 add request=A num_tokens=10 max_num_tokens=13 priority=0
0 allocate block=0 request=A index=0 ref_count=1
0 allocate block=1 request=A index=1 ref_count=1
0 allocate block=2 request=A index=2 ref_count=1
0 publish block=0 num_tokens=4 tail=False
0 publish block=1 num_tokens=4 tail=False
0 admit request=A cached_tokens=0 resumed=False was=waiting
0 step scheduled={A: [0, 10]} free_blocks=3 waiting=0 running=1
0 publish block=2 num_tokens=2 tail=True
0 commit tokens={A: 7}
0 add request=B num_tokens=11 max_num_tokens=13 priority=0
1 share block=0 request=B index=0 ref_count=2 num_tokens=10
1 share block=1 request=B index=1 ref_count=2 num_tokens=10
1 share block=2 request=B index=2 ref_count=2 num_tokens=10
1 allocate block=3 request=B index=2 ref_count=1
1 copy src=2 dst=3 request=B index=2
1 release block=2 request=B ref_count=1
1 admit request=B cached_tokens=10 resumed=False was=waiting
1 step scheduled={A: [10, 1], B: [10, 1]} free_blocks=2 waiting=0 running=2
1 publish block=2 num_tokens=3 tail=True
1 publish block=3 num_tokens=3 tail=True
1 commit tokens={A: 7, B: 7}
1 add request=C num_tokens=8 max_num_tokens=12 priority=0
1 add request=D num_tokens=8 max_num_tokens=9 priority=0
2 publish block=2 num_tokens=4 tail=False
2 publish block=3 num_tokens=4 tail=False
2 allocate block=4 request=C index=0 ref_count=1
2 allocate block=5 request=C index=1 ref_count=1
2 publish block=4 num_tokens=4 tail=False
2 publish block=5 num_tokens=4 tail=False
2 admit request=C cached_tokens=0 resumed=False was=waiting
2 step scheduled={A: [11, 1], B: [11, 1], C: [0, 8]} free_blocks=0 waiting=1 running=3
2 commit tokens={A: 7, B: 7, C: 7}
2 release block=0 request=A ref_count=1
2 release block=1 request=A ref_count=1
2 free block=2 request=A end=back cached=True
2 finish request=A reason=length num_tokens=13
2 free block=3 request=B end=back cached=True
2 free block=1 request=B end=back cached=True
2 free block=0 request=B end=back cached=True
2 finish request=B reason=length num_tokens=13
3 allocate block=2 request=C index=2 ref_count=1
3 withdraw block=2 num_tokens=4 reason=evict
3 withdraw block=2 num_tokens=3 reason=evict
3 share block=0 request=D index=0 ref_count=1 num_tokens=4
3 allocate block=3 request=D index=1 ref_count=1
3 withdraw block=3 num_tokens=4 reason=evict
3 withdraw block=3 num_tokens=3 reason=evict
3 publish block=3 num_tokens=4 tail=False
3 admit request=D cached_tokens=4 resumed=False was=waiting
3 step scheduled={C: [8, 1], D: [4, 4]} free_blocks=1 waiting=0 running=2
3 publish block=2 num_tokens=1 tail=True
3 commit tokens={C: 7, D: 7}
3 free block=3 request=D end=back cached=True
3 free block=0 request=D end=back cached=True
3 finish request=D reason=length num_tokens=9
4 step scheduled={C: [9, 1]} free_blocks=3 waiting=0 running=1
4 publish block=2 num_tokens=2 tail=True
4 commit tokens={C: 7}
5 step scheduled={C: [10, 1]} free_blocks=3 waiting=0 running=1
5 publish block=2 num_tokens=3 tail=True
5 commit tokens={C: 7}
5 free block=2 request=C end=back cached=True
5 free block=5 request=C end=back cached=True
5 free block=4 request=C end=back cached=True
5 finish request=C reason=length num_tokens=12
"""


def compact(event: Event) -> str:
    """An event on one line, without its key."""
    shown = {name: value for name, value in event.data.items() if name not in ("key", "parent")}
    return f"{event.step} {event.kind} " + " ".join(f"{name}={_plain(value)}" for name, value in shown.items())


def _plain(value: object) -> str:
    return "{" + ", ".join(f"{k}: {v}" for k, v in value.items()) + "}" if isinstance(value, dict) else str(value)


def running_example() -> EventLog:
    log = EventLog()
    scheduler = make(6, events=log)
    add(scheduler, "A", PROMPT, max_tokens=3)
    play(scheduler)
    add(scheduler, "B", [*PROMPT, 7], max_tokens=2)
    play(scheduler)
    add(scheduler, "C", range(80, 88), max_tokens=4)
    add(scheduler, "D", [*PROMPT[:4], 1, 2, 3, 4], max_tokens=1)
    while scheduler.has_unfinished:
        play(scheduler)
    return log


def test_the_running_example_event_by_event() -> None:
    found = [compact(event) for event in running_example()]
    assert found == GOLDEN.strip().splitlines()


# ---- the log itself ----

def test_a_chain_of_keys_is_in_the_log() -> None:
    log = EventLog()
    scheduler = make(8, events=log)
    add(scheduler, "a", range(10))
    play(scheduler)
    first, second, tail = log.select("publish")
    assert second.parent == first.key != second.key and tail.parent == second.key and tail.key is None
    assert len(first.key) == 12 and int(first.key, 16) >= 0


def test_select_counts_and_reading_fields() -> None:
    log = EventLog()
    log.emit("allocate", block=1, request="a", index=0, ref_count=1)
    log.step = 3
    log.emit("free", block=1, request="a", end="front", cached=False)
    log.emit("allocate", block=2, request=None, index=None, ref_count=1)
    assert len(log) == 3 and [event.time for event in log] == [0, 1, 2] and log[1].step == 3
    assert [event.block for event in log.select("allocate")] == [1, 2]
    assert log.select("allocate", "free", block=1) == [log[0], log[1]]
    assert log.select(request=None) == [log[2]]  # None is a value, an absent field is not
    assert log.select("free", src=None) == []
    assert log.counts() == {"allocate": 2, "free": 1}
    assert str(log[1]) == "    1 step   3  free      block=1 request=a end=front cached=False"
    with pytest.raises(AttributeError, match="a 'free' event has no 'src'; it has .*'block'"):
        log[1].src  # noqa: B018
    with pytest.raises(ValueError, match="no event kind 'gone'; there are pool, scheduler, add"):
        log.select("gone")


def test_saved_and_loaded_logs_are_equal(tmp_path) -> None:
    log = running_example()
    save_events(log, tmp_path / "log.json")
    again = load_events(tmp_path / "log.json")
    assert list(again) == [Event(event.time, event.step, event.kind, json.loads(json.dumps(event.data)))
                           for event in log]
    assert to_json(again) == to_json(log)
    assert len((tmp_path / "log.json").read_text(encoding="utf-8").splitlines()) == len(log) + 2


@pytest.mark.parametrize("text", [
    "", "{", "[1]", "{}", "[" * 100_000, "5", '{"a": 1}', '[{"time": 0, "step": 0}]',
    '[{"time": 0, "step": 0, "kind": "x"}]', '[{"time": 0, "step": 0, "kind": ["x"]}]',
    '[{"time": 0, "step": 0, "kind": "commit"}]', '[{"time": 1, "step": 0, "kind": "commit", "tokens": {}}]'])
def test_a_broken_log_names_the_file(tmp_path, text: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="broken.json is not an event log: "):
        load_events(path)


def test_without_a_log_everything_is_the_same() -> None:
    def run(log: EventLog | None) -> list:
        scheduler = make(6, events=log, preemption_mode="swap", num_cpu_blocks=4)
        requests = [add(scheduler, name, 6, max_tokens=8) for name in "abc"]
        return finish_all(scheduler, *requests)

    assert run(None) == run(EventLog())


def test_a_pool_reports_itself() -> None:
    log = EventLog()
    KVCacheManager(6, 4, num_cpu_blocks=2, free_order="append", events=log)
    assert [to_dict(event) for event in log] == [{"time": 0, "step": -1, "kind": "pool", "num_blocks": 6,
                                                  "block_size": 4, "num_cpu_blocks": 2, "free_order": "append"}]
