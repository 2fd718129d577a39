"""The oracle against torch's own dense attention, and the page-by-page form against the oracle."""

from __future__ import annotations

import pytest
import torch
from minipaged.kernels import grid, reference

CASES = [
    grid.Case(16, 64, 4),
    grid.Case(1, 80, 3, window=5),
    grid.Case(192, 64, 1, window=40, layout="strided"),
    grid.Case(8, 96, 6, "bfloat16"),
]


def dense(inputs: grid.Inputs, row: int, window: int | None) -> torch.Tensor:
    """torch's attention on the unpaged keys and values of one sequence, in float64."""
    context = int(inputs.context_lens[row])
    first, last = inputs.query_start_loc[row : row + 2].tolist()
    page = inputs.key_cache.shape[1]
    slots = [(int(inputs.block_tables[row, t // page]), t % page) for t in range(context)]
    blocks, offsets = (list(x) for x in zip(*slots))
    keys, values = inputs.key_cache[blocks, offsets].double(), inputs.value_cache[blocks, offsets].double()
    new = last - first
    rows, columns = torch.arange(context - new, context)[:, None], torch.arange(context)[None, :]
    mask = columns <= rows
    if window:
        mask &= columns > rows - window
    query = inputs.new_query[first:last].double().transpose(0, 1)
    return torch.nn.functional.scaled_dot_product_attention(
        query[None], keys.transpose(0, 1)[None], values.transpose(0, 1)[None], attn_mask=mask, enable_gqa=True
    )[0].transpose(0, 1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_prefill_equals_dense_attention(case):
    inputs = grid.make_inputs(case)
    result = reference.paged_prefill(*inputs.prefill, window=case.window)
    for row, context in enumerate(inputs.context_lens.tolist()):
        if context:
            first, last = inputs.query_start_loc[row : row + 2].tolist()
            torch.testing.assert_close(
                result[first:last], dense(inputs, row, case.window), rtol=0, atol=1e-12
            )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_page_by_page_equals_gather_first(case):
    inputs = grid.make_inputs(case)
    for row, context in enumerate(inputs.context_lens.tolist()):
        first, last = inputs.query_start_loc[row : row + 2].tolist()
        arguments = (
            inputs.new_query[first:last],
            inputs.key_cache,
            inputs.value_cache,
            inputs.block_tables[row],
            context,
        )
        gathered = reference.paged_attention(*arguments, window=case.window)
        online = reference.paged_attention_online(*arguments, window=case.window, compute_dtype=torch.float64)
        torch.testing.assert_close(online, gathered, rtol=0, atol=1e-12)


def test_decode_of_an_empty_context_is_zero():
    inputs = grid.make_inputs(grid.Case(), [0, 3])
    result = reference.paged_decode(*inputs.decode)
    assert torch.equal(result[0], torch.zeros_like(result[0])) and bool((result[1] != 0).all())


def test_decode_is_the_last_row_of_prefill():
    inputs = grid.make_inputs(grid.Case(), [17])
    query, keys, values, tables, lens = inputs.decode
    chunk = torch.cat([torch.randn(4, *query.shape[1:]), query])
    prefill = reference.paged_prefill(chunk, keys, values, tables, torch.tensor([0, 5]), lens)
    torch.testing.assert_close(prefill[-1:], reference.paged_decode(*inputs.decode), rtol=0, atol=1e-12)
