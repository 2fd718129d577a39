"""A run and the difference of two runs in words, from the events alone: the text beside each film (every chapter)."""
from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import NamedTuple

from minipaged.core.events import KINDS, Event
from minipaged.viz.replay import replay

SETTINGS = ("pool", "scheduler")  # what was set up, not what happened


class Difference(NamedTuple):
    """Where two logs part: the first events that differ (None: that log has ended)."""

    left: Event | None
    right: Event | None


def first_difference(left: Iterable[Event], right: Iterable[Event]) -> Difference | None:
    """The first events that differ in step, kind or data, or None. Pool and scheduler settings are not compared."""
    happened = ([event for event in events if event.kind not in SETTINGS] for events in (left, right))
    for one, other in zip_longest(*happened):
        if one is None or other is None or (one.step, one.kind, one.data) != (other.step, other.kind, other.data):
            return Difference(one, other)
    return None


def fullest(events: list[Event]) -> int:
    """The time of the last commit at which the most blocks are held; of a log without commits, of the last event."""
    moments = {"commit"} if any(event.kind == "commit" for event in events) else set(KINDS)
    taken: set[int] = set()
    most, when = -1, 0
    for event in events:
        if event.kind in ("allocate", "share", "swap_in"):
            taken.add(event.block)
        elif event.kind == "free":
            taken.discard(event.block)
        if event.kind in moments and len(taken) >= most:
            most, when = len(taken), event.time
    return when


def evicts(event: Event, before: Event | None) -> bool:
    """Whether the event evicts a block from the prefix cache; `before` is the event before it. A block may be known
    as a full one and as a tail: its second key goes right after the first, and counts no more."""
    return _loses_a_key(event) and not (before is not None and _loses_a_key(before) and before.block == event.block)


def _loses_a_key(event: Event) -> bool:
    return event.kind == "withdraw" and event.reason == "evict"


def summary(events: list[Event], label: str) -> str:
    """One run in a sentence, with `label` before it if there is one."""
    pool, steps = events[0], events[-1].step + 1
    names = {event.request for event in events if event.kind in ("add", "fork")}
    state = replay(events, until=fullest(events), strict=False)
    happened = {"copy": 0, "eviction": 0, "preemption": 0}
    for before, event in zip([None, *events], events):
        happened["copy"] += event.kind == "copy"
        happened["eviction"] += evicts(event, before)
        happened["preemption"] += event.kind == "preempt"
    return (f"{label + ': ' if label else ''}{_count(len(events), 'event')} in {_count(steps, 'step')}, "
            f"{_count(len(names), 'request')} in {_count(pool.num_blocks, 'block')} of "
            f"{_count(pool.block_size, 'token')}; at the fullest moment, event {state.time}, "
            f"{pool.num_blocks - state.free_count} in use; "
            f"{', '.join(_count(number, word) for word, number in happened.items())}.")


def _count(number: int, word: str) -> str:
    many = word[:-1] + "ies" if word.endswith("y") else word + "s"
    return f"{number:,} {word if number == 1 else many}"


def difference_in_words(difference: Difference | None, labels: tuple[str, ...]) -> str:
    """Where two runs part, in a sentence."""
    if difference is None:
        return "The two runs do the same."
    sides = [f"{label} {'has ended' if event is None else f'has {event.kind} (event {event.time}, step {event.step})'}"
             for event, label in zip(difference, labels)]
    return f"They first differ where {sides[0]} and {sides[1]}."
