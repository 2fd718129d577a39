"""Bugs of admission and of the order of service (chapters 07, 08 and 10)."""
from __future__ import annotations

import random

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, StaticBatchingScheduler, policy
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.errors import RequestError
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

C = "tests/core/test_cases_c.py::"
TEXT = "tests/core/test_source_text.py::"


@change(BaseScheduler, "add_request")
def takes_everybody(right, self, request):
    blocks, self.kv.num_blocks = self.kv.num_blocks, 1_000_000  # "it will fit one day"
    try:
        right(self, request)
    finally:
        self.kv.num_blocks = blocks


@scene(8)
def ten_blocks_in_a_pool_of_eight(stage: Stage) -> None:
    stage.must_raise(RequestError, "a prompt of 40 tokens in a pool of 32", stage.add, "big", range(40))
    stage.add("small", range(50, 54), max_tokens=2)
    stage.finish()


@change(BaseScheduler, "_register")
def the_pool_is_no_limit(right, self, request):
    right(self, request)
    request.max_num_tokens = request.num_prompt_tokens + request.params.max_tokens


@scene(2)
def outgrows_the_pool_alone(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=4)
    stage.finish()
    stage.add("B", range(50, 54), max_tokens=2)
    stage.finish()


@change(ContinuousBatchingScheduler, "schedule")
def prompts_first(right, self):
    self.running.sort(key=lambda request: request.num_tokens - request.num_computed_tokens == 1)
    return right(self)


@scene(20, max_num_batched_tokens=6)
def long_prompt_beside_two_decoders(stage: Stage) -> None:
    stage.add("A", range(50, 53), max_tokens=9)
    stage.add("B", range(60, 63), max_tokens=9)
    stage.step()
    stage.add("long", range(24), max_tokens=1)
    plans = stage.step(6)
    stage.note("steps of 6 in which A got a token", sum("A" in plan.num_scheduled_tokens for plan in plans))
    stage.finish()


@change(BaseScheduler, "schedule")
def once_full_always_full(right, self):
    seats = self.max_num_seqs
    if self.running and getattr(self, "was_full", False):
        self.max_num_seqs = len(self.running)
    plan = right(self)
    self.max_num_seqs, self.was_full = seats, bool(self.waiting)
    return plan


@scene(40, max_num_seqs=4, max_num_batched_tokens=8)
def four_prompts_in_chunks(stage: Stage) -> None:
    for number in range(4):
        stage.add(f"r{number}", range(30 * number, 30 * number + 12), max_tokens=12)
    stage.step(9)
    stage.note("seats of 4 in use after 9 steps", len(stage.scheduler.running))
    stage.finish(60)


@change(KVCacheManager, "admit")
def remembers_the_chunk(right, self, request, match, num_tokens, reserve=0):
    self.chunk_end = match.num_tokens + num_tokens
    return right(self, request, match, num_tokens, reserve)


