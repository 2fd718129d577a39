"""Lab of chapter 12: through the block table, all positions at once."""
from __future__ import annotations

from types import SimpleNamespace

from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._triton_pages import EXAMPLES, NEEDS, SETUP, filled_pools, page_case, say
from minipaged.lab.trace import Trace

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

    pool, = filled_pools(case)
    out = torch.full((case["page"] * case["num_blocks"], case["dim"]), 7.0)
    trace.call("gather", pool, case["table"], case["context_len"], out,
               text=say("gather", case, f"pool, {case['table']}, {case['context_len']}, out full of 7"))


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
    case=page_case,
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
