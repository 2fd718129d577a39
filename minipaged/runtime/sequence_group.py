"""One prompt and its n outputs (chapters 05 and 11).

The prompt is computed once, by one request of the scheduler. When its last token is computed, n first tokens
are drawn from the same logits, and the request is forked: all outputs share the blocks of the prompt, and
the block that is partly filled is copied only by those who write into it while others hold it. Output i of a
request with seed s draws as a request with n=1 and seed s + i would.
"""
from __future__ import annotations

from collections.abc import Sequence

from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.request import FinishReason, Request, RequestStatus
from minipaged.runtime.outputs import CompletionOutput, Logprob, RequestMetrics, RequestOutput
from minipaged.runtime.sampler import SampleRow, changes_logits, is_greedy
from minipaged.runtime.text_output import TextOutput
from minipaged.runtime.tokenizer import Tokenizer


class OutputSequence:
    """One output: the scheduler's request that makes it (None until the prompt is computed), and its text."""

    __slots__ = ("group", "index", "seed", "request", "text", "logprobs", "is_plain")

    def __init__(self, group: SequenceGroup, index: int, text: TextOutput) -> None:
        self.group, self.index, self.text = group, index, text
        self.request: Request | None = None
        params = group.params
        self.seed = group.seed if index == 0 else (
            group.seed + index if isinstance(group.seed, int) else f"{group.seed}/{index}")
        self.logprobs: list[dict[int, Logprob]] = []
        #: the largest logit is its next token, and nothing else is asked for
        self.is_plain = (params.n == 1 and is_greedy(params) and not changes_logits(params)
                         and params.logprobs is None)

    @property
    def is_finished(self) -> bool:
        return self.request is not None and self.request.is_finished

    @property
    def name(self) -> str:
        """The id of a forked request."""
        return f"{self.group.request_id}.{self.index}"

    def sample_row(self) -> SampleRow:
        """What its next token is sampled with; the tokens so far only where something counts them."""
        request = self.group.sequences[0].request if self.request is None else self.request
        params = self.group.params
        if not changes_logits(params):
            return SampleRow(params, self.seed, request.num_output_tokens)
        return SampleRow(params, self.seed, request.num_output_tokens, request.prompt_token_ids,
                         request.output_token_ids, sorted(request.stop_tokens))

    def read(self) -> bool:
        """Turn new tokens into text. True when a stop text is complete."""
        request = self.request
        tokens = request.output_token_ids
        if request.finish_reason is FinishReason.STOP and self.text.stop is None:
            tokens = tokens[:-1]  # the token that stopped it is not text
        self.text.append(tokens[self.text.num_tokens:])
        if request.finish_reason is not None:
            self.text.finish()
        return self.text.stop is not None

    def output(self) -> CompletionOutput:
        """Its tokens and text so far, and why it ended if it did."""
        logprobs = self.logprobs if self.group.params.logprobs is not None else None
        total = None if logprobs is None else sum(next(iter(step.values())).logprob for step in logprobs)
        if self.request is None:  # its prompt is not computed yet, or was given up before that
            reason = self.group.sequences[0].request.finish_reason
            return CompletionOutput(self.index, "", [], reason and reason.value, None, logprobs, total)
        self.read()
        tokens, reason = self.request.output_token_ids, self.request.finish_reason
        stop_reason: int | str | None = self.text.stop
        if stop_reason is not None:
            reason = FinishReason.STOP
        elif reason is FinishReason.STOP and tokens[-1] in self.group.params.stop_token_ids:
            stop_reason = tokens[-1]
        return CompletionOutput(self.index, self.text.text, tokens, None if reason is None else reason.value,
                                stop_reason, logprobs and list(logprobs), total)


class SequenceGroup:
    """A request as the user sees it."""

    def __init__(self, request: Request, prompt: str | None, seed: int | str, tokenizer: Tokenizer | None) -> None:
        self.request_id, self.params, self.prompt, self.seed = request.request_id, request.params, prompt, seed
        self.prompt_token_ids = request.prompt_token_ids
        self.sequences = [OutputSequence(self, index, TextOutput(tokenizer, self.prompt_token_ids, request.params))
                          for index in range(request.params.n)]
        self.sequences[0].request = self.first = request
        self.arrival_step = 0
        self.first_scheduled_step: int | None = None
        self.first_token_step: int | None = None
        self.finished_step: int | None = None
        self.num_computed_tokens = 0

    @property
    def names(self) -> list[str]:
        """All ids that its requests have or will have."""
        return [self.request_id, *(one.name for one in self.sequences[1:])]

    @property
    def is_finished(self) -> bool:
        return all(one.is_finished for one in self.sequences) or (
            self.first.is_finished and self.first.num_output_tokens == 0)

    @property
    def num_output_tokens(self) -> int:
        return sum(one.request.num_output_tokens for one in self.sequences if one.request is not None)

    @property
    def begins(self) -> bool:
        """True while there is one request for several outputs."""
        return len(self.sequences) > 1 and self.sequences[-1].request is None and not self.first.is_finished

    def first_token(self, tokens: Sequence[int]) -> int:
        """Which of the n first tokens the request at hand goes on with: the first that doesn't end its output."""
        return tokens[self._heir(tokens)]

    def fork(self, scheduler: BaseScheduler, tokens: Sequence[int]) -> list[OutputSequence]:
        """Give each output its request, after the step that computed the prompt. Returns those that run.

        An output that ends with its first token needs no memory, so it gets none.
        """
        first, heir = self.first, self._heir(tokens)
        self.sequences[0].request = None
        self.sequences[heir].request = first
        if not first.is_finished:
            newest = first.token_ids.pop()  # a fork begins with the prompt and goes on with a token of its own
            for one, token in zip(self.sequences, tokens):
                if one.request is None and self._ends(token) is None:
                    one.request = scheduler.fork(first.request_id, one.name)
                    one.request.token_ids.append(token)
            first.token_ids.append(newest)
        for one, token in zip(self.sequences, tokens):
            if one.request is None:
                one.request = self._ended(one.name, token)
        return [one for one in self.sequences if not one.request.is_finished]

    def _heir(self, tokens: Sequence[int]) -> int:
        return next((index for index, token in enumerate(tokens) if self._ends(token) is None), 0)

    def _ends(self, token: int) -> FinishReason | None:
        request = self.first
        if token in request.stop_tokens and self.params.min_tokens <= 1:
            return FinishReason.STOP
        if request.num_prompt_tokens + 1 >= request.max_num_tokens:
            return FinishReason.CAPACITY if request.outgrows_pool else FinishReason.LENGTH
        return None

    def _ended(self, name: str, token: int) -> Request:
        """A request that never runs: its first token was its last."""
        request = Request(name, self.prompt_token_ids, self.params)
        request.token_ids.append(token)
        request.status, request.finish_reason = RequestStatus.FINISHED, self._ends(token)
        return request

    def output(self) -> RequestOutput:
        """All outputs so far, and when things happened. A new object each time."""
        requests = {one.request.request_id: one.request for one in self.sequences if one.request is not None}
        requests[self.first.request_id] = self.first
        metrics = RequestMetrics(self.arrival_step, self.first_scheduled_step, self.first_token_step,
                                 self.finished_step, sum(one.num_preemptions for one in requests.values()),
                                 self.num_computed_tokens)
        return RequestOutput(self.request_id, self.prompt, list(self.prompt_token_ids),
                             [one.output() for one in self.sequences], self.is_finished,
                             self.first.num_cached_tokens, metrics)