@change(KVCacheManager, "blocks_needed")
def asks_for_the_first_chunk_only(right, self, request, match):
    later = -(-request.num_tokens // self.block_size) + -self.chunk_end // self.block_size
    return right(self, request, match) - later


@scene(8, max_num_batched_tokens=8, enable_prefix_caching=False)
def two_that_grow(stage: Stage) -> None:
    stage.add("A", range(16), max_tokens=8)
    stage.step(2)
    b = stage.add("B", range(50, 70), max_tokens=2)
    plans = stage.finish()
    stage.note("times that B lost its memory", b.num_preemptions)
    stage.note("tokens computed for B's 21", sum(plan.num_scheduled_tokens.get("B", 0) for plan in plans))


@change(KVCacheManager, "blocks_needed")
def for_all_that_it_may_ever_say(right, self, request, match):
    return -(-(request.num_prompt_tokens + request.params.max_tokens) // self.block_size)


@scene(8)
def two_with_long_limits(stage: Stage) -> None:
    stage.add("A", range(4), max_tokens=28)
    stage.add("B", range(50, 54), max_tokens=28)
    stage.step()
    stage.note("requests that run in the first step", len(stage.scheduler.running))
    stage.finish(100)


@change(KVCacheManager, "blocks_needed")
def for_the_answer_without_the_prompt(right, self, request, match):
    return -(-(request.params.max_tokens - match.num_tokens) // self.block_size)


@scene(4)
def long_prompt_short_answer(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=5)
    stage.step()
    stage.add("B", range(50, 62), max_tokens=2)
    stage.finish()


@change(policy.RoundRobin, "rotate")
def nobody_gives_a_seat_up(right, self, *args):
    return []


@scene(20, max_num_seqs=1, scheduling_policy="round_robin", quantum=2)
def three_on_one_seat(stage: Stage) -> None:
    for number, name in enumerate("ABC"):
        stage.add(name, range(10 * number, 10 * number + 3), max_tokens=6)
    plans = stage.finish()
    first = next(number for number, plan in enumerate(plans) if "C" in plan.num_scheduled_tokens)
    stage.note("steps that C waits for its first token", first)


@change(policy, "_rank")
def large_numbers_first(right, request):
    return request if isinstance(request, tuple) else (-request.priority, request.arrival)


@scene(20, max_num_seqs=1, scheduling_policy="priority")
def three_ranks(stage: Stage) -> None:
    for name, priority in (("A", 2), ("B", 0), ("C", 1)):
        stage.add(name, [ord(name)] * 3, max_tokens=2, priority=priority)
    plans = stage.finish()
    stage.note("order of service", [item.request_id for plan in plans for item in plan.admitted])


@change(StaticBatchingScheduler, "_choose_rows")
def room_for_the_first_row_only(right, self):
    rows, _ = right(self)
    return rows, -(-rows[0].max_num_tokens // self.kv.block_size)


@scene(30, static=True, max_num_seqs=3)
def rows_of_any_length(stage: Stage) -> None:
    """The tokens of the longest row, laid down one after the other, take what every row must have reserved."""
    rng = random.Random(2)
    for batch in range(3):
        lengths = [(rng.randint(1, 9), rng.randint(1, 12)) for _ in range(3)]
        for row, (prompt, answer) in enumerate(lengths):
            stage.add(f"r{batch}{row}", range(20 * row, 20 * row + prompt), max_tokens=answer)
        stage.step()
        blocks = [table.num_blocks for table in stage.kv.tables().values()]
        longest = max(len({position // 4 for position in range(prompt + answer)}) for prompt, answer in lengths)
        stage.expect(f"blocks of rows of prompt and answer {lengths}", blocks, [longest] * 3, "recount")
        stage.finish()


PIECES = (
    Piece("never-fits-and-waits", "A request that can never fit waits in the queue", "vllm-project/vllm#39734",
          "08_scheduling",
          "A prompt larger than the pool is accepted. It is first in line for ever, and everybody behind it waits.",
          "What can never fit is refused at once, with both numbers in the message.",
          (takes_everybody,), ten_blocks_in_a_pool_of_eight, "progress",
          C + "test_C1_what_can_never_fit_is_refused_at_once_and_the_next_is_served"),
    Piece("outgrows-the-pool-and-retries", "A lone request that outgrows the pool is preempted and tried again",
          "GeeeekExplorer/nano-vllm#274: the suggested retry (#277 says that it hangs)", "09_preemption",
          "The error is gone. The request gives its blocks up, waits for more than there are, and nothing moves.",
          "A request that alone needs more than the pool ends with a reason of its own, and the next is served.",
          (the_pool_is_no_limit,), outgrows_the_pool_alone, "progress",
          C + "test_C2_a_lone_request_that_outgrows_the_pool_ends_and_the_engine_goes_on", is_wrong_fix=True),
    Piece("prompts-before-decodes", "A long prompt takes the whole budget of every step", "ROCm/ATOM#1835",
          "10_chunked_prefill",
          "While a long prompt is computed in chunks, nobody else gets a token.",
          "Running requests get their one token first; a chunk takes what is left of the budget.",
          (prompts_first,), long_prompt_beside_two_decoders, "service",
          C + "test_C11_decoders_get_a_token_each_step_while_a_long_prompt_is_chunked"),
    Piece("once-full-always-full", "The mark that the batch is full is never taken back", "sgl-project/sglang#35537",
          "07_continuous_batching",
          "Seats stay empty though requests wait and memory is free.",
          "Whether somebody fits is asked in each step anew.",
          (once_full_always_full,), four_prompts_in_chunks, "service",
          C + "test_C12_all_seats_are_used_as_soon_as_the_chunks_are_done"),
    Piece("admits-for-one-chunk", "Admission asks for the blocks of the first chunk only", "vllm-project/vllm#21793",
          "10_chunked_prefill",
          "A long prompt starts, finds no block half way, gives up what it has, and starts again.",
          "A prompt that starts can also be finished: admission asks for all of its tokens.",
          (remembers_the_chunk, asks_for_the_first_chunk_only), two_that_grow, "service",
          C + "test_C6_a_prompt_that_starts_can_be_finished"),
    Piece("admits-for-max-tokens", "Admission asks for the longest answer that is allowed",
          "sgl-project/mini-sglang#97", "08_scheduling",
          "Memory is free and requests wait: it is kept for tokens that most of them will never say.",
          "Blocks are taken when they are needed. To reserve the maximum is the waste that paging removes.",
          (for_all_that_it_may_ever_say,), two_with_long_limits, "service",
          "tests/core/test_kv_manager.py::test_admission_asks_for_all_tokens_but_takes_the_blocks_of_the_chunk"),
    Piece("admission-forgets-the-prompt", "The blocks of the prompt are not counted",
          "source text, section 8: needed blocks = (max_tokens - prefix) / 16", "08_scheduling",
          "A long prompt with a short answer is let in without room for it.",
          "A request needs blocks for all its tokens, the prompt first of all.",
          (for_the_answer_without_the_prompt,), long_prompt_short_answer, "invariants",
          "tests/core/test_kv_manager.py::test_blocks_needed"),
    Piece("round-robin-in-name-only", "Round-robin never takes a seat back",
          "source text, section 8: says Round-Robin, runs first come, first served", "08_scheduling",
          "The first request keeps its seat to the end, however long it speaks.",
          "After `quantum` steps a seat goes to whoever waits.",
          (nobody_gives_a_seat_up,), three_on_one_seat, "service",
          "tests/core/test_policy.py::test_round_robin_waits_at_most_quantum_times_the_others_per_seat"),
    Piece("priority-upside-down", "The largest priority number runs first", "vllm-project/vllm#45561",
          "08_scheduling",
          "What matters most waits longest.",
          "A lower number runs first; of equals, who came first.",
          (large_numbers_first,), three_ranks, "service",
          "tests/core/test_vllm_scenarios_scheduler.py::test_S11_to_S14_priority_then_arrival"),
    Piece("static-room-for-the-first-row", "A static batch reserves as much as its first row needs",
          "paper: Yu et al., Orca, OSDI 2022, section 2: a batch ends with its longest request",
          "07_continuous_batching",
          "The longer rows have reserved too little, and in the middle of the batch memory has to be found.",
          "Every row reserves for the longest of its batch, from the first step on.",
          (room_for_the_first_row_only,), rows_of_any_length, "recount",
          "tests/core/test_static_batching.py::test_every_row_reserves_for_the_longest_from_the_first_step_on"),
)
