"""Bugs of fork and copy-on-write (chapter 05)."""
from __future__ import annotations

from minipaged.core import BlockAllocator, KVCacheManager
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

CHAPTER = "05_copy_on_write"
TEXT = "tests/core/test_source_text.py::"
PROMPT = list(range(50, 60))  # 10 tokens: P0 and P1 full, P2 half full


@scene(8)
def second_request_writes_first(stage: Stage) -> None:
    stage.add("A", PROMPT, max_tokens=6)
    stage.step()
    stage.add("B", [*PROMPT, 7], max_tokens=6)
    stage.finish()


@scene(8)
def fork_after_the_prompt(stage: Stage) -> None:
    stage.add("A", PROMPT, max_tokens=6)
    stage.step()
    stage.fork("A", "B")
    stage.finish()


@change(KVCacheManager, "_copy_on_write")
def writes_into_the_shared_block(right, self, *args):
    return None


@change(KVCacheManager, "_copy_on_write")
def the_copies_are_lost(right, self, *args):
    right(self, *args)
    self.plan.copies.pop()


@change(KVCacheManager, "_copy_on_write")
def from_the_copy_to_the_original(right, self, *args):
    right(self, *args)
    source, copy = self.plan.copies.pop()
    self.plan.copies.append((copy, source))


@change(KVCacheManager, "_copy_on_write")
def the_old_block_keeps_its_count(right, self, request_id, table, index):
    old = table.blocks[index]
    right(self, request_id, table, index)
    self.allocator.increment_ref(old)


@change(KVCacheManager, "fork")
def parent_and_child_have_one_table(right, self, parent, child):
    right(self, parent, child)
    self._tables[child.request_id] = self._tables[parent.request_id]


@change(BlockAllocator, "increment_ref")
def a_fork_counts_nobody(right, self, block):
    return None


PIECES = (
    Piece("no-copy-on-write", "Nobody copies: both write into the shared block",
          "Avarok-Cybersecurity/atlas#1193, and source text, section 6", CHAPTER,
          "Two requests with one beginning go on differently, and each reads what the other one wrote.",
          "Whoever writes into a block with more than one holder copies it first.",
          (writes_into_the_shared_block,), second_request_writes_first, "contents",
          TEXT + "test_text6_the_writer_copies_P2_request_2_writes_first"),
    Piece("copy-is-planned-and-not-made", "The new block is in the table, and nothing is copied into it",
          "paper: Kwon et al., SOSP 2023, section 4.4", CHAPTER,
          "The writer's last block holds its new tokens and, before them, whatever was there.",
          "The plan carries every pair (source, copy), and the executor copies before it writes.",
          (the_copies_are_lost,), second_request_writes_first, "contents",
          TEXT + "test_text6_the_writer_copies_P2_request_2_writes_first"),
    Piece("copy-goes-backwards", "The copy is copied onto the original", "paper: Kwon et al., SOSP 2023, figure 8",
          CHAPTER,
          "Both lose: the original is overwritten with an empty block, and the copy stays empty.",
          "Pairs are (source, copy): the source is read, the copy is written.",
          (from_the_copy_to_the_original,), second_request_writes_first, "contents",
          "tests/core/test_vllm_scenarios_v0.py::test_V4_V5_fork_and_copy_on_write"),
    Piece("old-block-keeps-its-count", "The writer has a copy and still counts as a holder of the original",
          "vllm-project/vllm#1556", CHAPTER,
          "After the copy, P2 should have one holder and has two; when all are gone, it is not free.",
          "Putting a copy in place drops exactly one reference of the block that was there.",
          (the_old_block_keeps_its_count,), second_request_writes_first, "invariants",
          TEXT + "test_text6_counts_before_and_after_the_copy"),
    Piece("child-shares-the-table", "Parent and child have one table, not two equal ones",
          "happydog-intj/mini-vllm-tutorial, radix step: copy-on-write copies only a dictionary", CHAPTER,
          "The parent gets a block of its own, and the child's table changes with it.",
          "A fork has a table of its own, with the same blocks in it.",
          (parent_and_child_have_one_table,), fork_after_the_prompt, "invariants",
          "tests/core/test_vllm_scenarios_v0.py::test_V4_V5_fork_and_copy_on_write"),
    Piece("fork-counts-nobody", "A fork shares blocks without raising their counts",
          "paper: Kwon et al., SOSP 2023, section 4.4", CHAPTER,
          "The parent seems to hold its blocks alone, writes without a copy, and frees them under its child.",
          "A block's count is the number of tables that hold it.",
          (a_fork_counts_nobody,), fork_after_the_prompt, "invariants",
          "tests/core/test_fork.py::test_a_fork_takes_no_memory"),
)
