"""Bugs of what the prefix cache keeps, forgets and counts (chapter 06)."""
from __future__ import annotations

from minipaged.core import KVCacheManager, PrefixCache
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

CHAPTER = "06_prefix_cache"
B = "tests/core/test_cases_b.py::"


@change(PrefixCache, "withdraw")
def keeps_its_old_key(right, self, block, keep=0, reason="evict"):
    if reason not in ("evict", "overwrite"):
        right(self, block, keep, reason)


@scene(2)
def reused_by_another(stage: Stage) -> None:
    for name, prompt in (("X", range(1, 5)), ("Y", range(100, 108)), ("X again", range(1, 5))):
        stage.add(name, prompt, max_tokens=1)
        stage.finish()


@change(KVCacheManager, "free")
def forgets_on_free(right, self, request):
    for block in self.blocks_of(request.request_id):
        if self.allocator.ref_count[block] == 1:
            self.prefix_cache.withdraw(block)
    right(self, request)


@scene(4)
def same_prompt_twice(stage: Stage) -> None:
    for name in ("A", "A again"):
        stage.add(name, range(8), max_tokens=2)
        stage.finish()
    stage.note("tokens of A found again", stage.requests["A again"].num_cached_tokens)


@change(PrefixCache, "publish")
def the_last_publisher_takes_the_key(right, self, request, table, first, last):
    published = right(self, request, table, first, last)
    for block in table[first:last]:
        same = self.node_of[block].blocks
        for other in set(same) - {block}:
            del same[other]
    return published


@scene(8)
def two_with_one_prompt(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=12)
    stage.step()
    stage.add("B", range(8), max_tokens=1)  # ends, and its copy of the second block is free
    stage.step()
    stage.add("C", range(50, 70), max_tokens=1)  # uses it again
    stage.step()
    again = stage.add("D", [*range(8), 9], max_tokens=1)
    stage.finish()
    stage.note("tokens of A's prompt found by D", again.num_cached_tokens)


@change(KVCacheManager, "cancel")
def what_it_published_stays(right, self, plan):
    self.unwritten.clear()
    right(self, plan)


@scene(8)
def plan_that_did_not_run(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=2)
    stage.scheduler.cancel(stage.scheduler.schedule())  # the GPU failed, say
    stage.scheduler.abort("A")
    again = stage.add("A again", range(8), max_tokens=2)
    stage.finish()
    stage.expect("tokens of A found, though none was computed", again.num_cached_tokens, 0)


@change(KVCacheManager, "free_count")
def evictable_blocks_count_again(right, self):
    return right(self) + sum(self.prefix_cache.covered[block] > 0 for block in self.allocator.free_blocks())


@scene(4)
def cached_and_free(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=1)
    stage.finish()
    stage.add("B", range(50, 54), max_tokens=3)
    stage.step()
    stage.expect("free blocks of 4 while B holds one", stage.kv.free_count, 3)
    stage.add("C", range(60, 76), max_tokens=1)
    stage.finish()


@change(PrefixCache, "withdraw")
def still_answers_for_what_was_overwritten(right, self, block, keep=0, reason="evict"):
    if reason != "overwrite":
        right(self, block, keep, reason)


@scene(8)
def overwritten_tail(stage: Stage) -> None:
    for name, prompt in (("A", range(7)), ("B", [*range(5), 90, 91]), ("A again", range(7))):
        stage.add(name, prompt, max_tokens=1)  # B uses one token of A's last block and writes over the others
        stage.finish()


@change(KVCacheManager, "free")
def the_cache_keeps_a_reference(right, self, request):
    for block in self.blocks_of(request.request_id):
        if self.prefix_cache.covered[block]:
            self.allocator.increment_ref(block)
    right(self, request)


@scene(4)
def one_after_the_other(stage: Stage) -> None:
    for number in range(3):
        stage.add(f"r{number}", range(20 * number, 20 * number + 8), max_tokens=2)
        stage.finish()


@change(KVCacheManager, "reset_prefix_cache")
def says_yes_and_forgets_nothing(right, self):
    return not self.tables()


@scene(8)
def new_weights(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=2)
    stage.finish()
    stage.model.weights = 1
    stage.kv.reset_prefix_cache()
    stage.add("A again", range(8), max_tokens=2)
    stage.finish()


@change(KVCacheManager, "reset_prefix_cache")
def though_requests_are_running(right, self):
    self.prefix_cache.reset()
    return True


