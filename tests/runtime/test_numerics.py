"""Rotary positions and attention, each by itself (situations D1, D2, D4, D5, D11, D12)."""
from __future__ import annotations

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from minipaged.core import ScheduledRequest, StepPlan
from minipaged.errors import ModelFormatError
from minipaged.runtime.attention import DenseAttention, PagedAttention, make_backend, paged_attention
from minipaged.runtime.config import ModelConfig
from minipaged.runtime.inputs import StepInputs
from minipaged.runtime.kv_pool import KVPool, block_bytes
from minipaged.runtime.rope import rope_frequencies, rope_table, rotate

LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}


@pytest.mark.parametrize("key", ["rope_type", "type"])
def test_d1_llama3_frequencies(key):
    scaling = {key: "llama3", **{name: value for name, value in LLAMA3.items() if name != "rope_type"}}
    ratio = (rope_frequencies(128, 5e5, {**scaling, "factor": 8.0})[0] / rope_frequencies(128, 5e5)[0]).tolist()
    assert ratio[:29] == [1.0] * 29
    assert ratio[35:] == [0.125] * 29
    assert (ratio[29], ratio[31], ratio[34]) == pytest.approx((0.828168, 0.493507, 0.190211), abs=2e-6)
    ratio = (rope_frequencies(64, 5e5, {**scaling, "factor": 32.0})[0] / rope_frequencies(64, 5e5)[0]).tolist()
    assert (ratio[15], ratio[17]) == pytest.approx((0.60557, 0.10345), abs=1e-5)
    assert ratio[18:] == [0.03125] * 14


def test_d1_unknown_type():
    with pytest.raises(ModelFormatError, match="'dynamic'"):
        rope_frequencies(64, 1e4, {"rope_type": "dynamic", "factor": 2.0})


@pytest.mark.parametrize(("extra", "expected"), [
    ({"factor": 16.0, "mscale": 1.0, "mscale_all_dim": 1.0}, 1.0),
    ({"factor": 64.0, "attention_factor": 1.0}, 1.0),
    ({"factor": 4.0}, 1.138629)])
def test_d2_yarn_magnitude(extra, expected):
    _, factor = rope_frequencies(64, 1e4, {"rope_type": "yarn", "original_max_position_embeddings": 4096, **extra})
    assert factor == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("position", [255, 256, 257, 4095, 15962])
def test_d4_angles_are_float32(position):
    cos, sin = rope_table(16000, rope_frequencies(8, 1e4)[0])[:, position, 0].tolist()
    assert (cos, sin) == pytest.approx((math.cos(position), math.sin(position)), abs=1e-6)


def test_d11_dot_products_depend_on_distance_only():
    table = rope_table(60, rope_frequencies(16, 1e4)[0]).double()
    query, key = torch.randn(2, 1, 1, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def dot(i, j):
        turned = [rotate(x, *table[:, p, None, None]) for x, p in ((query, i), (key, j))]
        return float((turned[0] * turned[1]).sum())

    for distance in (0, 1, 7, 40):
        assert dot(distance, 0) == pytest.approx(dot(distance + 19, 19), abs=1e-5)
    assert dot(3, 0) != pytest.approx(dot(4, 0), abs=1e-3)


def test_d11_halves_not_pairs():
    cos, sin = rope_table(4, rope_frequencies(4, 1e4)[0])[:, 3, None, None]
    turned = rotate(torch.tensor([[[1.0, 0.0, 0.0, 0.0]]]), cos, sin)
    assert turned.flatten().tolist() == pytest.approx([math.cos(3), 0.0, math.sin(3), 0.0], abs=1e-6)


# ---- attention ----

def paged_case(heads, kv_heads, block_size, lengths, chunk, seed=0, head_dim=8):
    """(plan, query, key, value of the new tokens, pool that holds what came before, dense K and V)."""
    generator = torch.Generator().manual_seed(seed)
    config = ModelConfig("llama", 10, 8, 8, 1, heads, kv_heads, head_dim, 64, 1e-6, 1e4)
    blocks_each = [-(-length // block_size) for length in lengths]
    pool = KVPool(config, sum(blocks_each) + 2, block_size, dtype=torch.float64)
    pool.fill(float("nan"))
    free = torch.randperm(pool.num_blocks, generator=generator).tolist()
    plan, dense = StepPlan(0, block_size), []
    for index, (length, count) in enumerate(zip(lengths, blocks_each)):
        table, start = tuple(free.pop() for _ in range(count)), max(0, length - chunk)
        item = ScheduledRequest(str(index), start, (1,) * (length - start), table, True)
        plan.scheduled.append(item)
        key, value = torch.randn(2, length, kv_heads, head_dim, dtype=torch.float64, generator=generator)
        dense.append((key, value))
        before = ScheduledRequest(str(index), 0, (1,) * start, table, False)
        pool.write(0, torch.tensor(before.slots(block_size), dtype=torch.int64), key[:start], value[:start])
    query = torch.randn(plan.total_tokens, heads, head_dim, dtype=torch.float64, generator=generator)
    new = [torch.cat([pair[side][item.start:] for pair, item in zip(dense, plan.scheduled)]) for side in (0, 1)]
    return plan, query, new, pool, dense


@pytest.mark.parametrize("backend", ["reference", "torch"])
@pytest.mark.parametrize("window", [None, 1, 4, 6, 100])
@pytest.mark.parametrize("chunk", [1, 3, 50])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 2), (6, 1)])
def test_backends_equal_dense_attention(backend, window, chunk, heads, kv_heads):
    lengths = (1, 4, 5, 17, 12)
    plan, query, (key, value), pool, dense = paged_case(heads, kv_heads, 4, lengths, chunk)
    attention = PagedAttention(pool, make_backend(backend), 0.3, [window])
    attention.begin(StepInputs.from_plan(plan))
    out = attention(0, query, key, value)
    row = 0
    for (all_keys, all_values), item in zip(dense, plan.scheduled):
        length, count = item.context_len, len(item.token_ids)
        queries = torch.arange(item.start, length)[:, None]
        positions = torch.arange(length)[None]
        mask = positions <= queries if window is None else (positions <= queries) & (positions > queries - window)
        group = heads // kv_heads
        repeated = [side.repeat_interleave(group, dim=1).transpose(0, 1) for side in (all_keys, all_values)]
        expected = scaled_dot_product_attention(query[row:row + count].transpose(0, 1), *repeated, attn_mask=mask,
                                                scale=0.3).transpose(0, 1)
        torch.testing.assert_close(out[row:row + count], expected, atol=1e-12, rtol=1e-12)
        row += count


