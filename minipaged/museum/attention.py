"""Bugs of attention through pages (chapters 04, 12 and 13)."""
from __future__ import annotations

from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Run

REFERENCE = "minipaged.kernels.reference"  # imported when a bug is switched on: it needs torch
TESTS = "tests/kernels/test_reference.py::"
MOVING = "tests/kernels/test_moving.py::"
SIZE = 4  # tokens a block
TABLE = (5, 2, 7)  # where the blocks of the sequence are


def wave(*shape: int, step: float):
    """A tensor of numbers between -1 and 1 that are the same everywhere."""
    import torch

    count = torch.Size(shape).numel()
    return torch.sin(step * (1 + torch.arange(count, dtype=torch.float64))).reshape(shape)


def dense(query, keys, values, window: int | None):
    """Attention over plain tensors, head by head: the last rows of one sequence. No pages."""
    import torch

    rows, heads, dim = query.shape
    out = torch.zeros_like(query)
    for row in range(rows):
        end = len(keys) - rows + row + 1
        start = 0 if window is None else max(0, end - window)
        for head in range(heads):
            kv = head // (heads // keys.shape[1])
            weights = torch.softmax(keys[start:end, kv] @ query[row, head] / dim ** 0.5, dim=0)
            out[row, head] = weights @ values[start:end, kv]
    return out


