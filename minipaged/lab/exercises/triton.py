"""Lab of chapter 12: kernels in Triton, run by its interpreter on the CPU."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

NEEDS = ("torch", "triton")
#: as in the lab's setup cell; an answer has to stand alone
SETUP = '''\
import os
os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
import torch
import triton
import triton.language as tl

def guarded(tensor):
    beside = torch.full((tensor.numel() + 4096,), float("nan"), dtype=tensor.dtype)
    return torch.cat([beside, tensor.flatten(), beside])[len(beside):]

def launch(kernel, *arguments, **constants):
    try:
        kernel[(1,)](*arguments, **constants)
    except Exception as error:
        raise (error.__cause__ or error) from None

'''


def _pool(case: dict, count: int = 1) -> list:
    """float32 pools [num_blocks, page, dim]; slots without a token hold case["stale"], None for NaN."""
    import torch

    generator = torch.Generator().manual_seed(case["seed"])
    shape = case["num_blocks"], case["page"], case["dim"]
    written = torch.zeros(shape[:2], dtype=torch.bool)
    for position in range(case["context_len"]):
        written[case["table"][position // case["page"]], position % case["page"]] = True
    pools = [torch.randn(shape, generator=generator) for _ in range(count)]
    for pool in pools:
        pool[~written] = float("nan") if case["stale"] is None else case["stale"]
    return pools


def _case(rng: random.Random) -> dict:
    page, num_blocks = rng.choice([1, 2, 4]), rng.randint(1, 4)
    context = rng.randint(1, page * num_blocks)
    return {"seed": rng.randint(0, 999), "num_blocks": num_blocks, "page": page, "dim": rng.choice([1, 2, 4]),
            "table": rng.sample(range(num_blocks), num_blocks), "context_len": context, "stale": rng.choice([None, 5])}


#: P2, P0, P1 and 7 tokens, then a page exactly full, then one token
EXAMPLES = ({"seed": 1, "num_blocks": 3, "page": 4, "dim": 2, "table": [2, 0, 1], "context_len": 7, "stale": None},
            {"seed": 2, "num_blocks": 2, "page": 4, "dim": 4, "table": [1, 0], "context_len": 8, "stale": 5},
            {"seed": 3, "num_blocks": 3, "page": 2, "dim": 1, "table": [2, 1, 0], "context_len": 1, "stale": 5})


def _say(name: str, case: dict, arguments: str) -> str:
    return f"{name}({arguments}) of {case['num_blocks']} pages of {case['page']} slots, {case['dim']} numbers a slot"


# ---- triton.masked-load

LOAD = SETUP + '''\
@triton.jit
def load_page_kernel(out, pool, block, num_tokens, PAGE: tl.constexpr, DIM: tl.constexpr):
    slots = tl.arange(0, PAGE)
    dims = tl.arange(0, DIM)
    offsets = (block * PAGE + slots)[:, None] * DIM + dims[None, :]
    written = (slots < num_tokens)[:, None]
    page = tl.load(pool + offsets, mask=written, other=0.0)
    tl.store(out + slots[:, None] * DIM + dims[None, :], page)

def load_page(pool, block, num_tokens):
    num_blocks, page, dim = pool.shape
    out = guarded(torch.full((page, dim), 7.0))
    launch(load_page_kernel, out, guarded(pool), block, num_tokens, PAGE=page, DIM=dim)
    return out[:page * dim].reshape(page, dim).clone()
'''


def _drive_load(trace: Trace, case: dict) -> None:
    pool, = _pool(case)
    for index in range(-(-case["context_len"] // case["page"])):
        count = min(case["page"], case["context_len"] - index * case["page"])
        block = case["table"][index]
        trace.call("load_page", pool, block, count, text=_say("load_page", case, f"pool, {block}, {count}"))


def _load_page(pool, block: int, num_tokens: int):
    page = pool[block].clone()
    page[num_tokens:] = 0
    return page


def _wrong_load(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(LOAD, *pairs))


LOAD_EXERCISE = Exercise(
    id="triton.masked-load",
    title="One page, as far as it is filled",
    chapter="12_triton",
    minutes=15,
    level="easy",
    goal="Load one page of the pool in Triton; slots without a token give zeros, whatever they hold.",
    interface=("load_page(pool, block, num_tokens)",),
    hints=("All slots of the page are loaded at once. Which of them must not be looked at, and what shall stand in "
           "their place?",
           "slots = tl.arange(0, PAGE) and dims = tl.arange(0, DIM) are the rows and columns. Element (s, d) of block "
           "b lies at (b * PAGE + s) * DIM + d. tl.load takes a mask and `other`, the value where the mask is false.",
           "offsets = (block * PAGE + slots)[:, None] * DIM + dims[None, :]; x = tl.load(pool + offsets, mask=(slots < "
           "num_tokens)[:, None], other=0.0); tl.store(out + slots[:, None] * DIM + dims[None, :], x)."),
    rule="Slot s of block b begins at element (b * PAGE + s) * DIM of the pool. Only slots below num_tokens are read; "
         "the other rows of `out` are zeros.",
    examples=EXAMPLES,
    case=_case,
    drive=_drive_load,
    reference=lambda: SimpleNamespace(load_page=_load_page),
    misconceptions=(
        _wrong_load("no-mask", "you load the whole page. A slot without a token holds what was there before, here NaN. "
                    "A GPU does not clear memory when a page changes hands.", ", mask=written, other=0.0", ""),
        _wrong_load("multiplied-away", "you multiply the unwanted slots by 0. NaN times 0 is NaN: they must not be "
                    "loaded, or tl.where has to choose.", "tl.load(pool + offsets, mask=written, other=0.0)",
                    "tl.load(pool + offsets) * written.to(tl.float32)"),
        _wrong_load("one-more", "the mask lets one slot too many through: of n tokens the last is slot n - 1.",
                    "slots < num_tokens", "slots <= num_tokens"),
        _wrong_load("no-dim", "you take the number of a slot for the place of its first number. A slot has DIM "
                    "numbers, so slot s begins at s * DIM.", "(block * PAGE + slots)[:, None] * DIM",
                    "(block * PAGE + slots)[:, None]"),
        _wrong_load("first-page", "you load page 0 whatever the block number is.", "(block * PAGE + slots)", "(slots)"),
        _wrong_load("block-without-page", "block b begins b * PAGE slots into the pool, not b slots.",
                    "block * PAGE + slots", "block + slots"),
        _wrong_load("store-masked", "you also mask the store: the rows behind the last token keep what was in `out` "
                    "before. They shall be zeros.", "dims[None, :], page)", "dims[None, :], page, mask=written)"),
        _wrong_load("ones", "where the mask is false, `other` is what one gets; here it shall be 0.",
                    "other=0.0", "other=1.0"),
    ),
    needs=NEEDS,
    trials=20,
    seconds=4.0,
)

# ---- triton.gather

GATHER = SETUP + '''\
@triton.jit
def gather_kernel(out, pool, table, context_len, TILE: tl.constexpr, PAGE: tl.constexpr, DIM: tl.constexpr):
    positions = tl.arange(0, TILE)
    dims = tl.arange(0, DIM)
    inside = positions < context_len
    blocks = tl.load(table + positions // PAGE, mask=inside, other=0)
    slots = blocks * PAGE + positions % PAGE
    rows = tl.load(pool + slots[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
    tl.store(out + positions[:, None] * DIM + dims[None, :], rows, mask=inside[:, None])

def gather(pool, table, context_len, out):
    num_blocks, page, dim = pool.shape
    tile = triton.next_power_of_2(page * len(table))
    buffer, entries = guarded(out), torch.tensor([*table, *[0] * tile], dtype=torch.int32)
    launch(gather_kernel, buffer, guarded(pool), entries, context_len, TILE=tile, PAGE=page, DIM=dim)
    return buffer[:out.numel()].reshape(out.shape).clone()
'''


def _drive_gather(trace: Trace, case: dict) -> None:
    import torch

    pool, = _pool(case)
    out = torch.full((case["page"] * case["num_blocks"], case["dim"]), 7.0)
    trace.call("gather", pool, case["table"], case["context_len"], out,
               text=_say("gather", case, f"pool, {case['table']}, {case['context_len']}, out full of 7"))


def _gather(pool, table: list[int], context_len: int, out):
    result = out.clone()
    for position in range(context_len):
        result[position] = pool[table[position // pool.shape[1]], position % pool.shape[1]]
    return result


def _wrong_gather(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(GATHER, *pairs))


GATHER_EXERCISE = Exercise(
    id="triton.gather",
    title="Through the table",
    chapter="12_triton",
    minutes=20,
    level="medium",
    goal="Bring the tokens of a request, whose pages lie anywhere, into one row, all positions at the same time.",
    interface=("gather(pool, table, context_len, out)",),
    hints=("Position 5 with pages of 4: which entry of the table, which slot of that page?",
           "`positions` is a vector, so positions // PAGE is one too, and tl.load of a vector of addresses loads all "
           "table entries at once. From block and offset comes the slot, from the slot the address of its numbers.",
           "inside = positions < context_len; blocks = tl.load(table + positions // PAGE, mask=inside, other=0); slots "
           "= blocks * PAGE + positions % PAGE; load pool + slots[:, None] * DIM + dims[None, :] and store to out + "
           "positions[:, None] * DIM + dims[None, :], both with mask=inside[:, None]."),
    rule="Row p of `out` is slot p % PAGE of block table[p // PAGE], for p below context_len. Rows from context_len on "
         "belong to somebody else and stay as they are.",
    examples=EXAMPLES,
    case=_case,
    drive=_drive_gather,
    reference=lambda: SimpleNamespace(gather=_gather),
    misconceptions=(
        _wrong_gather("no-table", "you use the number of the logical block as if it were the physical one. The table "
                      "stands between them.", "blocks * PAGE", "(positions // PAGE) * PAGE"),
        _wrong_gather("entry-a-position", "you read one table entry a position. An entry serves PAGE positions.",
                      "tl.load(table + positions // PAGE,", "tl.load(table + positions,"),
        _wrong_gather("modulo-and-division", "you have the two parts of a position the wrong way round: position // "
                      "PAGE is the logical block, position % PAGE the offset in it.",
                      "blocks * PAGE + positions % PAGE", "blocks * PAGE + positions // PAGE",
                      "tl.load(table + positions // PAGE", "tl.load(table + positions % PAGE"),
        _wrong_gather("block-plus-offset", "a slot is block * PAGE + offset: each block before it takes PAGE slots.",
                      "blocks * PAGE + positions % PAGE", "blocks + positions % PAGE"),
        _wrong_gather("no-offset", "every position of a page reads its first slot.",
                      "blocks * PAGE + positions % PAGE", "blocks * PAGE"),
        _wrong_gather("no-store-mask", "you also store the rows behind the context: they are not yours. A masked load "
                      "does not mask the store.", "rows, mask=inside[:, None])", "rows)"),
        _wrong_gather("whole-pages", "your mask ends with the last page, not with the last token: the slots behind the "
                      "context hold anything, here NaN.", "positions < context_len",
                      "positions < (context_len + PAGE - 1) // PAGE * PAGE"),
        _wrong_gather("packed-by-slot", "you store each row where it lay in the pool; it belongs at its position.",
                      "tl.store(out + positions[:, None]", "tl.store(out + slots[:, None]"),
    ),
    needs=NEEDS,
    trials=20,
    seconds=4.0,
)

# ---- triton.online-softmax

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
    return {**_case(rng), "loud": rng.choice([1, 40])}


def _drive_decode(trace: Trace, case: dict) -> None:
    """`loud` makes the scores so large that exp overflows unless the largest is taken off first."""
    import torch

    keys, values = _pool(case, 2)
    query = torch.randn(case["dim"], generator=torch.Generator().manual_seed(case["seed"] + 1)) * case["loud"]
    trace.call("decode", query, keys * case["loud"], values, case["table"], case["context_len"],
               text=_say("decode", case, f"query, keys, values, {case['table']}, {case['context_len']}"))


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

EXERCISES = (LOAD_EXERCISE, GATHER_EXERCISE, DECODE_EXERCISE)
