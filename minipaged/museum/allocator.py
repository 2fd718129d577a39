"""Bugs of the block allocator (chapter 03)."""
from __future__ import annotations

from minipaged.core import BlockAllocator, KVCacheManager
from minipaged.errors import BlockError, OutOfBlocks
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

CHAPTER = "03_blocks"
TESTS = "tests/core/test_allocator.py::"


@change(BlockAllocator, "free_many")
def skips_free_blocks(right, self, blocks, *rest, **names):
    right(self, [block for block in blocks if self.ref_count[block] > 0], *rest, **names)


@scene(4)
def freed_twice(stage: Stage) -> None:
    allocator = stage.kv.allocator
    block = allocator.allocate("A")
    allocator.free(block)
    stage.must_raise(BlockError, "freeing block 0 again", allocator.free, block)


@change(BlockAllocator, "free_many")
def ignores_unknown_blocks(right, self, blocks, *rest, **names):
    right(self, [block for block in blocks if 0 <= block < self.num_blocks], *rest, **names)


@scene(4)
def freed_unknown(stage: Stage) -> None:
    stage.must_raise(BlockError, "freeing block 17 of a pool of 4", stage.kv.allocator.free, 17)


@change(BlockAllocator, "free_many")
def counts_every_entry(right, self, blocks, *rest, **names):
    blocks, before = list(blocks), self.free_count
    right(self, blocks, *rest, **names)
    self.free_count = before + len(blocks)


@scene(4)
def window_reuses_a_block(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=2)
    stage.step()
    table = stage.kv.table("A")
    table.append(table.blocks[0])  # a sliding window writes its third block over its first
    stage.scheduler.abort("A")
    stage.check()
    stage.expect("free blocks of 4", stage.kv.free_count, 4)
    stage.add("B", range(50, 62), max_tokens=1)
    stage.add("C", range(70, 78), max_tokens=1)  # one block is left, two are needed
    stage.finish()


@change(BlockAllocator, "allocate_many")
def starts_at_zero(right, self, *args, **names):
    blocks = right(self, *args, **names)
    for block in blocks:
        self.ref_count[block] = 0
    return blocks


@scene(6)
def one_request(stage: Stage) -> None:
    stage.add("A", range(6), max_tokens=3)
    stage.finish()
    stage.expect("free blocks of 6 when nobody is there", stage.kv.free_count, 6)


@change(KVCacheManager, "fork")
def counts_each_entry_of_the_table(right, self, parent, child):
    right(self, parent, child)
    blocks = self.blocks_of(child.request_id)
    for block in {block for block in blocks if blocks.count(block) > 1}:
        self.allocator.increment_ref(block)


@scene(4, enable_prefix_caching=False)
def fork_with_a_window(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=9)
    stage.step()
    old = stage.kv.table("A").replace(1, 0)  # the window came round: block 0, twice in the table
    stage.kv.allocator.free(old)
    stage.scheduler.fork("A", "A2")
    stage.check()
    for name in ("A2", "A"):
        stage.scheduler.abort(name)
    stage.expect("free blocks of 4 when both are gone", stage.kv.free_count, 4)


@change(BlockAllocator, "free_many")
def head_first(right, self, blocks, *rest, **names):
    right(self, reversed(list(blocks)), *rest, **names)


@scene(4)
def system_prompt_comes_back(stage: Stage) -> None:
    """Nothing here is wrong but the waste, so the right number is one by hand: of A's 3 blocks B needs one. If it takes
    the last one, the first two are found, 2 x 4 tokens; if it takes the first one, nothing is."""
    stage.add("A", range(12), max_tokens=1)
    stage.finish()
    stage.add("B", range(100, 108), max_tokens=1)  # takes two blocks: the free one, and one of A's
    stage.finish()
    again = stage.add("A again", range(12), max_tokens=1)
    stage.finish()
    stage.expect("tokens of A found again", again.num_cached_tokens, 8)


@change(BlockAllocator, "allocate_many")
def takes_what_there_is(right, self, count, *rest, **names):
    blocks = right(self, min(count, self.free_count), *rest, **names)
    if len(blocks) < count:
        raise OutOfBlocks(f"{count} blocks are needed, there were {len(blocks)}")
    return blocks


