"""Static batching, the baseline of chapter 07: a batch starts together and ends with its slowest request.

Every row reserves memory for the longest request of its batch, from the first step on. A row that is done
keeps its seat and its memory, idle, until the whole batch is done; only then may others start.
"""
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.plan import Admission, ScheduledRequest, StepPlan
from minipaged.core.prefix_tree import NO_MATCH
from minipaged.core.request import Request


class StaticBatchingScheduler(BaseScheduler):
    """First come, first served in whole batches of at most `max_num_seqs` rows. It never preempts.

    A batch takes rows while their prompts together stay within `max_num_batched_tokens` and the pool holds
    as many tokens for each row as the longest may need; one row always fits. Nothing is shared.
    """

    scheduling_policy = "static"

    def _plan_step(self, plan: StepPlan) -> None:
        if not self.running:
            self._start_batch(plan)
        for request in self.running:
            start, end = request.num_computed_tokens, request.num_tokens
            plan.scheduled.append(ScheduledRequest(request.request_id, start, tuple(request.token_ids[start:end]),
                                                   self.kv.grow(request, start, end), True))

    def _start_batch(self, plan: StepPlan) -> None:
        rows, reserved = self._choose_rows()
        for request in rows:
            self.waiting.popleft()
            self.kv.admit(request, NO_MATCH, 0)  # holds nothing yet: each row is reserved whole
            self.kv.reserve(request, reserved)
            plan.admitted.append(Admission(request.request_id, 0, resumed=False))
            self._seat(request, 0, "waiting")

    def _choose_rows(self) -> tuple[list[Request], int]:
        """The rows of the next batch and the blocks that each reserves."""
        rows, prompts, longest = [], 0, 0
        for request in self.waiting:
            tokens = min(request.max_num_tokens, self.kv.num_blocks * self.kv.block_size)
            blocks = -(-max(longest, tokens) // self.kv.block_size)
            fits = (len(rows) < self.max_num_seqs and (len(rows) + 1) * blocks <= self.kv.num_blocks
                    and prompts + request.num_tokens <= self.max_num_batched_tokens)
            if rows and not fits:
                break
            rows.append(request)
            prompts += request.num_tokens
            longest = max(longest, tokens)
        return rows, -(-longest // self.kv.block_size)

    def _free(self, request: Request) -> None:
        self.idle_rows.append(request)
        if not self.running:
            self._end_batch()

    def _end_batch(self) -> None:
        for row in self.idle_rows:
            self.kv.free(row)
        self.idle_rows.clear()

    def _return_to_queue(self, plan: StepPlan) -> list[str]:
        if not plan.admitted:
            return []  # the batch goes on and repeats the step
        self._end_batch()
        return self._send_back(list(self.running))
