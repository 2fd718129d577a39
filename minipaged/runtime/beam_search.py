"""Beam search: keep the k most likely continuations, step by step (chapter 05).

Each beam is a request of the scheduler. A beam with several children is forked: they share its blocks, and
what differs is copied on write. A beam without children gives its blocks back. So the beams of one prompt
form a tree in memory, as in section 4.4 of the SOSP 2023 paper. Names and results follow vLLM's
`LLM.beam_search`: an end-of-sequence token completes a hypothesis when it is among the 2k most likely tokens
of its beam, the search goes on to `max_tokens` all the same, and a score is the summed log-probability /
length ** length_penalty, prompt included in the length.

All beams must be computed before the best are chosen. When memory or seats let only some of them run, those
leave their candidates here and give up their blocks; their children are computed again later.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch

from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.request import FinishReason, Request, SamplingParams
from minipaged.errors import RequestError
from minipaged.runtime.outputs import BeamSearchOutput, BeamSearchSequence
from minipaged.runtime.tokenizer import Tokenizer


@dataclass(frozen=True)
class BeamSearchParams:
    """Names are vLLM's. With `ignore_eos` no hypothesis ends early. Errors: RequestError naming the field."""

    beam_width: int
    max_tokens: int
    ignore_eos: bool = False
    length_penalty: float = 1.0
    include_stop_str_in_output: bool = False  # here: the end-of-sequence token is part of `tokens`

    def __post_init__(self) -> None:
        for name in ("beam_width", "max_tokens"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise RequestError(f"{name} is {value!r}; it must be an integer of at least 1")
        if not isinstance(self.length_penalty, (int, float)) or not abs(self.length_penalty) < float("inf"):
            raise RequestError(f"length_penalty is {self.length_penalty!r}; it must be a finite number")


@dataclass
class _Beam:
    """A hypothesis under way, with its newest token. `candidates`, once it was computed: its likeliest next
    tokens, each with the summed log-probability that the hypothesis would have."""

    request: Request
    token_ids: list[int]
    cum_logprob: float = 0.0
    candidates: list[tuple[int, float]] = field(default_factory=list)


class BeamGroup:
    """The beams of one prompt.

    The engine calls `take` with the logits of each beam that ran, `choose` for the tokens to commit, and
    `after_commit`; that changes `names`.
    """

    def __init__(self, request: Request, params: BeamSearchParams, eos_token_ids: Iterable[int]) -> None:
        self.request_id, self.params = request.request_id, params
        self.is_finished = self.is_plain = False
        self.arrival_step, self.finished_step = 0, None
        self.finish_reason = FinishReason.ABORT  # until it is known
        self.first = request
        self._beams = [_Beam(request, list(request.token_ids))]
        self._completed: list[BeamSearchSequence] = []
        self._eos = frozenset() if params.ignore_eos else frozenset(eos_token_ids)
        self._num_requests = 1

    @property
    def names(self) -> list[str]:
        """The ids of its requests."""
        return list(dict.fromkeys(beam.request.request_id for beam in self._beams))

    @property
    def num_output_tokens(self) -> int:
        return sum(len(beam.token_ids) - self.first.num_prompt_tokens for beam in self._beams)

    def take(self, request_id: str, logits: torch.Tensor) -> None:
        """The logits [vocab_size] of one of its requests: from them come that beam's candidates."""
        beam = next(one for one in self._beams if one.request.request_id == request_id)
        logprobs = torch.log_softmax(logits.double(), dim=-1)
        count = 2 * self.params.beam_width + max(0, len(self._eos) - 1)  # enough when all end tokens are among them
        values, tokens = logprobs.topk(min(count, len(logprobs)))
        beam.candidates = [(token, beam.cum_logprob + value) for token, value in zip(tokens.tolist(), values.tolist())]

    def choose(self) -> dict[str, int]:
        """request id -> the token that it commits: its best child's; any token where it has none.

        The likeliest candidates of all beams become the next ones; of equal ones the earlier beam's.
        """
        pairs = []
        if self._is_complete:
            for index, beam in enumerate(self._beams):
                for token, total in beam.candidates:
                    if token in self._eos:
                        ending = [token] if self.params.include_stop_str_in_output else []
                        self._completed.append(
                            BeamSearchSequence([*beam.token_ids, *ending], total, "", "stop", token))
                    else:
                        pairs.append((index, token, total))
            pairs.sort(key=lambda pair: -pair[2])
        self._chosen = pairs[:self.params.beam_width]
        tokens = {beam.request.request_id: beam.candidates[0][0] for beam in self._beams if beam.candidates}
        for index, token, _ in reversed(self._chosen):
            tokens[self._beams[index].request.request_id] = token
        return tokens

    @property
    def _is_complete(self) -> bool:
        return all(beam.candidates for beam in self._beams)

    def after_commit(self, scheduler: BaseScheduler) -> None:
        """Make the chosen children the beams, with requests of their own, and end the search when it is over.

        Where some beams could not run, those that did give up their memory and keep their candidates.
        """
        if not self._is_complete:
            for beam in self._beams:
                if beam.candidates:  # its siblings did not run: what it found is kept, its memory is not
                    scheduler.finish(beam.request.request_id, FinishReason.ABORT)
            return
        chosen, parents = self._chosen, self._beams
        self._beams = [_Beam(parents[index].request, [*parents[index].token_ids, token], total)
                       for index, token, total in chosen]
        length = len(parents[0].token_ids) + 1
        limit = self.first.num_prompt_tokens + self.params.max_tokens
        if not chosen or length >= min(limit, self.first.max_num_tokens):
            self.finish_reason = FinishReason.LENGTH
            if length < limit and self.first.outgrows_pool:
                self.finish_reason = FinishReason.CAPACITY
            self.is_finished = True
            self.end(scheduler, parents)
            return
        for index, parent in enumerate(parents):
            children = [beam for beam, pair in zip(self._beams, chosen) if pair[0] == index]
            self._continue(parent, children, scheduler)

    def _continue(self, parent: _Beam, children: list[_Beam], scheduler: BaseScheduler) -> None:
        """The first child goes on in its parent's request, the others fork it."""
        request = parent.request
        if request.request_id not in scheduler.requests:  # it gave up its memory: all start again
            for child in children:
                child.request = Request(self._new_name(), child.token_ids, self._request_params(len(child.token_ids)),
                                        cache_salt=request.cache_salt)
                scheduler.add_request(child.request)
        elif not children:
            scheduler.finish(request.request_id, FinishReason.ABORT)
        else:
            newest = request.token_ids.pop()
            for child in children[1:]:
                child.request = scheduler.fork(request.request_id, self._new_name())
                child.request.token_ids.append(child.token_ids[-1])
            request.token_ids.append(newest)

    def _request_params(self, length: int) -> SamplingParams:
        """For a request that begins with `length` tokens: it ends where the others do."""
        return SamplingParams(max_tokens=max(1, self.first.max_num_tokens - length), ignore_eos=True)

    def _new_name(self) -> str:
        name = f"{self.request_id}.{self._num_requests}"
        self._num_requests += 1
        return name

    def end(self, scheduler: BaseScheduler, beams: list[_Beam] | None = None) -> None:
        """Give back all memory."""
        for beam in self._beams if beams is None else beams:
            scheduler.finish(beam.request.request_id, FinishReason.ABORT)

    def output(self, tokenizer: Tokenizer | None) -> BeamSearchOutput:
        """The best `beam_width` hypotheses, those that ended before and those that were cut off."""
        reason = self.finish_reason.value
        found = self._completed + [BeamSearchSequence(beam.token_ids, beam.cum_logprob, "", reason)
                                   for beam in self._beams]
        found.sort(key=lambda one: -self._score(one))
        return BeamSearchOutput([
            BeamSearchSequence(one.tokens, one.cum_logprob, tokenizer.decode(one.tokens) if tokenizer else "",
                               one.finish_reason, one.stop_reason) for one in found[:self.params.beam_width]])

    def _score(self, one: BeamSearchSequence) -> float:
        length = len(one.tokens) - (one.tokens[-1] in self._eos)
        return one.cum_logprob / max(1, length) ** self.params.length_penalty
