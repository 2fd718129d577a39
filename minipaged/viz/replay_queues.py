"""Requests and queues after each event, rebuilt from the log alone: half of viz/replay.py (chapters 07 to 09)."""
from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from minipaged.core.events import Event

WAITING, RUNNING, PAUSED, SWAPPED, FINISHED = "waiting", "running", "paused", "swapped", "finished"
UNQUEUED = "unqueued"  # it holds blocks, but no scheduler was told of it


@dataclass(slots=True)
class RequestState:
    """A request as the log tells it. `computed`: tokens whose K and V are in memory (its own or the host's)."""

    name: str
    status: str = UNQUEUED
    num_tokens: int = 0
    max_num_tokens: int = 0
    computed: int = 0
    cached: int = 0  # of these, found in the prefix cache when it was last admitted
    preemptions: int = 0
    priority: float = 0
    rank: int = 0  # order of arrival; a fork has its parent's
    parent: str | None = None
    reason: str | None = None  # why it finished


class QueueReplay:
    """Requests and queues. running, waiting, finished: request ids in order; requests: id -> RequestState, in order
    of arrival. scheduled: what the step under way computes, request -> [start, tokens]. faults: (time, sentence)
    of events that could not follow.
    """

    def __init__(self) -> None:
        self.policy, self.max_num_seqs = "fcfs", 0
        self.requests: dict[str, RequestState] = {}
        self.running: list[str] = []
        self.waiting: list[str] = []
        self.finished: list[str] = []
        self.scheduled: dict[str, list[int]] = {}
        self.faults: list[tuple[int, str]] = []
        self._preempted: set[str] = set()  # since the last commit or cancel
        self._num_added = 0

    def _expect(self, holds: bool, event: Event, sentence: str) -> None:
        if not holds:
            self.faults.append((event.time, sentence))

    def _on_scheduler(self, event: Event) -> None:
        self.policy, self.max_num_seqs = event.policy, event.max_num_seqs

    def _request(self, name: str | None) -> RequestState:
        name = "" if name is None else name
        if name not in self.requests:
            self.requests[name] = RequestState(name)
        return self.requests[name]

    def _on_add(self, event: Event) -> None:
        name = event.request
        if name in self.finished:  # the id is used again
            self.finished.remove(name)
        self.requests.pop(name, None)
        self.requests[name] = RequestState(name, WAITING, event.num_tokens, event.max_num_tokens,
                                           priority=event.priority, rank=self._num_added)
        self._num_added += 1
        self._join(name, front=False)

    def _on_fork(self, event: Event) -> None:
        parent, name = self._request(event.parent), event.request
        if name in self.finished:
            self.finished.remove(name)
        self.requests.pop(name, None)
        holds = parent.status in (RUNNING, PAUSED)
        self.requests[name] = RequestState(
            name, PAUSED if holds else WAITING, event.num_tokens, parent.max_num_tokens,
            computed=parent.computed if holds else 0, priority=parent.priority, rank=parent.rank, parent=parent.name)
        self._join(name, front=True)

    def _on_admit(self, event: Event) -> None:
        one = self._request(event.request)
        if one.name in self.waiting:
            self.waiting.remove(one.name)
        else:
            self._expect(False, event, f"{one.name} gets a seat, but it is not in the queue")
        if one.status == WAITING:
            one.computed = one.cached = event.cached_tokens
        one.status = RUNNING
        self.running.append(one.name)

    def _on_rotate(self, event: Event) -> None:
        self._leave(event)
        self._request(event.request).status = PAUSED
        self.waiting.append(event.request)

    def _on_preempt(self, event: Event) -> None:
        one = self._request(event.request)
        one.preemptions += 1
        one.status = SWAPPED if event.mode == "swap" else WAITING
        one.computed = event.num_computed_tokens if event.mode == "swap" else 0
        self._preempted.add(one.name)
        self.scheduled.pop(one.name, None)
        if one.name not in self.waiting:  # else it was paused and keeps its place
            self._leave(event)
            self._join(one.name, front=True)

    def _on_finish(self, event: Event) -> None:
        one = self._request(event.request)
        self._leave(event)
        one.status, one.reason, one.num_tokens = FINISHED, event.reason, event.num_tokens
        self.finished.append(one.name)
        self._forget_host(one.name)

    def _on_step(self, event: Event) -> None:
        self.scheduled = dict(event.scheduled)

    def _on_commit(self, event: Event) -> None:
        for name, (start, count) in self.scheduled.items():
            one = self._request(name)
            if one.status == RUNNING:
                one.computed = start + count
                one.num_tokens += name in event.tokens
        self._end_plan()

    def _on_cancel(self, event: Event) -> None:
        for name in reversed(event.returned):
            self._leave(event, name)
            self._restart(name)
            self._join(name, front=True)
        for name in self.waiting:
            if name in self._preempted and self.requests[name].status == SWAPPED:
                self._restart(name)
        self._end_plan()

    def _end_plan(self) -> None:
        self.scheduled = {}
        self._preempted.clear()

    def _restart(self, name: str) -> None:
        one = self._request(name)
        one.status, one.computed = WAITING, 0
        self._forget_host(name)

    def _forget_host(self, name: str) -> None:
        """A request gave up its copies on the host."""

    def _leave(self, event: Event, name: str | None = None) -> None:
        """A request leaves the queue that it is in."""
        name = event.request if name is None else name
        queue = self.running if name in self.running else self.waiting
        if name in queue:
            queue.remove(name)
        else:
            self._expect(False, event, f"{name} leaves the queues, but it is in none")

    def _join(self, name: str, front: bool) -> None:
        if self.policy == "priority":
            self.waiting.insert(bisect_right(self.waiting, self._order(name), key=self._order), name)
        else:
            self.waiting.insert(0 if front else len(self.waiting), name)

    def _order(self, name: str) -> tuple[float, int]:
        return self.requests[name].priority, self.requests[name].rank
