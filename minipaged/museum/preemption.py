"""Bugs of preemption: who gives way, and how it comes back (chapter 09)."""
from __future__ import annotations

from minipaged.core import ContinuousBatchingScheduler, policy
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

CHAPTER = "09_preemption"
C = "tests/core/test_cases_c.py::"


@scene(4)
def two_in_four_blocks(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=6)
    stage.add("B", range(50, 57), max_tokens=6)
    stage.finish()


@change(policy.FCFS, "requeue")
def in_no_queue(right, self, waiting, request):
    return None


@change(policy.FCFS, "requeue")
def behind_all_others(right, self, waiting, request):
    waiting.append(request)


@scene(4, enable_prefix_caching=False)
def preempted_while_one_waits(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=6)
    stage.add("B", range(50, 57), max_tokens=6)
    stage.step()
    stage.add("C", range(80, 87), max_tokens=2)
    plans = stage.finish()
    stage.note("who gets memory next", [admission.request_id for plan in plans for admission in plan.admitted])


@change(ContinuousBatchingScheduler, "_preempt")
def the_victim_stays_in_the_plan(right, self, request, plan):
    scheduled = list(plan.scheduled)
    right(self, request, plan)
    plan.scheduled[:] = scheduled


@scene(3, scheduling_policy="priority", max_num_batched_tokens=5)
def victim_that_was_scheduled(stage: Stage) -> None:
    stage.add("A", range(4), max_tokens=6, priority=1)
    stage.step()
    stage.add("B", range(50, 54), max_tokens=6, priority=0)
    stage.finish()


@change(policy.VICTIMS, "newest")
def the_oldest_gives_way(right, running):
    return running[0]


@scene(4, enable_prefix_caching=False)
def who_loses_its_memory(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=6)
    stage.add("B", range(50, 57), max_tokens=6)
    stage.finish()
    stage.note("times that A and B lost their memory", [stage.requests[name].num_preemptions for name in "AB"])


@change(policy.VICTIMS, "most_generated")
def most_tokens_in_all(right, running):
    return max(reversed(running), key=lambda request: request.num_tokens)


@scene(6, victim="most_generated", enable_prefix_caching=False)
def long_prompt_and_long_answer(stage: Stage) -> None:
    talker = stage.add("talker", range(3), max_tokens=14)
    stage.step(6)
    stage.add("reader", range(50, 61), max_tokens=6)
    stage.finish()
    stage.note("times that the talker lost its memory", talker.num_preemptions)


@change(BaseScheduler, "_drop_memory")
def what_it_said_is_forgotten(right, self, request):
    right(self, request)
    del request.token_ids[request.num_prompt_tokens:]


@scene(4, enable_prefix_caching=False)
def sampled_twice(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=6)
    stage.add("B", range(50, 57), max_tokens=6)
    stage.finish()
    sampled = sum(len(event.tokens) for event in stage.run.events.select("commit"))
    stage.note("tokens sampled for two answers of 6", sampled)


PIECES = (
    Piece("victim-vanishes", "A preempted request is in no queue", "Wenyueh/MinivLLM, scheduler.py (e63c96c)", CHAPTER,
          "A request loses its memory and is never heard of again.",
          "Every live request is in exactly one queue.",
          (in_no_queue,), two_in_four_blocks, "invariants",
          "tests/core/test_vllm_scenarios_v0.py::test_V12_recompute_preemption"),
    Piece("victim-to-the-back", "Who was preempted queues behind all who came later", "vllm-project/vllm#41951",
          CHAPTER,
          "A request that was half done waits for newcomers, and what was computed for it is evicted meanwhile.",
          "First come, first served: who was preempted comes back first.",
          (behind_all_others,), preempted_while_one_waits, "service",
          "tests/core/test_policy.py::test_fcfs_a_preempted_request_is_first_in_line"),
    Piece("victim-stays-in-the-plan", "A request is scheduled and then preempted in the same step",
          "vllm-project/vllm#23347", CHAPTER,
          "The plan runs a request that holds no blocks any more: more are scheduled than are running.",
          "Who is preempted leaves the plan; its tokens and blocks go back to the step.",
          (the_victim_stays_in_the_plan,), victim_that_was_scheduled, "contents",
          C + "test_C8_scheduled_then_preempted_in_the_same_step"),
    Piece("oldest-gives-way", "The victim is the request that has run longest",
          "paper: Kwon et al., SOSP 2023, section 4.5: the latest are preempted first",
          CHAPTER,
          "The request that was nearest to its end starts again, time after time.",
          "The newest gives way, so that the oldest always makes progress.",
          (the_oldest_gives_way,), who_loses_its_memory, "service",
          "tests/core/test_policy.py::test_who_gives_way"),
    Piece("most-generated-counts-the-prompt", "A long prompt is taken for a long answer",
          "source text, section 8: preempt the request with most generated tokens", CHAPTER,
          "A request with a long prompt and a short answer loses its memory, again and again.",
          "Generated tokens are those after the prompt.",
          (most_tokens_in_all,), long_prompt_and_long_answer, "service",
          "tests/core/test_policy.py::test_who_gives_way"),
    Piece("recompute-drops-the-answer", "A preempted request forgets what it has said",
          "happydog-intj/mini-vllm-tutorial, step 12: recomputation drops generated tokens", CHAPTER,
          "A reader who follows the stream sees the answer begin a second time.",
          "Only K and V are dropped. The tokens stay, and are computed again as if they were a prompt.",
          (what_it_said_is_forgotten,), sampled_twice, "tokens",
          "tests/core/test_vllm_scenarios_v0.py::test_V12_recompute_preemption"),
)
