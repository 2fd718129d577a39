"""Lab of chapter 04: query heads that share a KV head."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

GROUPS = '''\
import torch

def kv_head(head, num_heads, num_kv_heads):
    if num_heads % num_kv_heads:
        raise ValueError(f"{num_heads} query heads can't share {num_kv_heads} KV heads evenly")
    return head // (num_heads // num_kv_heads)

def grouped_scores(queries, keys):
    num_heads, head_dim = queries.shape
    num_kv_heads = keys.shape[1]
    rows = []
    for head in range(num_heads):
        rows.append(keys[:, kv_head(head, num_heads, num_kv_heads)] @ queries[head] / head_dim ** 0.5)
    return torch.stack(rows)
'''


def _groups_case(rng: random.Random) -> dict:
    kv_heads, group = rng.randint(1, 4), rng.randint(1, 4)
    return {"kv_heads": kv_heads, "num_heads": kv_heads * group + rng.choice([0, 0, 0, 1]),
            "seed": rng.randint(0, 999), "context": rng.randint(1, 5), "head_dim": rng.choice([1, 2, 4])}


def _drive_groups(trace: Trace, case: dict) -> None:
    import torch

    heads, kv_heads, dim = case["num_heads"], case["kv_heads"], case["head_dim"]
    for head in range(heads):
        trace.call("kv_head", head, heads, kv_heads)
        if trace.raised:
            return
    generator = torch.Generator().manual_seed(case["seed"])
    queries = torch.randn(heads, dim, generator=generator, dtype=torch.float64)
    keys = torch.randn(case["context"], kv_heads, dim, generator=generator, dtype=torch.float64)
    trace.call("grouped_scores", queries, keys,
               text=f"grouped_scores(queries {list(queries.shape)}, keys {list(keys.shape)})")


def _wrong_groups(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(GROUPS, *pairs))


GROUPS_EXERCISE = Exercise(
    id="attention.groups",
    title="Heads that share",
    chapter="04_paged_attention",
    minutes=12,
    level="easy",
    goal="Find the KV head of a query head, and score a query against the keys that its head shares.",
    interface=("kv_head(head, num_heads, num_kv_heads)", "grouped_scores(queries, keys)"),
    hints=("8 query heads share 2 KV heads. Which of the 8 read the first one, and how many are they?",
           "A group has num_heads / num_kv_heads neighbours; the number of the group is the number of the KV head. "
           "Then one product for each query head: the keys of its KV head times the query, divided by the root of "
           "head_dim.",
           "kv_head: if num_heads % num_kv_heads: raise ValueError; return head // (num_heads // num_kv_heads). "
           "grouped_scores: torch.stack([keys[:, kv_head(h, num_heads, num_kv_heads)] @ queries[h] / head_dim ** 0.5 "
           "for h in range(num_heads)])."),
    rule="num_heads / num_kv_heads neighbouring query heads read the same KV head: head h reads h // (num_heads / "
         "num_kv_heads). When that does not divide evenly, ValueError. A score is the product of key and query, "
         "divided by the root of head_dim.",
    examples=({"kv_heads": 2, "num_heads": 8, "seed": 1, "context": 4, "head_dim": 2},
              {"kv_heads": 4, "num_heads": 28, "seed": 2, "context": 1, "head_dim": 1},
              {"kv_heads": 4, "num_heads": 6, "seed": 3, "context": 1, "head_dim": 1}),
    case=_groups_case,
    drive=_drive_groups,
    reference=lambda: from_source(GROUPS),
    misconceptions=(
        _wrong_groups("modulo", "you deal the query heads out in turn, like cards. Neighbours sit together: of 8 heads "
                      "on 2, the first four read KV head 0.",
                      "head // (num_heads // num_kv_heads)", "head % num_kv_heads"),
        _wrong_groups("divides-by-kv-heads", "you divide by the number of KV heads, not by the size of a group: with "
                      "28 on 4, head 27 would read KV head 6 of 4.",
                      "head // (num_heads // num_kv_heads)", "head // num_kv_heads"),
        _wrong_groups("own-head", "you give every query head a KV head of its own; that is multi-head attention, "
                      "without groups.", "head // (num_heads // num_kv_heads)", "head"),
        _wrong_groups("always-first", "you let all query heads read the first KV head; that is right for one KV head "
                      "only (multi-query attention).", "head // (num_heads // num_kv_heads)", "0"),
        _wrong_groups("rounds", "28 heads on 4 divide evenly, 6 on 4 do not: there is no such model. Raise ValueError, "
                      "or some heads read a neighbour's keys.",
                      "    if num_heads % num_kv_heads:\n        raise ValueError(f\"{num_heads} query heads can't "
                      "share {num_kv_heads} KV heads evenly\")\n", ""),
        _wrong_groups("tiled-keys", "your kv_head is right, but grouped_scores goes round the KV heads in turn, as "
                      "`repeat` lays them out. repeat_interleave puts neighbours together.",
                      "kv_head(head, num_heads, num_kv_heads)]", "head % num_kv_heads]"),
        _wrong_groups("unscaled", "the products are not divided by the root of head_dim.", " / head_dim ** 0.5", ""),
        _wrong_groups("root-of-heads", "you divide by the root of the number of heads; it is that of head_dim.",
                      "/ head_dim ** 0.5", "/ num_heads ** 0.5"),
        _wrong_groups("transposed", "a row of the result is a query head, a column a token of the context; yours is "
                      "the other way round.", "torch.stack(rows)", "torch.stack(rows, dim=1)"),
    ),
    needs=("torch",),
    trials=60,
    seconds=2.0,
)
