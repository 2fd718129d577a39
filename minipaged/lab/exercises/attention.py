"""Lab of chapter 04: attention over blocks that lie anywhere, for groups of heads, for chunks, page by page."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._attention_chunk import CHUNK_EXERCISE
from minipaged.lab.exercises._attention_groups import GROUPS_EXERCISE
from minipaged.lab.exercises._attention_online import ONLINE_EXERCISE
from minipaged.lab.trace import Trace

# ---- attention.gather

GATHER = '''\
import torch

def paged_attention(query, key_blocks, value_blocks, block_table, context_len):
    num_heads, head_dim = query.shape
    num_kv_heads = key_blocks.shape[2]
    keys = torch.cat([key_blocks[block] for block in block_table])[:context_len]
    values = torch.cat([value_blocks[block] for block in block_table])[:context_len]
    group = num_heads // num_kv_heads
    out = torch.zeros_like(query)
    for head in range(num_heads):
        kv_head = head // group
        scores = keys[:, kv_head] @ query[head] / head_dim ** 0.5
        weights = torch.softmax(scores, dim=0)
        out[head] = weights @ values[:, kv_head]
    return out
'''


def _gather_case(rng: random.Random) -> dict:
    size, num_blocks = rng.randint(1, 4), rng.randint(1, 5)
    context = rng.randint(1, size * num_blocks)
    table = rng.sample(range(num_blocks), num_blocks)[:-(-context // size)]
    return {"seed": rng.randint(0, 999), "num_blocks": num_blocks, "block_size": size, "kv_heads": rng.randint(1, 2),
            "group": rng.randint(1, 3), "head_dim": rng.choice([1, 2, 4]), "block_table": table,
            "context_len": context}


def _drive_gather(trace: Trace, case: dict) -> None:
    """float64; what no token of the context has written is NaN, as in a pool that others have used."""
    import torch

    generator = torch.Generator().manual_seed(case["seed"])
    size, context, table = case["block_size"], case["context_len"], case["block_table"]
    shape = case["num_blocks"], size, case["kv_heads"], case["head_dim"]
    keys, values = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    written = torch.zeros(case["num_blocks"], size, dtype=torch.bool)
    for position in range(context):
        written[table[position // size], position % size] = True
    keys[~written] = values[~written] = float("nan")
    query = torch.randn(case["kv_heads"] * case["group"], case["head_dim"], generator=generator, dtype=torch.float64)
    trace.call("paged_attention", query, keys, values, table, context,
               text=f"paged_attention(query {list(query.shape)}, key_blocks {list(shape)}, value_blocks, {table}, "
                    f"{context})")


def _reference() -> SimpleNamespace:
    from minipaged.kernels.reference import paged_attention

    def one_token(query, key_blocks, value_blocks, block_table, context_len):
        return paged_attention(query[None], key_blocks, value_blocks, block_table, context_len)[0]

    return SimpleNamespace(paged_attention=one_token)


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(GATHER, *pairs))


GATHER_EXERCISE = Exercise(
    id="attention.gather",
    title="Attention through a block table",
    chapter="04_paged_attention",
    minutes=25,
    level="medium",
    goal="Compute the attention of one new token over a context whose blocks lie anywhere.",
    interface=("paged_attention(query, key_blocks, value_blocks, block_table, context_len)",),
    hints=("If the keys of the context lay in one row, [context_len, num_kv_heads, head_dim], what would you do? "
           "And how do you get them into one row?",
           "Take the blocks of the table one after the other, put them together and cut off what lies behind "
           "context_len. For each query head: scores with its KV head, divided by the root of head_dim, softmax, "
           "and the weighted sum of the values.",
           "keys = torch.cat([key_blocks[b] for b in block_table])[:context_len], and values alike. For head h: "
           "kv = h // (num_heads // num_kv_heads); weights = torch.softmax(keys[:, kv] @ query[h] / head_dim ** "
           "0.5, dim=0); out[h] = weights @ values[:, kv]."),
    rule="Position p is read from block_table[p // block_size] at offset p % block_size, for p below context_len "
         "only; query head h reads KV head h // (num_heads / num_kv_heads); scores are divided by the root of "
         "head_dim.",
    examples=({"seed": 1, "num_blocks": 3, "block_size": 4, "kv_heads": 1, "group": 1, "head_dim": 2,
               "block_table": [2, 0], "context_len": 7},
              {"seed": 2, "num_blocks": 3, "block_size": 4, "kv_heads": 2, "group": 2, "head_dim": 4,
               "block_table": [1, 2, 0], "context_len": 9}),
    case=_gather_case,
    drive=_drive_gather,
    reference=_reference,
    misconceptions=(
        _wrong("no-table", "you read the blocks in the order of memory; the table says which block comes first.",
               "torch.cat([key_blocks[block] for block in block_table])",
               "torch.cat(list(key_blocks))", "torch.cat([value_blocks[block] for block in block_table])",
               "torch.cat(list(value_blocks))"),
        _wrong("whole-blocks", "you also read the slots of the last block that hold no token yet: they may hold "
               "anything, even NaN. Stop at context_len.",
               "key_blocks[block] for block in block_table])[:context_len]",
               "key_blocks[block] for block in block_table])",
               "value_blocks[block] for block in block_table])[:context_len]",
               "value_blocks[block] for block in block_table])"),
        _wrong("no-scale", "the scores are not divided by the root of head_dim.", " / head_dim ** 0.5", ""),
        _wrong("scale-by-dim", "the scores are divided by head_dim; its root is meant.",
               "/ head_dim ** 0.5", "/ head_dim"),
        _wrong("interleaved-heads", "neighbouring query heads share a KV head: head h reads h // group, not "
               "h % num_kv_heads.", "kv_head = head // group", "kv_head = head % num_kv_heads"),
        _wrong("first-kv-head", "all your query heads read the first KV head.", "kv_head = head // group",
               "kv_head = 0"),
        _wrong("no-softmax", "the weights are the exponentials of the scores; divide them by their sum.",
               "torch.softmax(scores, dim=0)", "torch.exp(scores)"),
        _wrong("keys-as-values", "you sum up keys; the weights belong to the values.",
               "weights @ values", "weights @ keys"),
        _wrong("forgets-newest", "the newest token sees itself too: the context has context_len tokens.",
               "key_blocks[block] for block in block_table])[:context_len]",
               "key_blocks[block] for block in block_table])[:max(context_len - 1, 1)]",
               "value_blocks[block] for block in block_table])[:context_len]",
               "value_blocks[block] for block in block_table])[:max(context_len - 1, 1)]"),
    ),
    needs=("torch",),
    trials=60,
    seconds=2.0,
)

EXERCISES = (GROUPS_EXERCISE, GATHER_EXERCISE, CHUNK_EXERCISE, ONLINE_EXERCISE)