@pytest.mark.parametrize(("heads", "kv_heads"), [(28, 4), (32, 8), (12, 12), (8, 1)])
@pytest.mark.parametrize("backend", ["reference", "torch"])
def test_d5_which_kv_head_a_query_head_reads(backend, heads, kv_heads):
    plan, query, (key, value), pool, _ = paged_case(heads, kv_heads, 4, (6,), 50)
    value = torch.arange(kv_heads, dtype=torch.float64)[None, :, None].expand_as(value).contiguous()
    attention = PagedAttention(pool, make_backend(backend), 1.0, [None])
    attention.begin(StepInputs.from_plan(plan))
    found = attention(0, query, key, value)[0, :, 0].tolist()
    assert found == pytest.approx([h // (heads // kv_heads) for h in range(heads)])


def test_d12_a_window_of_4_is_exactly_4():
    """Query 9 sees 6, 7, 8 and 9: with equal scores the output is their mean."""
    keys = torch.zeros(3, 4, 1, 2, dtype=torch.float64)
    values = torch.arange(12, dtype=torch.float64).view(3, 4, 1, 1).expand(3, 4, 1, 2)
    out = paged_attention(torch.ones(1, 1, 2, dtype=torch.float64), keys, values, [0, 1, 2], 10, window=4)
    assert out.flatten().tolist() == pytest.approx([7.5, 7.5])


def test_an_empty_context_gives_zeros():
    blocks = torch.full((1, 4, 1, 2), float("nan"))
    assert paged_attention(torch.ones(1, 2, 2), blocks, blocks, [], 0).tolist() == [[[0, 0], [0, 0]]]


def test_dense_attention_equals_paged():
    plan, query, (key, value), pool, _ = paged_case(4, 2, 4, (7, 1, 12), 50)
    paged = PagedAttention(pool, make_backend("torch"), 0.3, [5])
    paged.begin(StepInputs.from_plan(plan))
    dense = DenseAttention(0.3, [5])
    dense.begin(StepInputs.from_sequences([[1] * 7, [1], [1] * 12]))
    torch.testing.assert_close(dense(0, query, key, value), paged(0, query, key, value))


# ---- the pool ----

def test_moves_go_out_then_in_then_copy():
    config = ModelConfig("llama", 10, 8, 8, 3, 2, 1, 4, 64, 1e-6, 1e4)
    pool = KVPool(config, 4, 2, num_cpu_blocks=2)
    for layer in range(3):
        for block in range(4):
            pool.key[layer][block] = 10 * layer + block
            pool.value[layer][block] = 100 + 10 * layer + block
    pool.move(swap_outs=[(0, 1)])  # block 0 is on the host, and its place is given to others at once:
    pool.move(swap_outs=[(1, 0)], swap_ins=[(1, 1)], copies=[(1, 2), (3, 0)])
    for layer in range(3):
        assert [float(pool.key[layer][block, 0, 0, 0]) for block in range(4)] == [10 * layer + b for b in (3, 0, 0, 3)]
        assert float(pool.value[layer][2, 1, 0, 3]) == 100 + 10 * layer
    pool.move(swap_ins=[(0, 3)])
    assert float(pool.key[2][3, 0, 0, 0]) == 21


def test_pool_bytes():
    config = ModelConfig("llama", 10, 8, 8, 3, 4, 2, 16, 64, 1e-6, 1e4)
    pool = KVPool(config, 5, 16, dtype=torch.bfloat16)
    assert pool.nbytes == 5 * block_bytes(config, 16, torch.bfloat16) == 5 * (2 * 3 * 16 * 2 * 16 * 2)
