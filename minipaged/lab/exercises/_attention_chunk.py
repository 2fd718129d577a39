"""Lab of chapter 04: a chunk of queries that starts in the middle."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

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
