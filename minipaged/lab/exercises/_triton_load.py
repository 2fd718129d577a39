"""Lab of chapter 12: one page, as far as it is filled."""
from __future__ import annotations

from types import SimpleNamespace

from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._triton_pages import EXAMPLES, NEEDS, SETUP, filled_pools, page_case, say
from minipaged.lab.trace import Trace

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
    pool, = filled_pools(case)
    for index in range(-(-case["context_len"] // case["page"])):
        count = min(case["page"], case["context_len"] - index * case["page"])
        block = case["table"][index]
        trace.call("load_page", pool, block, count, text=say("load_page", case, f"pool, {block}, {count}"))


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
    case=page_case,
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
