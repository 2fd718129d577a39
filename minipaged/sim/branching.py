"""Parallel sampling and beam search: one prompt, several sequences that share its blocks (chapter 05).

Sequences branch with the scheduler's own `fork`, so shared blocks and copy-on-write are the real ones.
"""
from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from minipaged.core import FinishReason, Request
from minipaged.core.scheduler import ContinuousBatchingScheduler
from minipaged.sim.workload import TraceRequest


@dataclass
class _Group:
    number: int
    wanted: TraceRequest
    members: list[str] = field(default_factory=list)
    forks: int = 0


class Branches:
    """Groups of sequences with one prompt.

    Samples: when the prompt's first token is there, the others are forked from it and then go their own
    ways. Beams: after a step each place of the beam goes on from its own sequence, or with the probability
    `turnover` from a parent drawn uniformly (beam search keeps the likeliest candidates; without a model, any
    parent is equally likely): a parent drawn twice is forked, one not drawn ends.
    """

    def __init__(self, draw: random.Random, add_sequence: Callable[..., None],
                 end_sequence: Callable[[Request], None], turnover: float = 1.0) -> None:
        self.groups: dict[str, _Group] = {}
        self._draw = draw
        self._turnover = turnover
        self._add, self._end = add_sequence, end_sequence

    def watch(self, name: str, number: int, wanted: TraceRequest) -> None:
        """A request that will branch."""
        self.groups[name] = _Group(number, wanted, [name])

    def after_step(self, scheduler: ContinuousBatchingScheduler, sampled: Mapping[str, int]) -> None:
        """Fork and end sequences after a committed step."""
        for root, group in list(self.groups.items()):
            group.members = [name for name in group.members if name in scheduler.requests]
            if not group.members:
                del self.groups[root]
                continue
            if not all(name in sampled for name in group.members):
                continue  # the prompt is not complete, or some beams were preempted: the others wait for them
            if group.wanted.beam_width > 1:
                self._search(scheduler, group)
            else:
                self._fork(scheduler, group, root, group.wanted.num_samples - 1)
                del self.groups[root]

    def _search(self, scheduler: ContinuousBatchingScheduler, group: _Group) -> None:
        width, members = group.wanted.beam_width, group.members
        draw, turnover = self._draw, self._turnover
        parents = members * width if len(members) == 1 else [
            draw.choice(members) if draw.random() < turnover else own for own in members]
        chosen = {name: parents.count(name) for name in members if name in parents}
        for name in members:
            if name not in chosen:
                self._drop(scheduler, name)
        group.members = list(chosen)
        for name, times in chosen.items():
            self._fork(scheduler, group, name, times - 1)

    def _fork(self, scheduler: ContinuousBatchingScheduler, group: _Group, parent: str, count: int) -> None:
        for _ in range(count):
            group.forks += 1
            child = scheduler.fork(parent, f"r{group.number}.{group.forks}")
            self._add(child.request_id, group.number, shared_tokens=child.num_computed_tokens)
            group.members.append(child.request_id)

    def _drop(self, scheduler: ContinuousBatchingScheduler, name: str) -> None:
        request = scheduler.requests[name]
        scheduler.finish(name, FinishReason.ABORT)
        self._end(request)
