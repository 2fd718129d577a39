"""Bugs of the single step: what is sampled, when a request ends, when its memory is free (chapters 07 and 11)."""
from __future__ import annotations

from minipaged.core import ContinuousBatchingScheduler
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

C = "tests/core/test_cases_c.py::"


@change(ContinuousBatchingScheduler, "schedule")
def every_chunk_is_sampled(right, self):
    plan = right(self)
    plan.scheduled[:] = [item._replace(sample=True) for item in plan.scheduled]
    return plan


@scene(8, max_num_batched_tokens=4)
def prompt_in_three_chunks(stage: Stage) -> None:
    stage.add("A", range(10), max_tokens=3)
    stage.finish()


@change(ContinuousBatchingScheduler, "schedule")
def past_the_prompt_all_is_decode(right, self):
    plan = right(self)
    for number, item in enumerate(plan.scheduled):
        if item.context_len >= self.requests[item.request_id].num_prompt_tokens:
            plan.scheduled[number] = item._replace(sample=True)
    return plan


@scene(5, max_num_batched_tokens=4, enable_prefix_caching=False)
def recomputed_in_chunks(stage: Stage) -> None:
    stage.add("A", range(3), max_tokens=10)
    stage.add("B", range(50, 53), max_tokens=10)
    stage.finish()


@change(BaseScheduler, "_finish_reason")
def one_token_too_many(right, self, request):
    return None if request.num_tokens == request.max_num_tokens else right(self, request)


@scene(4)
def three_tokens_please(stage: Stage) -> None:
    stage.add("A", range(5), max_tokens=3)
    stage.finish()
    stage.expect("tokens that A says", stage.requests["A"].num_output_tokens, 3)


@change(BaseScheduler, "_finish_reason")
def the_first_token_never_stops(right, self, request):
    return None if request.num_output_tokens == 1 else right(self, request)


@scene(4)
def stops_at_once(stage: Stage) -> None:
    stage.add("A", range(5), max_tokens=4, params={"stop_token_ids": list(range(50))})
    stage.finish()


@change(BaseScheduler, "_free")
def a_step_later(right, self, request):
    self.late = [*getattr(self, "late", []), request]


@change(BaseScheduler, "schedule")
def frees_what_ended_before(right, self):
    for request in getattr(self, "late", []):
        self.kv.free(request)
    self.late = []
    return right(self)


@scene(4)
def two_of_different_lengths(stage: Stage) -> None:
    stage.add("A", range(5), max_tokens=2)
    stage.add("B", range(50, 55), max_tokens=5)
    stage.finish()


PIECES = (
    Piece("every-chunk-is-sampled", "A token is drawn after every chunk of a prompt",
          "tenstorrent/tt-xla#5830", "10_chunked_prefill",
          "An answer begins in the middle of the question.",
          "A step samples for a request only when its last token was computed.",
          (every_chunk_is_sampled,), prompt_in_three_chunks, "tokens",
          "tests/core/test_vllm_scenarios_scheduler.py::test_S4_concurrent_chunked_prefill"),
    Piece("resumed-counts-as-decode", "After a preemption, all past the prompt is taken for new",
          "vllm-project/vllm#16832", "09_preemption",
          "A preempted request says some of its tokens twice.",
          "Tokens that were said before are computed again and not sampled again.",
          (past_the_prompt_all_is_decode,), recomputed_in_chunks, "tokens",
          C + "test_C7_tokens_of_a_resumed_request_are_not_sampled_again"),
    Piece("one-token-too-many", "max_tokens is passed before it is looked at", "skyzh/tiny-llm#292", "11_engine",
          "Every answer is one token longer than was asked for.",
          "A request ends with the token that reaches its limit.",
          (one_token_too_many,), three_tokens_please, "tokens", C + "test_finish_reasons"),
    Piece("first-token-never-stops", "A stop token is not seen when it comes first",
          "skyzh/tiny-llm#292: immediate EOS", "11_engine",
          "A model that has nothing to say goes on talking.",
          "Every token may be the last one, the first too.",
          (the_first_token_never_stops,), stops_at_once, "tokens", C + "test_finish_reasons"),
    Piece("finished-holds-memory", "Who has ended holds its memory one step more",
          "source text, section 8: finished requests are removed at the start of the next step",
          "07_continuous_batching",
          "A request that waits for a block waits a step too long; the last one never gives its blocks back.",
          "Blocks are free in the step in which their request ends.",
          (a_step_later, frees_what_ended_before), two_of_different_lengths, "invariants",
          "tests/core/test_scheduler.py::"
          "test_commit_returns_who_finished_and_their_blocks_are_free_in_that_step"),
)
