"""What every request did in every step, read from the event log (figures of chapters 07 to 10)."""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from minipaged.core.events import Event
from minipaged.viz.replay import Replay
from minipaged.viz.replay_queues import FINISHED, RUNNING, WAITING

#: what a request can do in a step -> what the legend says
DOING = {"prefill": "prefill: prompt tokens", "decode": "decode: one new token", "idle": "idle: holds a seat",
         "preempted": "preempted: starts again", "swapped": "swapped to the host", "paused": "paused: keeps its blocks",
         "waiting": "waiting"}


@dataclass
class Step:
    """One step: request -> what it did, request -> tokens computed; blocks by their use; who was preempted in it."""

    number: int
    doing: dict[str, str]
    tokens: dict[str, int]
    used_blocks: int
    shared_blocks: int
    cached_blocks: int
    host_blocks: int
    preempted: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Seats taken."""
        return sum(what in ("prefill", "decode", "idle") for what in self.doing.values())


def steps_of(events: Iterable[Event]) -> list[Step]:
    """The steps of a run that were computed, in order; cancelled plans are left out.

    A request that ended but still holds blocks, as in a static batch, is "idle".
    """
    steps: list[Step] = []
    prompt: dict[str, int] = {}
    preempted: list[str] = []
    state = Replay()
    for event in events:
        state.see(event)
        if event.kind in ("add", "fork"):
            prompt[event.request] = event.num_tokens
        elif event.kind == "preempt":
            preempted.append(event.request)
        elif event.kind == "cancel":
            steps.pop()
        elif event.kind == "step":
            doing = {name: _doing(name, state, prompt) for name in state.requests}
            counts = state.ref_count
            steps.append(Step(
                event.step, {name: what for name, what in doing.items() if what},
                {name: length for name, (_, length) in event.scheduled.items()},
                state.num_blocks - state.free_count, sum(count > 1 for count in counts),
                sum(counts[block] == 0 for block in state.full.keys() | state.tail.keys()), len(state.host), preempted))
            preempted = []
    return steps


def _doing(name: str, state: Replay, prompt: dict[str, int]) -> str | None:
    if name in state.scheduled:
        start, length = state.scheduled[name]
        return "decode" if length == 1 and start >= prompt.get(name, 0) else "prefill"
    one = state.requests[name]
    if one.status == FINISHED:
        return "idle" if name in state.tables else None
    if one.status == WAITING:
        return "preempted" if one.preemptions else "waiting"
    return "idle" if one.status == RUNNING else one.status if one.status in DOING else None


def spans(steps: list[Step], name: str) -> list[tuple[str, int, int]]:
    """(what, first step, number of steps) of one request, equal neighbours joined; positions in `steps`."""
    found: list[tuple[str, int, int]] = []
    for at, step in enumerate(steps):
        what = step.doing.get(name)
        if what is None:
            continue
        if found and found[-1][0] == what and found[-1][1] + found[-1][2] == at:
            found[-1] = (what, found[-1][1], found[-1][2] + 1)
        else:
            found.append((what, at, 1))
    return found


def requests_of(steps: list[Step]) -> list[str]:
    """All requests that appear, oldest first."""
    return list(dict.fromkeys(name for step in steps for name in step.doing))