def attend(context: int, rows: int = 1, window: int | None = None, online: bool = False) -> Run:
    """One sequence in pages, the rest of the pool full of large numbers, beside the plain computation."""
    from minipaged.kernels import reference

    keys, values, query = wave(context, 2, 8, step=0.7), wave(context, 2, 8, step=1.3), wave(rows, 4, 8, step=2.1)
    key_blocks, value_blocks = wave(9, SIZE, 2, 8, step=0.9) * 9, wave(9, SIZE, 2, 8, step=0.3) * 9
    for position in range(context):
        block, offset = TABLE[position // SIZE], position % SIZE
        key_blocks[block, offset], value_blocks[block, offset] = keys[position], values[position]
    function = reference.paged_attention_online if online else reference.paged_attention
    got = function(query, key_blocks, value_blocks, TABLE, context, window=window, compute_dtype=query.dtype)
    run = Run()
    difference = float((got - dense(query, keys, values, window)).abs().max())
    run.expect("largest difference from plain attention", round(difference, 3), 0.0, judge="dense")
    return run


@change(REFERENCE, "paged_attention")
def the_whole_last_block(right, query, keys, values, table, context_len, **options):
    return right(query, keys, values, table, -(-context_len // keys.shape[1]) * keys.shape[1], **options)


@change(REFERENCE, "paged_attention")
def keys_for_values(right, query, keys, values, *rest, **options):
    return right(query, keys, keys, *rest, **options)


@change(REFERENCE, "paged_attention")
def heads_in_turn(right, query, keys, values, *rest, **options):
    heads = [head % keys.shape[2] for head in range(query.shape[1])]
    return right(query, keys[:, :, heads], values[:, :, heads], *rest, **options)


@change(REFERENCE, "paged_attention")
def one_position_more(right, *args, window=None, **options):
    return right(*args, window=window and window + 1, **options)


@change(REFERENCE, "_visible")
def rows_count_from_zero(right, num_tokens, context_len, window, device):
    return right(context_len, context_len, window, device)[:num_tokens]


@change(REFERENCE, "gather")
def pages_in_the_order_of_the_pool(right, cache, block_table, context_len):
    return right(cache, range(len(block_table)), context_len)


@change(REFERENCE, "paged_attention_online")
def a_softmax_for_each_page(right, query, keys, values, table, context_len, **options):
    size = keys.shape[1]
    pages = [right(query, keys, values, table[start // size:], min(size, context_len - start), **options)
             for start in range(0, max(1, context_len), size)]
    return sum(pages) / len(pages)


@change(REFERENCE, "copy_between")
def one_after_the_other(right, caches, pairs):
    for source_cache, target_cache in caches:
        for source, target in pairs:
            target_cache[target] = source_cache[source]


def chain_of_copies() -> Run:
    """Block 1 goes to 2 and block 2 to 3, in one step."""
    import torch

    from minipaged.kernels import reference

    cache = torch.arange(5.0).reshape(5, 1, 1, 1)
    reference.copy_blocks([cache], [(1, 2), (2, 3)])
    run = Run()
    run.expect("blocks after 1 to 2 and 2 to 3", [int(value) for value in cache.flatten()], [0, 1, 1, 2, 4], "dense")
    return run


@change(REFERENCE, "reshape_and_cache")
def padding_is_written(right, key, value, key_cache, value_cache, slot_mapping):
    num_slots = key_cache.shape[0] * key_cache.shape[1]
    right(key, value, key_cache, value_cache, slot_mapping % num_slots)


def a_padded_batch() -> Run:
    """Three tokens; the third is padding, slot -1."""
    import torch

    from minipaged.kernels import reference

    cache, tokens = torch.zeros(2, SIZE, 1, 1), torch.tensor([1.0, 2.0, 9.0]).reshape(3, 1, 1)
    reference.reshape_and_cache(tokens, tokens, cache, cache.clone(), torch.tensor([0, 1, -1]))
    run = Run()
    run.expect("the 8 slots", [int(value) for value in cache.flatten()], [1, 2, 0, 0, 0, 0, 0, 0], "dense")
    return run


PIECES = (
    Piece("reads-past-the-context", "The whole last block is attended", "source text, sections 4 and 9",
          "04_paged_attention",
          "The answer depends on what some other request left in the empty slots of the last block.",
          "Positions at or past the context length are never read.",
          (the_whole_last_block,), lambda: attend(10), "dense", TESTS + "test_prefill_equals_dense_attention"),
    Piece("keys-for-values", "Keys and values are read from the same place", "source text, section 4: keys and values",
          "04_paged_attention",
          "The weights are right and what they weigh is not: the output is a mean of keys.",
          "Keys decide how much of each value is taken; they are two caches.",
          (keys_for_values,), lambda: attend(10), "dense", TESTS + "test_prefill_equals_dense_attention"),
    Piece("heads-dealt-in-turn", "Query heads are dealt to KV heads in turn", "ekzhang/jax-js#180",
          "04_paged_attention",
          "With as many KV heads as query heads all is well; with fewer, half of the heads look into the wrong one.",
          "Query heads stand in groups: kv = h // (heads / KV heads), not h % KV heads.",
          (heads_in_turn,), lambda: attend(10), "dense", TESTS + "test_prefill_equals_dense_attention"),
    Piece("window-one-too-wide", "A window of W sees W + 1 positions", "huggingface/transformers#35896",
          "04_paged_attention",
          "A model with a window differs a little from its reference, once the text is longer than the window.",
          "A window of W is the token itself and the W - 1 before it.",
          (one_position_more,), lambda: attend(10, window=4), "dense", TESTS + "test_prefill_equals_dense_attention"),
    Piece("chunk-starts-at-zero", "A chunk of a prompt sees only as far as if it were the start",
          "HeduAiDev/vllm-from-scratch, 05_mini_vllm: chunks do not see earlier chunks", "10_chunked_prefill",
          "The first chunk is right. Every later one forgets what came before it.",
          "Row i of a chunk stands at position context - rows + i.",
          (rows_count_from_zero,), lambda: attend(10, rows=3), "dense",
          TESTS + "test_prefill_equals_dense_attention"),
    Piece("table-not-followed", "Pages are read in the order of the pool",
          "HeduAiDev/vllm-from-scratch, 05_mini_vllm: decode reads the first slots of the pool", "04_paged_attention",
          "One request in a new pool is right by luck. Any other reads its neighbours.",
          "Page i of a sequence is block_table[i].",
          (pages_in_the_order_of_the_pool,), lambda: attend(10), "dense",
          TESTS + "test_prefill_equals_dense_attention"),
    Piece("softmax-page-by-page", "Every page gets a softmax of its own",
          "paper: Milakov and Gimelshein, Online normalizer calculation for softmax, 2018", "12_triton",
          "Within one page all is right. With more pages each counts the same, however well it fits the query.",
          "One softmax over all pages: when a larger score comes, what was summed before is scaled down.",
          (a_softmax_for_each_page,), lambda: attend(10, online=True), "dense",
          TESTS + "test_page_by_page_equals_gather_first"),
    Piece("copies-one-after-the-other", "Block copies of one step are done one after the other",
          "paper: Kwon et al., SOSP 2023, section 5.1: fused block copy", "05_copy_on_write",
          "A block that is copied and is also the target of a copy arrives with the wrong contents.",
          "All copies of a step read what was there before any of them.",
          (one_after_the_other,), chain_of_copies, "dense", MOVING + "test_copies_happen_all_at_once"),
    Piece("padding-is-written", "A padded token is written into the last slot",
          "vllm-project/vllm#43810", "13_cuda",
          "The last block of the pool changes though nobody wrote there: slot -1 counts from the end.",
          "A negative slot means that there is nothing to write.",
          (padding_is_written,), a_padded_batch, "dense", MOVING + "test_reshape_and_cache"),
)
