"""Small rules that the larger tests pass by."""
from __future__ import annotations

from minipaged.core import EventLog

from .helpers import add, make, play


def test_nobody_is_rotated_while_seats_are_free() -> None:
    events = EventLog()
    scheduler = make(12, scheduling_policy="round_robin", quantum=1, max_num_seqs=4, events=events)
    for name in "abc":
        add(scheduler, name, 3, max_tokens=9)
    play(scheduler, 5)
    assert events.select("rotate") == []
    assert [request.request_id for request in scheduler.running] == ["a", "b", "c"]