@scene(4)
def a_reserve_too_large(stage: Stage) -> None:
    stage.add("A", range(4), max_tokens=9)
    stage.step()
    request = stage.requests["A"]
    stage.must_raise(OutOfBlocks, "reserving 9 blocks of 4", stage.kv.reserve, request, 9)
    stage.expect("free blocks after the refusal", stage.kv.free_count, 3)


@change(BlockAllocator, "touch")
def leaves_it_in_the_queue(right, self, block):
    if self.ref_count[block]:
        right(self, block)
    else:
        self.ref_count[block] = 1


@scene(3)
def hit_on_a_free_block(stage: Stage) -> None:
    stage.add("A", range(5), max_tokens=1)
    stage.finish()
    stage.add("B", [*range(4), 70, 71, 72, 73, 74], max_tokens=4)  # finds block 0, which nobody holds
    stage.finish()


PIECES = (
    Piece("double-free-in-silence", "Freeing a block twice says nothing", "vllm-project/vllm#1584", CHAPTER,
          "The second free of a block returns as if all were well. Whoever got the block meanwhile will lose it.",
          "Freeing a free block is a bug of the caller: it raises, names the block and changes nothing.",
          (skips_free_blocks,), freed_twice, "errors",
          TESTS + "test_A2_second_free_raises_and_changes_nothing", is_wrong_fix=True),
    Piece("unknown-block-in-silence", "Freeing a block that does not exist says nothing",
          "source text, section 5: `free` returns silently", CHAPTER,
          "A wrong block number goes unnoticed, and the block that was meant stays taken for ever.",
          "A number outside the pool raises and changes nothing.",
          (ignores_unknown_blocks,), freed_unknown, "errors",
          TESTS + "test_unknown_block_is_named_and_nothing_changes"),
    Piece("block-freed-as-often-as-listed", "A release that names a block twice counts it twice",
          "vllm-project/vllm#42571", CHAPTER,
          "A table holds one block twice, because a sliding window came round. After the release there seem to be "
          "more free blocks than the pool has.",
          "A release drops one reference of each distinct block.",
          (counts_every_entry,), window_reuses_a_block, "invariants",
          TESTS + "test_A3_a_release_that_names_a_block_twice_frees_it_once"),
    Piece("new-block-counts-zero", "A new block starts with count 0", "Wenyueh/MinivLLM#70", CHAPTER,
          "The block is handed out, but nobody seems to hold it; giving it back fails or makes the count -1.",
          "Allocation makes the count 1: the count is the number of tables that hold the block.",
          (starts_at_zero,), one_request, "invariants",
          TESTS + "test_A7_new_block_has_count_1_and_free_gives_it_back"),
    Piece("fork-counts-table-entries", "A fork counts a block as often as the table names it",
          "vllm-project/vllm#1556", "05_copy_on_write",
          "After a fork, a block that stands twice in the table has a holder too many and never becomes free.",
          "A fork raises the count once for each distinct block.",
          (counts_each_entry_of_the_table,), fork_with_a_window, "invariants",
          "tests/core/test_fork.py::test_A1_a_block_that_stands_twice_in_a_table_has_one_holder_more_after_a_fork"),
    Piece("freed-head-first", "A request's blocks are freed from its first to its last",
          "llm-d/llm-d-inference-sim#704", CHAPTER,
          "The start of a prompt, which others are most likely to share, is evicted before its end. A prompt that "
          "could have been found in part is not found at all.",
          "Blocks of one request go back tail first, so that its start is evicted last.",
          (head_first,), system_prompt_comes_back, "numbers",
          TESTS + "test_release_order_by_contents"),
    Piece("takes-what-there-is", "A refused allocation keeps the blocks that it got", "Avarok-Cybersecurity/atlas#373",
          CHAPTER,
          "A request for too many blocks is refused, and yet fewer are free afterwards: they belong to nobody.",
          "Allocation of many blocks is all or nothing.",
          (takes_what_there_is,), a_reserve_too_large, "invariants",
          TESTS + "test_many_or_none_are_taken"),
    Piece("hit-stays-in-the-free-queue", "A block that was found again stays in the free queue",
          "Avarok-Cybersecurity/atlas#373", "06_prefix_cache",
          "A request finds a free block by its contents. A moment later the same block is handed out as new, and "
          "its contents are overwritten.",
          "A block with a holder is in no free queue; a hit takes it out of the middle.",
          (leaves_it_in_the_queue,), hit_on_a_free_block, "invariants",
          TESTS + "test_FQ2_touch_takes_out_of_either_end"),
)
