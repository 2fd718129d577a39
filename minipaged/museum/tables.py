"""Bugs of block tables, slots and growth (chapters 03 and 04)."""
from __future__ import annotations

import random

from minipaged.core import BlockTable, KVCacheManager, ScheduledRequest
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene


@change(ScheduledRequest, "slots")
def slot_is_position(right, self, block_size):
    return [position for position in range(self.start, self.context_len)]


@scene(6)
def two_requests(stage: Stage) -> None:
    stage.add("A", range(6), max_tokens=3)
    stage.add("B", range(50, 56), max_tokens=3)
    stage.finish()


@change(BlockTable, "slot")
def forgets_the_block_size(right, self, position):
    return self.get_physical(position // self.block_size) + position % self.block_size


@scene(6)
def blocks_in_any_order(stage: Stage) -> None:
    """Each slot is looked up again: block after block, slot after slot, all are numbered through."""
    rng = random.Random(1)
    for tokens in (6, 9, 23):
        table = BlockTable(4, rng.sample(range(6), 6))
        places = [(block, offset) for block in range(6) for offset in range(4)]
        wanted = [places.index((table.blocks[position // 4], position % 4)) for position in range(tokens)]
        stage.expect(f"slots of {tokens} tokens in the blocks {list(table.blocks)}", table.slots(0, tokens), wanted,
                     "recount")


@change(KVCacheManager, "grow")
def one_position_late(right, self, request, start, end):
    table = self.table(request.request_id)
    if end - start == 1 and start == table.num_blocks * self.block_size:
        return table.blocks  # "the block is taken after the write"
    return right(self, request, start, end)


@scene(6)
def over_the_edge(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=4)
    stage.finish()


@change(KVCacheManager, "blocks_needed")
def one_more_when_exactly_full(right, self, request, match):
    return right(self, request, match) + (request.num_tokens % self.block_size == 0)


@scene(2)
def exactly_two_blocks(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=1)
    stage.finish()


@change(BlockTable, "replace")
def table_still_names_the_old_block(right, self, logical, block):
    return self.get_physical(logical)


@scene(8)
def second_writer(stage: Stage) -> None:
    stage.add("A", range(50, 60), max_tokens=6)
    stage.step()
    stage.add("B", [*range(50, 60), 7], max_tokens=6)
    stage.finish()


PIECES = (
    Piece("slot-is-the-position", "K and V are written where the position says, not where the table says",
          "HeduAiDev/vllm-from-scratch, 05_mini_vllm: decode indexes the flat cache without the table",
          "04_paged_attention",
          "With one request all is well. With two, both write into the same first blocks.",
          "slot = block_table[position // block_size] x block_size + position % block_size.",
          (slot_is_position,), two_requests, "contents",
          "tests/core/test_scheduler.py::test_a_plan_is_plain_data"),
    Piece("slot-without-block-size", "A slot is block + offset", "paper: Kwon et al., SOSP 2023, section 4.3",
          "03_blocks",
          "Slots of different blocks fall on one another: block 1 begins inside block 0.",
          "A slot counts tokens, not blocks: block x block_size + offset.",
          (forgets_the_block_size,), blocks_in_any_order, "recount",
          "tests/core/test_block_table.py::test_position_to_slot_is_block_times_size_plus_offset"),
    Piece("block-one-step-late", "The next block is taken after the token that needed it",
          "source text, section 8: a new block when generated % 16 == 0, after the write", "03_blocks",
          "The first token past a full block has no place to go.",
          "Before a step, a request has a block for every position that the step writes.",
          (one_position_late,), over_the_edge, "errors",
          "tests/core/test_source_text.py::test_text8_blocks_are_taken_when_they_are_needed_not_for_max_tokens"),
    Piece("full-last-block-counts-one-more", "A length that fills its last block exactly asks for one block more",
          "Wenyueh/MinivLLM#87", "03_blocks",
          "A prompt of 8 tokens waits for ever before a pool that holds exactly 8.",
          "n tokens need ceil(n / block_size) blocks; an exact multiple needs no more.",
          (one_more_when_exactly_full,), exactly_two_blocks, "progress",
          "tests/core/test_cases_a.py::test_A7_a_last_block_that_is_exactly_full"),
    Piece("table-keeps-the-old-block", "The copy is made, and the table still names the old block",
          "sgl-project/mini-sglang#142", "05_copy_on_write",
          "A request gets a block of its own to write into, and goes on writing into the one that others read.",
          "A table is changed before its old block is let go.",
          (table_still_names_the_old_block,), second_writer, "invariants",
          "tests/core/test_block_table.py::test_replace_returns_the_old_block_and_leaves_the_others"),
)
