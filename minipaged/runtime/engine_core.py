"""The step of the engine: plan, run, choose, commit; and whose the requests of the scheduler are (chapter 11).

The scheduler knows requests, a user knows groups: one prompt with its outputs, or with its beams. One group may
have many requests, and their number changes after a commit, when outputs and beams are forked.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from minipaged.core import FinishReason, Request, StepPlan, check_invariants
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.errors import RequestError
from minipaged.runtime.beam_search import BeamGroup
from minipaged.runtime.executor import PagedExecutor, RecomputeExecutor
from minipaged.runtime.hit_rate import HitRate
from minipaged.runtime.interrupts import interruptible, uninterrupted
from minipaged.runtime.sequence_group import OutputSequence, SequenceGroup
from minipaged.runtime.token_choice import Choice, choose_tokens
from minipaged.runtime.tokenizer import Tokenizer

Group = SequenceGroup | BeamGroup


class EngineCore:
    """The groups under way. How prompts are read and options become parts is `LLMEngine`'s business.

    Callers wrap what must be done whole in `whole()`: a step, an `add`, an `abort`.
    """

    def __init__(self, scheduler: BaseScheduler, executor: PagedExecutor | RecomputeExecutor,
                 tokenizer: Tokenizer | None, check_invariants: bool) -> None:
        self.scheduler, self.executor, self.tokenizer = scheduler, executor, tokenizer
        self.groups: dict[str, Group] = {}  # what the user sees, by the user's id
        self.owners: dict[str, OutputSequence | BeamGroup] = {}  # whose is a request of the scheduler
        self.hit_rate = HitRate()  # of prompt tokens in the prefix cache
        self._check_invariants = check_invariants
        self._plan: StepPlan | None = None
        self._choice = Choice({})
        self._depth = 0  # of `whole`
        self._abandoned: list[SequenceGroup] = []  # streams that nobody holds any more, to be aborted

    @contextmanager
    def whole(self) -> Iterator[None]:
        """A section that Ctrl-C does not cut; at its end abandoned groups are aborted."""
        with uninterrupted():
            self._depth += 1
            try:
                yield
            finally:
                while self._depth == 1 and self._abandoned:
                    self.give_up(self._abandoned.pop())
                self._depth -= 1

    # ---- groups come and go ----

    def add(self, group: Group) -> Group:
        """Queue the first request of a group. Errors: RequestError, and nothing has changed."""
        for name in group.names:
            if name in self.owners or name in self.groups:
                raise RequestError(f"request id {name!r} is in use; give each request its own id")
        self.scheduler.add_request(group.first)
        group.arrival_step = self.scheduler.step_index + 1
        self.groups[group.request_id] = group
        if isinstance(group, BeamGroup):
            self.owners[group.request_id] = group
        else:
            self.owners.update(zip(group.names, group.sequences))
        return group

    def abort(self, request_id: str) -> bool:
        """Give up a group with all its requests. False when it is unknown or has ended."""
        group = self.groups.pop(request_id, None)
        if group is None:
            return False
        for name in group.names:
            self.owners.pop(name, None)
            self.scheduler.abort(name)
        if isinstance(group, SequenceGroup):
            group.finished_step = self.scheduler.step_index
        return True

    def give_up(self, group: Group) -> None:
        """Abort a group unless it has ended."""
        if self.groups.get(group.request_id) is group:  # its id may belong to another one by now
            with self.whole():
                self.abort(group.request_id)

    def abandon(self, group: SequenceGroup) -> None:
        """Abort from a destructor: the garbage collector may call it in the middle of a step, then it waits."""
        self._abandoned.append(group)
        if self._depth == 0:
            with self.whole():
                pass

    # ---- the step ----

    def step(self) -> list[SequenceGroup]:
        """One step; returns the groups that got a token or ended in it. (Beams have no output before their end.)"""
        finished = self.scheduler.step(self._run)
        plan, choice = self._plan, self._choice
        for group, tokens in choice.first_tokens:
            running = group.fork(self.scheduler, tokens)
            self.owners.update((one.request.request_id, one) for one in running)
        for group in choice.beam_groups:
            for name in group.names:
                del self.owners[name]
            group.after_commit(self.scheduler)
            self.owners.update(dict.fromkeys(group.names, group))
        changed = self._account(plan, finished)
        for group in [*changed, *choice.beam_groups]:
            if group.is_finished and self.groups.pop(group.request_id, None) is not None:
                group.finished_step = plan.step
                for name in group.names:
                    self.owners.pop(name, None)
        if self._check_invariants:
            check_invariants(self.scheduler)
        if not (plan.scheduled or plan.preempted or finished):
            kv = self.scheduler.kv
            raise RuntimeError(f"step {plan.step} made no progress: {len(self.groups)} request(s) are unfinished "
                               f"and none could run with {kv.free_count} of {kv.num_blocks} blocks free")
        return changed

    def _run(self, plan: StepPlan) -> dict[str, int]:
        """Compute a plan: request id -> its next token."""
        self._plan, self._choice = plan, Choice({})
        if self.scheduler.kv.enable_prefix_caching:
            self.hit_rate.record_plan(plan, self.scheduler.requests)
        with interruptible():
            logits = self.executor.run(plan)
        names = [item.request_id for item in plan.scheduled if item.sample]
        self._choice = choose_tokens(names, [self.owners[name] for name in names], logits, self.tokenizer)
        return self._choice.tokens

    def _account(self, plan: StepPlan, finished: Sequence[Request]) -> list[SequenceGroup]:
        """Note when things happened; end outputs whose stop text is complete. Returns the groups with news."""
        owners, changed = self.owners, {}
        for admission in plan.admitted:
            group = getattr(owners.get(admission.request_id), "group", None)
            if group is not None and group.first_scheduled_step is None:
                group.first_scheduled_step = plan.step
        for item in plan.scheduled:
            one = owners.get(item.request_id)
            if not isinstance(one, OutputSequence):
                continue
            group = one.group
            group.num_computed_tokens += len(item.token_ids)
            if item.sample:
                changed[group.request_id] = group
                if group.first_token_step is None:
                    group.first_token_step = plan.step
                if group.params.stop:
                    self._end_at_stop_text(group)
        for request in finished:
            one = owners.get(request.request_id)
            if isinstance(one, OutputSequence):
                changed[one.group.request_id] = one.group
        return list(changed.values())

    def _end_at_stop_text(self, group: SequenceGroup) -> None:
        for one in group.sequences:
            if one.request is not None and one.read() and not one.request.is_finished:
                self.scheduler.finish(one.request.request_id, FinishReason.STOP)
