"""Lab of chapter 12: attention in one pass, page after page."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._triton_pages import EXAMPLES, NEEDS, SETUP, filled_pools, page_case, say
from minipaged.lab.trace import Trace

DECODE = SETUP + '''\
@triton.jit
def decode_kernel(out, query, keys, values, table, context_len, num_pages, scale,
                  PAGE: tl.constexpr, DIM: tl.constexpr):
    slots = tl.arange(0, PAGE)
    dims = tl.arange(0, DIM)
    q = tl.load(query + dims)
    largest = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    weighted = tl.zeros([DIM], tl.float32)
    for index in range(num_pages):
        block = tl.load(table + index)
        inside = index * PAGE + slots < context_len
        offsets = (block * PAGE + slots)[:, None] * DIM + dims[None, :]
        k = tl.load(keys + offsets, mask=inside[:, None], other=0.0)
        v = tl.load(values + offsets, mask=inside[:, None], other=0.0)
        scores = tl.where(inside, tl.sum(k * q[None, :], 1) * scale, float("-inf"))
        top = tl.maximum(largest, tl.max(scores, 0))
        rescale = tl.exp(largest - top)
        weights = tl.exp(scores - top)
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted * rescale + tl.sum(weights[:, None] * v, 0)
        largest = top
    tl.store(out + dims, weighted / total)

def decode(query, keys, values, table, context_len):
    num_blocks, page, dim = keys.shape
    out, entries = guarded(torch.zeros(dim)), torch.tensor(table, dtype=torch.int32)
    launch(decode_kernel, out, guarded(query), guarded(keys), guarded(values), entries, context_len,
           -(-context_len // page), dim ** -0.5, PAGE=page, DIM=dim)
    return out[:dim].clone()
'''


def _decode_case(rng: random.Random) -> dict:
    return {**page_case(rng), "loud": rng.choice([1, 40])}


def _drive_decode(trace: Trace, case: dict) -> None:
    """`loud` makes the scores so large that exp overflows unless the largest is taken off first."""
    import torch

    keys, values = filled_pools(case, 2)
    query = torch.randn(case["dim"], generator=torch.Generator().manual_seed(case["seed"] + 1)) * case["loud"]
    trace.call("decode", query, keys * case["loud"], values, case["table"], case["context_len"],
               text=say("decode", case, f"query, keys, values, {case['table']}, {case['context_len']}"))


def _decode(query, keys, values, table: list[int], context_len: int):
    rows = [(table[position // keys.shape[1]], position % keys.shape[1]) for position in range(context_len)]
    k = keys[[block for block, _ in rows], [offset for _, offset in rows]].double()
    v = values[[block for block, _ in rows], [offset for _, offset in rows]].double()
    weights = (k @ query.double() * keys.shape[2] ** -0.5).softmax(0)
    return (weights @ v).float()


def _wrong_decode(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(DECODE, *pairs))


DECODE_EXERCISE = Exercise(
    id="triton.online-softmax",
    title="Attention, page after page",
    chapter="12_triton",
    minutes=35,
    level="hard",
    goal="Attend to a paged context in one pass: a page at a time, with no room for all the scores.",
    interface=("decode(query, keys, values, table, context_len)",),
    hints=("After two pages you have a sum of exp(score - largest). The third page brings a larger score. What must "
           "happen to the sum, and to the weighted values?",
           "Keep three things: the largest score, the total of the weights, the weighted sum of the values. For a new "
           "page: top = max(largest, its scores); multiply total and weighted by exp(largest - top); add the page's "
           "weights exp(score - top). Scores behind the context are -inf. Divide at the end.",
           "scores = tl.where(inside, tl.sum(k * q[None, :], 1) * scale, float(\"-inf\")); top = tl.maximum(largest, "
           "tl.max(scores, 0)); rescale = tl.exp(largest - top); weights = tl.exp(scores - top); total = total * "
           "rescale + tl.sum(weights, 0); weighted = weighted * rescale + tl.sum(weights[:, None] * v, 0)."),
    rule="All weights are relative to one largest score. Whenever a page raises it, what was summed before is "
         "multiplied by exp(old - new). Positions from context_len on weigh nothing; at the end the sum is divided by "
         "the total weight.",
    examples=tuple({**case, "loud": loud} for case, loud in zip(EXAMPLES, (1, 40, 1))),
    case=_decode_case,
    drive=_drive_decode,
    reference=lambda: SimpleNamespace(decode=_decode),
    misconceptions=(
        _wrong_decode("no-rescale", "what you summed before is still relative to the old largest score. Multiply it by "
                      "exp(old - new) when the largest changes.", "rescale = tl.exp(largest - top)", "rescale = 1.0"),
        _wrong_decode("total-only", "you rescale the total and not the weighted values: the earlier pages weigh too "
                      "much.", "weighted = weighted * rescale", "weighted = weighted"),
        _wrong_decode("rescale-upside-down", "the factor is exp(old - new), at most 1: with a larger score in sight "
                      "the earlier ones weigh less.", "tl.exp(largest - top)", "1.0 / tl.exp(largest - top)"),
        _wrong_decode("padding-weighs", "the slots behind the context get the score 0, and exp(0) is a weight. Their "
                      "score must be -inf.", 'tl.where(inside, tl.sum(k * q[None, :], 1) * scale, float("-inf"))',
                      "tl.sum(k * q[None, :], 1) * scale"),
        _wrong_decode("softmax-a-page", "you make a softmax of every page and add them up. Pages do not count alike: "
                      "one total for all of them.",
                      "weighted = weighted * rescale + tl.sum(weights[:, None] * v, 0)",
                      "weighted = weighted + tl.sum(weights[:, None] * v, 0) / tl.sum(weights, 0)",
                      "weighted / total", "weighted / num_pages"),
        _wrong_decode("no-scale", "the scores are not multiplied by `scale`, 1 / root of the head size.",
                      "tl.sum(k * q[None, :], 1) * scale", "tl.sum(k * q[None, :], 1)"),
        _wrong_decode("not-divided", "you forget to divide by the total weight.", "weighted / total", "weighted"),
        _wrong_decode("no-table", "you walk through the pool in its own order; the table says which page comes next.",
                      "block = tl.load(table + index)", "block = index"),
        _wrong_decode("keys-as-values", "you sum up keys. The keys say how much, the values say what.",
                      "weights[:, None] * v", "weights[:, None] * k"),
        _wrong_decode("no-largest", "exp of a large score is infinite, and infinite / infinite is not a number. Take "
                      "the largest score off first.", "top = tl.maximum(largest, tl.max(scores, 0))",
                      "top = tl.zeros([1], tl.float32)", "rescale = tl.exp(largest - top)", "rescale = 1.0"),
    ),
    needs=NEEDS,
    trials=20,
    seconds=6.0,
)
