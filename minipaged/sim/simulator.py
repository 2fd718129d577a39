"""The virtual clock: core's scheduler and memory, a cost model in place of a model (chapters 08 and 14).

One turn of the loop is what a server does: take in what has arrived, let the scheduler plan a step, let the
step take its time, commit its tokens. Nothing sleeps and no wall clock is read, so the same trace, settings
and seed give the same bytes.
"""
from __future__ import annotations

import gc
import random
from array import array
from collections.abc import Callable

from minipaged.core import Request, SamplingParams, check_invariants
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.request import RequestStatus
from minipaged.errors import RequestError
from minipaged.sim.branching import Branches
from minipaged.sim.cost_model import CostModel, StepWork
from minipaged.sim.memory import sample_memory
from minipaged.sim.result import Counts, Record, SimResult, StepLog, check_conservation, finish_times
from minipaged.sim.workload import Trace

__all__ = ["Counts", "Record", "SimResult", "Simulator", "StepLog", "check_conservation", "finish_times", "simulate"]


class Simulator:
    """Drives one scheduler through one trace.

    `sample_every`: seconds between looks at memory (0: none). `check_every`: steps between calls of the
    invariant checker (0: none). `seed`: for the choices of beam search, the only random ones; how often
    they happen: `beam_turnover` (see Branches).
    """

    def __init__(self, scheduler: BaseScheduler, cost_model: CostModel, trace: Trace, *, sample_every: float = 1.0,
                 check_every: int = 0, seed: int = 0, beam_turnover: float = 1.0) -> None:
        self.scheduler, self.cost_model, self.trace = scheduler, cost_model, trace
        self.sample_every, self.check_every = sample_every, check_every
        branching = any(one.num_samples > 1 or one.beam_width > 1 for one in trace.requests)
        if branching and not (hasattr(scheduler, "fork") and hasattr(scheduler.kv, "fork")):
            raise ValueError(f"{trace.name} has samples or beams that share blocks; that takes paged memory and "
                             "continuous batching")
        self.now = 0.0
        self.records = [Record(number, request.arrival, request.input_tokens,
                               sequences=max(request.num_samples, request.beam_width, 1))
                        for number, request in enumerate(trace.requests)]
        self.steps, self.memory, self.counts = StepLog(), [], Counts()
        self._token: dict[str, int] = {}  # live sequence -> the token it generates
        self._index: dict[str, int] = {}  # live sequence -> its index
        self._record_of = array("i")
        self._unfinished: dict[str, int] = {}  # prompt not complete: tokens computed so far
        self._branches = Branches(random.Random(f"branches {seed}"), self._add_sequence, self._end_sequence,
                                  beam_turnover)
        self._hits = [0, 0]

    def run(self, progress: Callable[[int, float], None] | None = None, until: float = float("inf")) -> SimResult:
        """To the end of the trace, or until a time. `progress(arrived requests, now)` is called now and then."""
        scheduler, requests, steps = self.scheduler, self.trace.requests, self.steps
        arrived, next_sample, idle = 0, 0.0, 0
        while self.now < until:
            while arrived < len(requests) and requests[arrived].arrival <= self.now:
                self._arrive(arrived)
                arrived += 1
            if not scheduler.has_unfinished:
                if arrived == len(requests):
                    break
                self.now = requests[arrived].arrival
                continue
            idle = 0 if self._step() else idle + 1
            if idle > 2:
                raise RuntimeError(f"the scheduler planned nothing, three times in a row, at {self.now:.3f} s with "
                                   f"{len(scheduler.requests)} requests unfinished")
            if self.sample_every and self.now >= next_sample:
                self.memory.append(sample_memory(scheduler, self.now))
                next_sample = self.now + self.sample_every
            if self.check_every and len(steps) % self.check_every == 0:
                check_invariants(scheduler)
            if progress is not None and len(steps) % 256 == 0:
                progress(arrived, self.now)
        return SimResult(self.trace.name, scheduler.kv.num_blocks, scheduler.kv.block_size, self.records, steps,
                         self.memory, self.counts, self._record_of, *self._hits)

    # ---- one step

    def _step(self) -> bool:
        """Plan, wait, commit. False when the plan was empty."""
        scheduler, steps = self.scheduler, self.steps
        plan = scheduler.schedule()
        work, sampled = StepWork(), {}
        chunks, token_of, decodes, decode_kv = work.chunks, self._token, 0, 0
        for name, start, tokens, _, sample in plan.scheduled:
            if len(tokens) == 1:
                decodes += 1
                decode_kv += start + 1
            else:
                chunks.append((len(tokens), start))
            if sample:
                sampled[name] = token_of[name]
        work.num_decodes, work.decode_kv, work.num_sampled = decodes, decode_kv, len(sampled)
        work.swap_blocks = len(plan.swap_outs) + len(plan.swap_ins)
        work.copied_blocks = len(plan.copies)
        seconds = self.cost_model.step_seconds(work)
        if plan.admitted or plan.preempted or self._unfinished or len(sampled) < len(plan.scheduled):
            self._note_changes(plan)
        computed = decodes + sum(count for count, _ in chunks)
        self.counts.computed_tokens += computed
        if plan.swap_outs or plan.swap_ins or plan.copies:
            self.counts.swapped_blocks += work.swap_blocks
            self.counts.copied_blocks += work.copied_blocks
        steps.start.append(self.now)
        steps.seconds.append(seconds)
        steps.tokens.append(computed)
        steps.decodes.append(decodes)
        steps.running.append(len(scheduler.running))
        steps.waiting.append(len(scheduler.waiting))
        steps.free_blocks.append(scheduler.kv.free_count)
        steps.sampled.append(len(sampled))
        steps.owners.extend(map(self._index.__getitem__, sampled))
        self.now += seconds
        finished = scheduler.commit(plan, sampled)
        if self._branches.groups:
            self._branches.after_step(scheduler, sampled)
        for request in finished:
            self._end(request)
        return not plan.is_empty

    def _note_changes(self, plan) -> None:
        """Admissions, preemptions and incomplete prompts: what the usual decode step has none of."""
        counts, requests, partial = self.counts, self.scheduler.requests, self._unfinished
        for name in plan.preempted:
            counts.preemptions += 1
            request = requests[name]
            self._record(name).preemptions += 1
            done = partial.pop(name, request.num_tokens - 1)
            if request.status is RequestStatus.WAITING:
                counts.lost_tokens += done
        for name, cached, _ in plan.admitted:
            counts.reused_tokens += cached
            record = self._record(name)
            if record.scheduled is None:
                record.scheduled = self.now
                record.cached_tokens = cached
                self._hits[0] += record.input_tokens
                self._hits[1] += cached
        for name, start, tokens, _, sample in plan.scheduled:
            if sample:
                partial.pop(name, None)
            else:
                partial[name] = start + len(tokens)

    # ---- requests come and go

    def _arrive(self, number: int) -> None:
        wanted = self.trace.requests[number]
        request = Request(f"r{number}", wanted.token_ids(number),
                          SamplingParams(max_tokens=wanted.output_tokens, ignore_eos=True), priority=wanted.priority)
        try:
            self.scheduler.add_request(request)
        except RequestError as error:
            self.records[number].finish = f"refused: {error}"
            return
        self._add_sequence(request.request_id, number, wanted.output_token(number))
        if wanted.num_samples > 1 or wanted.beam_width > 1:
            self._branches.watch(request.request_id, number, wanted)

    def _add_sequence(self, name: str, number: int, token: int | None = None, shared_tokens: int = 0) -> None:
        self._index[name] = len(self._record_of)
        self._token[name] = (1 << 50) + len(self._record_of) if token is None else token
        self._record_of.append(number)
        self.counts.reused_tokens += shared_tokens

    def _record(self, name: str) -> Record:
        return self.records[self._record_of[self._index[name]]]

    def _end(self, request: Request) -> None:
        record = self._record(request.request_id)
        record.finish = request.finish_reason.value
        self._end_sequence(request)

    def _end_sequence(self, request: Request) -> None:
        self.counts.needed_tokens += request.num_computed_tokens
        del self._token[request.request_id], self._index[request.request_id]


def simulate(scheduler: BaseScheduler, cost_model: CostModel, trace: Trace, *, progress=None,
             until: float = float("inf"), **options: object) -> SimResult:
    """Run a trace and return the result with all times filled in. Options are Simulator's."""
    collects = gc.isenabled()
    gc.disable()  # core makes no reference cycles; looking for them would cost a tenth of the time
    try:
        result = Simulator(scheduler, cost_model, trace, **options).run(progress, until)
    finally:
        if collects:
            gc.enable()
    finish_times(result)
    return result