@scene(8)
def reset_in_the_middle(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=4)
    stage.step()
    stage.expect("a reset while A holds blocks was done", stage.kv.reset_prefix_cache(), False)
    stage.check()
    stage.finish()


PIECES = (
    Piece("key-outlives-its-block", "A block that is used again keeps its old key", "GeeeekExplorer/nano-vllm#163",
          CHAPTER,
          "A prompt is found in a block that has been overwritten with another request's tokens.",
          "When a block is handed out again, its old key is withdrawn.",
          (keeps_its_old_key,), reused_by_another, "contents",
          B + "test_B11_a_reused_block_does_not_answer_for_its_old_contents"),
    Piece("key-dropped-on-free", "A block is forgotten when its last holder goes", "a710128/nanovllm-voxcpm#62",
          CHAPTER,
          "Nothing is wrong, and nothing is ever found again: the same prompt is computed anew each time.",
          "Freed is not evicted: a free block keeps its key until it is handed out again.",
          (forgets_on_free,), same_prompt_twice, "service",
          B + "test_B12_freeing_keeps_the_keys_and_growth_is_bounded_by_the_pool", is_wrong_fix=True),
    Piece("last-publisher-takes-the-key", "Of two blocks with the same contents only the newer one is known",
          "GeeeekExplorer/nano-vllm#219", CHAPTER,
          "Two requests have the same prompt. When the second ends and its block is used again, the first one's "
          "block, still there, is not found any more.",
          "Equal contents are one entry that names all its blocks; each leaves it alone.",
          (the_last_publisher_takes_the_key,), two_with_one_prompt, "invariants",
          "tests/core/test_vllm_scenarios_cache.py::test_M2_of_two_blocks_the_first_published_is_found"),
    Piece("cancelled-plan-stays-published", "A plan that did not run leaves its blocks in the cache",
          "huggingface/text-generation-inference#2489", CHAPTER,
          "A batch is dropped before it is computed. The same prompt is then found in blocks that nobody ever wrote.",
          "A plan that does not run withdraws what it published.",
          (what_it_published_stays,), plan_that_did_not_run, "contents",
          "tests/core/test_cases_a.py::test_A8_a_plan_that_does_not_run_withdraws_what_it_published"),
    Piece("evictable-counted-twice", "Free blocks with a key are counted as free and as evictable",
          "sgl-project/sglang#35270", CHAPTER,
          "There seems to be more free memory than the pool has. A request is admitted that does not fit.",
          "Every block is counted once: free + held = the pool, checked for too much as well as for too little.",
          (evictable_blocks_count_again,), cached_and_free, "invariants",
          "tests/core/test_cases_a.py::test_A5_free_and_held_blocks_are_the_whole_pool_after_every_step"),
    Piece("key-outlives-its-tokens", "A key still answers for tokens that were overwritten",
          "sgl-project/sglang#35270: a cached block whose tokens are later rewritten", CHAPTER,
          "The last block of a prompt is shared in part and written over. The prompt is then found in it.",
          "A write at offset o withdraws every key of that block that covers more than o tokens.",
          (still_answers_for_what_was_overwritten,), overwritten_tail, "contents",
          "tests/core/test_prefix_cache.py::test_a_write_in_place_withdraws_the_keys_that_cover_more"),
    Piece("cache-keeps-references", "The cache holds its blocks and never lets go",
          "source text, section 6: `store` adds references and nothing drops them", CHAPTER,
          "With every prompt fewer blocks are free; in the end nothing can be admitted.",
          "The cache holds no references: a block that no table holds is free, though it can still be found.",
          (the_cache_keeps_a_reference,), one_after_the_other, "invariants",
          "tests/core/test_vllm_scenarios_cache.py::test_P1_life_of_a_shared_prefix"),
    Piece("reset-forgets-nothing", "New weights are loaded and the old cache stays", "vllm-project/vllm#9744", CHAPTER,
          "After an update of the weights, prompts that were asked before get answers from both models at once.",
          "A change of weights empties the prefix cache.",
          (says_yes_and_forgets_nothing,), new_weights, "contents",
          "tests/core/test_vllm_scenarios_v0.py::test_V10_reset"),
    Piece("reset-under-way", "The cache is emptied while requests are running", "InternLM/lmdeploy#4917", CHAPTER,
          "A running request goes on to publish blocks, and its parents are not in the cache any more.",
          "A reset waits for the requests that hold blocks, or ends them first.",
          (though_requests_are_running,), reset_in_the_middle, "invariants",
          B + "test_B7_new_weights_need_a_reset_and_it_waits_for_live_requests"),
)
