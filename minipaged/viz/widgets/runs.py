"""Small runs for explorers: core's own scheduler on a virtual clock, and what each request did, from the event log.

A run must take some 50 ms, so that a slider can be followed: a few dozen requests, some hundred steps.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

from minipaged.core.events import EventLog
from minipaged.sim.cost_model import CostModel, Roofline, StepWork
from minipaged.sim.hardware import card, served_model
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import SimResult, check_conservation, simulate
from minipaged.sim.workload import Trace, TraceRequest
from minipaged.viz.widgets.scene import Span


class StepClock:
    """Every step takes one unit of time: the clock of the tables in chapters 07 and 08."""

    def step_seconds(self, work: StepWork) -> float:
        return 1.0

    def describe(self) -> dict:
        return {"cost_model": "one unit a step"}


@cache
def machine(block_size: int) -> Roofline:
    """llama-3.1-8b on an A100-80GB, by its datasheet."""
    return Roofline(card("a100-80g"), served_model("llama-3.1-8b"), block_size)


class Run(NamedTuple):
    """A finished run and its log."""

    result: SimResult
    events: EventLog


def run(requests: Sequence[TraceRequest], settings: Serving, cost_model: CostModel | None = None) -> Run:
    """Serve the requests; no token may be lost on the way. `cost_model`: one unit a step by default."""
    events = EventLog()
    result = simulate(settings.scheduler(events), cost_model or StepClock(), Trace("explorer", tuple(requests)),
                      sample_every=0)
    check_conservation(result)
    return Run(result, events)


def evenly(requests: Sequence[TraceRequest], gap: float) -> list[TraceRequest]:
    """The same requests, one every `gap` units of time."""
    return [replace(request, arrival=index * gap) for index, request in enumerate(requests)]


def letter(request_id: str) -> str:
    """"r0" -> "A": the names of the running example."""
    return chr(ord("A") + int(request_id.removeprefix("r")))


#: kind of event -> what a request does from there on without being scheduled
_IDLE = {"add": "waiting", "admit": "waiting", "rotate": "paused", "preempt": "preempted"}


def lives(one: Run, wait_until_end: Callable[[str], float] | None = None) -> dict[str, list[Span]]:
    """For each request, in order of arrival, what it did and when: waiting, prefill, decode, paused, preempted or
    swapped. Spans that touch and look alike are one.

    `wait_until_end(request)`: time until which a finished request keeps its seat, idle (static batching).
    """
    starts, seconds = one.result.steps.start, one.result.steps.seconds
    arrivals = {f"r{record.number}": record.arrival for record in one.result.records}
    spans: dict[str, list[Span]] = {name: [] for name in arrivals}
    state = dict.fromkeys(arrivals, "waiting")
    alive: dict[str, None] = {}  # in order of arrival
    step = 0
    for event in one.events:
        if event.kind in _IDLE:
            alive[event.request] = None
            swapped = event.kind == "preempt" and event.mode == "swap"
            state[event.request] = "swapped" if swapped else _IDLE[event.kind]
        elif event.kind == "step":
            start, end = starts[step], starts[step] + seconds[step]
            for name in alive:
                if name in event.scheduled:
                    look = "decode" if event.scheduled[name][1] == 1 and event.scheduled[name][0] else "prefill"
                    _extend(spans[name], start, end, look, arrivals[name])
                else:
                    _extend(spans[name], start, end, state[name], arrivals[name])
            step += 1
        elif event.kind == "finish":
            del alive[event.request]
            if wait_until_end is not None:
                end = wait_until_end(event.request)
                now = starts[step - 1] + seconds[step - 1]
                if end > now:
                    _extend(spans[event.request], now, end, "idle", now)
    return spans


def _extend(row: list[Span], start: float, end: float, look: str, arrival: float) -> None:
    """Append what happened from `start` to `end`, from where the row ended; one span with a like neighbour."""
    start = row[-1].end if row else min(arrival, start)
    if row and row[-1].look == look:
        row[-1] = Span(row[-1].start, end, look)
    elif end > start:
        row.append(Span(start, end, look))


def first_token_waits(result: SimResult) -> list[float]:
    """Time from arrival to the first token, of each request."""
    return [record.first_token - record.arrival for record in result.records]


def ends(result: SimResult) -> list[float]:
    """Time from arrival to the last token, of each request."""
    return [record.last_token - record.arrival for record in result.records]
