"""Lab of chapter 04: attention over blocks that lie anywhere, for groups of heads, for chunks, page by page."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
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

# ---- attention.groups

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

# ---- attention.causal-chunk

CHUNK = '''\
import torch

def chunk_attention(queries, keys, values, start):
    count, head_dim = queries.shape
    context = start + count
    keys, values = keys[:context], values[:context]
    scores = queries @ keys.T / head_dim ** 0.5
    position = start + torch.arange(count)[:, None]
    hidden = torch.arange(context) > position
    weights = torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=1)
    return weights @ values
'''


def _chunk_case(rng: random.Random) -> dict:
    return {"start": rng.randint(0, 6), "count": rng.randint(1, 5), "block_size": rng.randint(1, 4),
            "head_dim": rng.choice([1, 2, 4]), "seed": rng.randint(0, 999)}


def _drive_chunk(trace: Trace, case: dict) -> None:
    """One head; slots behind the chunk hold NaN."""
    import torch

    start, count, dim, size = case["start"], case["count"], case["head_dim"], case["block_size"]
    context = start + count
    slots = -(-context // size) * size
    generator = torch.Generator().manual_seed(case["seed"])
    queries, keys, values = (torch.randn(rows, dim, generator=generator, dtype=torch.float64)
                             for rows in (count, slots, slots))
    keys[context:] = values[context:] = float("nan")
    trace.call("chunk_attention", queries, keys, values, start,
               text=f"chunk_attention(queries {[count, dim]}, keys {[slots, dim]}, values {[slots, dim]}, {start})")


def _chunk_reference() -> SimpleNamespace:
    from minipaged.kernels.reference import paged_attention

    def chunk_attention(queries, keys, values, start):
        one_block = keys[None, :, None], values[None, :, None]
        return paged_attention(queries[:, None], *one_block, [0], start + len(queries))[:, 0]

    return SimpleNamespace(chunk_attention=chunk_attention)


def _wrong_chunk(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(CHUNK, *pairs))


CHUNK_EXERCISE = Exercise(
    id="attention.causal-chunk",
    title="A chunk that starts in the middle",
    chapter="04_paged_attention",
    minutes=18,
    level="medium",
    goal="Attend a chunk of new tokens to the whole context before it, and let no token see what comes after it.",
    interface=("chunk_attention(queries, keys, values, start)",),
    hints=("The second query of a chunk that starts at position 6: at which position does it stand, and how many "
           "tokens does it see?",
           "Query i stands at position start + i and sees the positions up to its own. Cut the keys behind the last "
           "query's position, put -inf where a query must not look, then softmax and the weighted sum.",
           "context = start + len(queries); keys, values = keys[:context], values[:context]; hidden = "
           "torch.arange(context) > start + torch.arange(len(queries))[:, None]; softmax of (queries @ keys.T / "
           "head_dim ** 0.5).masked_fill(hidden, float('-inf')), times values."),
    rule="Query i stands at position start + i. It sees the positions 0 to start + i, itself included, and nothing "
         "later; slots from start + the number of queries on hold no token of this request and are never read.",
    examples=({"start": 6, "count": 3, "block_size": 4, "head_dim": 2, "seed": 1},
              {"start": 0, "count": 4, "block_size": 4, "head_dim": 2, "seed": 2},
              {"start": 5, "count": 1, "block_size": 4, "head_dim": 4, "seed": 3}),
    case=_chunk_case,
    drive=_drive_chunk,
    reference=_chunk_reference,
    misconceptions=(
        _wrong_chunk("sees-the-future", "every query sees the whole chunk, also the tokens behind it. A token's K and "
                     "V must not depend on what comes later.",
                     "scores.masked_fill(hidden, float(\"-inf\"))", "scores"),
        _wrong_chunk("forgets-the-start", "you count positions from the chunk's first token, so the first query sees "
                     "only position 0. It stands at `start`, and sees all that was computed before.",
                     "start + torch.arange(count)", "torch.arange(count)"),
        _wrong_chunk("blind-to-itself", "your queries do not see their own token; each sees itself too.",
                     "torch.arange(context) > position", "torch.arange(context) >= position"),
        _wrong_chunk("one-ahead", "each of your queries sees one token too many, the one behind it.",
                     "torch.arange(context) > position", "torch.arange(context) > position + 1"),
        _wrong_chunk("whole-blocks", "you also read the slots behind the chunk. A weight of 0 does not help: 0 times "
                     "NaN is NaN. Cut them off.", "context = start + count", "context = keys.shape[0]"),
        _wrong_chunk("zero-is-not-hidden", "you put 0 where a query must not look, but a score of 0 has the weight "
                     "exp(0) = 1. Only -inf has the weight 0.", "float(\"-inf\")", "0.0"),
        _wrong_chunk("masks-weights", "you hide after the softmax: the weights of what is left no longer add up to 1.",
                     "torch.softmax(scores.masked_fill(hidden, float(\"-inf\")), dim=1)",
                     "torch.softmax(scores, dim=1).masked_fill(hidden, 0.0)"),
        _wrong_chunk("chunk-only", "your queries see nothing but their own chunk; the context before it counts as "
                     "well.",
                     "torch.arange(context) > position",
                     "(torch.arange(context) > position) | (torch.arange(context) < start)"),
        _wrong_chunk("wrong-axis", "the softmax runs over the queries; for each query the weights of its context add "
                     "up to 1.", "dim=1", "dim=0"),
    ),
    needs=("torch",),
    trials=60,
    seconds=2.0,
)

# ---- attention.online

ONLINE = '''\
import math

import torch

class OnlineSoftmax:
    def __init__(self, head_dim):
        self.largest = float("-inf")
        self.total = 0.0
        self.weighted = torch.zeros(head_dim, dtype=torch.float64)

    def add(self, scores, values):
        largest = max(self.largest, scores.max().item())
        if largest == float("-inf"):
            return
        scale = math.exp(self.largest - largest)
        weights = torch.exp(scores - largest)
        self.total = self.total * scale + weights.sum().item()
        self.weighted = self.weighted * scale + weights @ values
        self.largest = largest

    def result(self):
        return self.weighted / self.total
'''


def _online_case(rng: random.Random) -> dict:
    dim = rng.randint(1, 2)

    def token() -> list:
        score = rng.randint(-3, 3) + rng.choice([0, 0, 0, 1000, -1000])
        return [None if rng.random() > 0.75 else score, [rng.randint(-4, 4) for _ in range(dim)]]

    return {"head_dim": dim, "blocks": [[token() for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 4))]}


def _drive_online(trace: Trace, case: dict) -> None:
    """Blocks of (score, value); None is a token that must not be seen. A result is asked for after every block."""
    import torch

    online = trace.new("online", "OnlineSoftmax", case["head_dim"])
    seen = False
    for block in case["blocks"]:
        numbers = [float("-inf") if score is None else float(score) for score, _ in block]
        values = [value for _, value in block]
        online.call("add", torch.tensor(numbers, dtype=torch.float64), torch.tensor(values, dtype=torch.float64),
                    text=f"online.add(scores {numbers}, values {values})")
        seen = seen or any(score is not None for score, _ in block)
        if seen:
            online.call("result")


def _online_reference() -> SimpleNamespace:
    import torch

    class KeepsAll:
        """The softmax of everything at once: what an online one must equal."""

        def __init__(self, head_dim: int) -> None:
            self.scores, self.values = torch.empty(0).double(), torch.empty(0, head_dim).double()

        def add(self, scores: torch.Tensor, values: torch.Tensor) -> None:
            self.scores, self.values = torch.cat([self.scores, scores]), torch.cat([self.values, values])

        def result(self) -> torch.Tensor:
            return torch.softmax(self.scores, dim=0) @ self.values

    return SimpleNamespace(OnlineSoftmax=KeepsAll)


def _wrong_online(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(ONLINE, *pairs))


ONLINE_EXERCISE = Exercise(
    id="attention.online",
    title="Softmax, one block at a time",
    chapter="04_paged_attention",
    minutes=30,
    level="hard",
    goal="Attend to a context of any length while holding the scores of one block only, as the fast kernels do.",
    interface=("OnlineSoftmax(head_dim)", "OnlineSoftmax.add(scores, values)", "OnlineSoftmax.result()"),
    hints=("A softmax subtracts the largest score from all scores. You used the largest so far; now a larger one "
           "comes. By which factor are all your old weights too large?",
           "Keep three things: the largest score so far, the sum of the weights exp(score - largest), and the sum of "
           "the values times their weights. When the largest grows, multiply both sums by exp(old - new) first. Divide "
           "at the very end. While every score is -inf there is nothing to add.",
           "add: new = max(self.largest, scores.max().item()); if new is -inf, return; scale = math.exp(self.largest - "
           "new); weights = torch.exp(scores - new); total = total * scale + weights.sum(); weighted = weighted * "
           "scale + weights @ values; self.largest = new. result: weighted / total."),
    rule="result() is the softmax of all scores seen so far, times their values, as if they had come at once. Scores "
         "may be large (1000) or -inf (a token that is not seen), and result() changes nothing.",
    examples=({"head_dim": 1, "blocks": [[[0, [2]], [0, [4]]], [[1000, [7]]]]},
              {"head_dim": 2, "blocks": [[[1, [1, 0]], [2, [0, 1]]], [[3, [1, 1]], [0, [4, 2]]], [[-1, [0, 3]]]]},
              {"head_dim": 1, "blocks": [[[None, [5]]], [[-1000, [3]], [None, [9]]], [[None, [1]]]]}),
    case=_online_case,
    drive=_drive_online,
    reference=_online_reference,
    misconceptions=(
        _wrong_online("no-maximum", "you take exp of the plain scores: exp(1000) is infinite, and inf / inf is NaN. "
                      "Measure from the largest score.", "max(self.largest, scores.max().item())", "0.0"),
        _wrong_online("no-rescale", "when a larger score comes, your old sums are still measured from the old largest: "
                      "multiply them by exp(old - new).", "math.exp(self.largest - largest)", "1.0"),
        _wrong_online("rescales-half", "you scale the sum of the weights down, but not the sum of the weighted values; "
                      "both were measured from the old largest.", "self.weighted * scale", "self.weighted"),
        _wrong_online("block-maximum", "you measure from the largest score of this block, even when an earlier block "
                      "had a larger one: then exp(old - new) is larger than 1, and overflows. The largest only grows.",
                      "max(self.largest, scores.max().item())", "scores.max().item()"),
        _wrong_online("mean-of-blocks", "you take the softmax of each block and then a mean. A block with small scores "
                      "must count less than one with large scores.",
                      "weights = torch.exp(scores - largest)", "weights, scale = torch.softmax(scores, dim=0), 1.0"),
        _wrong_online("masked-block", "in a block where nothing may be seen every score is -inf, and -inf - (-inf) is "
                      "NaN. Such a block adds nothing.",
                      "        if largest == float(\"-inf\"):\n            return\n", "",
                      "math.exp(self.largest - largest)", "float(torch.exp(torch.tensor(self.largest - largest)))"),
        _wrong_online("divides-in-place", "result() divides the sum itself, so the next block is added to something "
                      "that was divided already. It must change nothing.",
                      "return self.weighted / self.total", "self.weighted /= self.total\n        return self.weighted"),
        _wrong_online("last-block", "you forget the weights of earlier blocks: the sum of the weights goes over all "
                      "blocks.",
                      "self.total * scale + weights.sum().item()", "weights.sum().item()"),
        _wrong_online("no-division", "you give the sum of the weighted values; divide it by the sum of the weights.",
                      "return self.weighted / self.total", "return self.weighted.clone()"),
    ),
    needs=("torch",),
    trials=60,
    seconds=2.0,
)

EXERCISES = (GROUPS_EXERCISE, GATHER_EXERCISE, CHUNK_EXERCISE, ONLINE_EXERCISE)
