"""The picture never lies: state rebuilt from the log is the engine's own, in 200 random runs of every policy."""
from __future__ import annotations

import subprocess
import sys

import pytest

from minipaged.core import EventLog
from minipaged.viz.replay import Replay, ReplayError, replay

from ..core.helpers import add, make, play
from .recorded_runs import engine_state, run


def replayed_state(state: Replay) -> dict:
    """A Replay in the words of engine_state."""
    live = {*state.running, *state.waiting}
    return {
        "ref_count": state.ref_count, "free": state.free_blocks(), "tables": state.tables,
        "running": state.running, "waiting": state.waiting,
        "requests": {one.name: [one.status, one.num_tokens, one.computed, one.preemptions]
                     for one in state.requests.values() if one.name in live},
        "covered": [state.covered(block) for block in range(state.num_blocks)],
        "host_free": state.num_cpu_blocks - len(state.host),
    }


@pytest.mark.parametrize("part", range(4))
def test_the_state_from_the_log_is_the_engines_in_200_random_runs(part: int) -> None:
    policies, seen = set(), set()
    for seed in range(50 * part, 50 * (part + 1)):
        state = Replay()

        def compare(world, log: EventLog, state=state, seed=seed) -> None:
            for event in log[state.time + 1:]:
                state.see(event)
            assert replayed_state(state) == engine_state(world), f"seed {seed}, after event {state.time}"
            for block, names in enumerate(state.holders):
                assert sorted(names) == sorted(name for name, table in state.tables.items() if block in table)

        log = run(seed, 40, compare)
        assert state.faults == []
        policies.add(log[1].policy)
        seen |= set(log.counts())
    assert policies == {"fcfs", "round_robin", "priority", "static"}
    assert {"fork", "copy", "preempt", "swap_out", "swap_in", "cancel", "rotate", "reset"} <= seen


def test_filled_counts_the_written_tokens_of_each_block() -> None:
    log = EventLog()
    scheduler = make(4, events=log)
    add(scheduler, "A", 6)
    plan = scheduler.schedule()
    assert replay(log).filled() == [0, 0, 0, 0]  # planned is not yet written
    scheduler.commit(plan, {"A": 1})
    assert replay(log).filled() == [4, 2, 0, 0]
    assert replay(log).requests["A"].num_tokens == 7


def test_until_stops_after_that_event() -> None:
    log = EventLog()
    scheduler = make(4, events=log)
    add(scheduler, "A", 6)
    play(scheduler)
    first = log.select("allocate")[0].time
    assert replay(log, until=first).tables == {"A": [0]} and replay(log, until=first - 1).tables == {}


@pytest.mark.parametrize("events, sentence", [
    ([], "the log is empty"),
    ([("add", {"request": "A", "num_tokens": 1, "max_num_tokens": 2, "priority": 0})], "begins with 'add'"),
])
def test_a_log_without_a_pool_is_refused(events: list, sentence: str) -> None:
    with pytest.raises(ReplayError, match=sentence):
        replay(_log(events))


POOL = ("pool", {"num_blocks": 4, "block_size": 4, "num_cpu_blocks": 2, "free_order": "append"})
TAKE = ("allocate", {"block": 0, "request": "A", "index": 0, "ref_count": 1})
FREE = ("free", {"block": 0, "request": "A", "end": "back", "cached": False})


@pytest.mark.parametrize("events, sentence", [
    ([TAKE, FREE, FREE], "P0 is freed a second time"),
    ([TAKE, TAKE], "P0 is handed out, but it is not free"),
    ([TAKE, ("release", {"block": 0, "request": "B", "ref_count": 0})], "B gives P0 back, but does not hold it"),
    ([TAKE, ("share", {"block": 0, "request": "B", "index": 0, "ref_count": 3, "num_tokens": 4})],
     "P0 has 2 holders, but its count is 3"),
    ([TAKE, ("share", {"block": 0, "request": "B", "index": 0, "ref_count": 2, "num_tokens": 4}), FREE],
     "P0 goes to the free queue, but 1 still hold it"),
    ([TAKE, ("copy", {"src": 0, "dst": 1, "request": "A", "index": 0})], "P0 is copied, but only one request holds it"),
    ([("withdraw", {"block": 2, "key": "ab", "num_tokens": 4, "reason": "evict"})], "P2 loses a key"),
    ([("host_free", {"host_block": 1})], "H1 is freed a second time"),
    ([("admit", {"request": "A", "cached_tokens": 0, "resumed": False, "was": "waiting"})], "not in the queue"),
    ([("rotate", {"request": "A"})], "A leaves the queues, but it is in none"),
    ([("step", {"scheduled": {}, "free_blocks": 3, "waiting": 0, "running": 0})], "counts 3 free blocks, the log 4"),
])
def test_an_event_that_cannot_follow_is_named_and_survived(events: list, sentence: str) -> None:
    log = _log([POOL, *events])
    with pytest.raises(ReplayError, match=f"event {len(log) - 1} cannot follow: .*{sentence}"):
        replay(log)
    state = replay(log, strict=False)
    assert [time for time, _ in state.faults] == [len(log) - 1]


def test_no_heavy_import() -> None:
    """The browser-only kernel of a site has neither numpy nor matplotlib nor torch."""
    code = ("import sys, minipaged.viz.replay; "
            "print(*sorted({'numpy', 'matplotlib', 'torch', 'anywidget'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def _log(events: list) -> EventLog:
    log = EventLog()
    for kind, data in events:
        log.emit(kind, **data)
    return log
