"""Bugs of what a request finds in the prefix cache, and of what it then computes (chapter 06)."""
from __future__ import annotations

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

CHAPTER = "06_prefix_cache"
B = "tests/core/test_cases_b.py::"


@scene(4)
def same_prompt_twice(stage: Stage) -> None:
    for name in ("A", "A again"):
        stage.add(name, range(8), max_tokens=2)
        stage.finish()
    stage.note("tokens of A found again", stage.requests["A again"].num_cached_tokens)


@change(KVCacheManager, "match")
def the_whole_prompt_may_hit(right, self, request):
    return self.prefix_cache.match(request, request.num_tokens, self.unwritten)


@change(ContinuousBatchingScheduler, "schedule")
def skips_who_has_nothing_to_compute(right, self):
    plan = right(self)
    plan.scheduled[:] = [item for item in plan.scheduled if item.token_ids]
    return plan


@change(KVCacheManager, "match")
def a_lookup_takes_references(right, self, request):
    match = right(self, request)
    for block in match.blocks:
        self.allocator.touch(block)
    return match


@change(KVCacheManager, "blocks_needed")
def every_hit_is_free_of_charge(right, self, request, match):
    return -(-request.num_tokens // self.block_size) - len(match.blocks)


@scene(6)
def a_hit_that_nobody_holds(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=1)
    stage.finish()
    stage.add("B", range(50, 58), max_tokens=6)
    stage.step()
    stage.add("C", [*range(8), *range(60, 66)], max_tokens=1)  # 2 blocks are found, both free; 2 more are needed
    stage.finish()


@change(KVCacheManager, "match")
def also_what_is_not_written_yet(right, self, request):
    return self.prefix_cache.match(request, request.num_tokens - 1)


@scene(8)
def twins_in_one_step(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=3)
    stage.add("B", range(8), max_tokens=3)
    stage.finish()


@change(KVCacheManager, "match")
def counted_before_the_lookup(right, self, request):
    match = right(self, request)
    return match._replace(num_tokens=0) if request.num_preemptions else match


@scene(6)
def preempted_and_found_again(stage: Stage) -> None:
    stage.add("rival", range(100, 108), max_tokens=9)
    stage.add("A", range(12), max_tokens=4)
    plans = stage.finish()
    resumed = [item for plan in plans for item in plan.scheduled if item.request_id == "A" and
               any(admission.resumed for admission in plan.admitted)]
    stage.note("tokens computed when A came back", [item.num_tokens for item in resumed])


PIECES = (
    Piece("full-hit-computes-nothing", "A prompt that is wholly cached is scheduled with no token to compute",
          "GeeeekExplorer/nano-vllm#144", CHAPTER,
          "The second time a prompt is asked, the step has an empty query for it, and no logits to choose from.",
          "At least the last token is computed, however much is found.",
          (the_whole_prompt_may_hit,), same_prompt_twice, "progress",
          B + "test_B8_the_same_prompt_twice_computes_at_least_one_token"),
    Piece("full-hit-is-skipped", "A wholly cached request is left out of the step", "GeeeekExplorer/nano-vllm#117",
          CHAPTER,
          "The error about the empty query is gone. The request stays for ever and never gets a token.",
          "A token is sampled from the logits of the last token: that one must be computed.",
          (the_whole_prompt_may_hit, skips_who_has_nothing_to_compute), same_prompt_twice, "progress",
          B + "test_B9_a_fully_cached_request_still_gets_its_tokens", is_wrong_fix=True),
    Piece("lookup-takes-references", "Looking a prefix up raises the counts before anybody is admitted",
          "source text, section 6: match_prefix", CHAPTER,
          "A request that has to wait holds blocks in no table; each time it is looked at, it holds them once more.",
          "A lookup changes nothing. Counts rise when the request is admitted, all or nothing.",
          (a_lookup_takes_references,), same_prompt_twice, "invariants",
          "tests/core/test_vllm_scenarios_cache.py::test_match_changes_nothing_and_names_what_it_found"),
    Piece("free-hits-cost-nothing", "A hit on a free block is not counted as a block that is taken",
          "vllm-project/vllm, tests/v1/core/test_prefix_caching.py: evictable hits count as demand", CHAPTER,
          "A request is admitted because most of its blocks are cached; then there are too few for the rest.",
          "A free block that is hit leaves the free queue: it counts as one taken.",
          (every_hit_is_free_of_charge,), a_hit_that_nobody_holds, "invariants",
          "tests/core/test_vllm_scenarios_cache.py::test_P9_a_refused_allocation_has_no_side_effects"),
    Piece("hit-before-it-is-written", "A block of this very step is copied before it is filled",
          "GeeeekExplorer/nano-vllm#208, vllm-project/vllm#37152", CHAPTER,
          "Two equal prompts arrive together. The second one shares what the first is about to compute, too early.",
          "A step copies, then writes, then reads: what it fills may be shared whole, but not copied from.",
          (also_what_is_not_written_yet,), twins_in_one_step, "contents",
          "tests/core/test_prefix_cache.py::test_a_block_that_this_step_fills_is_shared_whole_but_not_in_part"),
    Piece("counted-before-the-lookup", "The tokens of a step are counted before the cache is asked",
          "GeeeekExplorer/nano-vllm#211", CHAPTER,
          "A preempted request finds its own blocks again, and is scheduled for all of its tokens all the same.",
          "First the lookup, then the count: tokens to compute = length - tokens found.",
          (counted_before_the_lookup,), preempted_and_found_again, "service",
          B + "test_B13_a_preempted_request_finds_its_own_blocks_before_tokens_are_counted"),
)
