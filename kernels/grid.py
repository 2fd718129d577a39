"""The cases that every kernel is tried on, and the rule by which it passes. Used by the tests and by
``minipaged kernels --check``.

The rule is that of FlashAttention's tests: with float64 as the judge, a kernel may be off by at most twice what
plain torch is off in the same number format, plus 1e-5. Inputs are normal, pages shuffled, and every slot
that must not be read holds NaN; table entries past a context are out of the pool.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from random import Random

import torch
from torch import Tensor

from . import reference

BLOCK_SIZES = (1, 8, 16, 32, 192)
HEAD_DIMS = (64, 80, 96, 128, 192)
GROUPS = (1, 3, 4, 6, 8)
DTYPES = ("float32", "float16", "bfloat16")
WINDOWS = (None, 5, 40)
LAYOUTS = ("contiguous", "strided")


@dataclass(frozen=True)
class Case:
    """What a kernel is tried with. ``group``: query heads of a KV head; ``layout``: whole tensors, or slices."""

    block_size: int = 16
    head_dim: int = 64
    group: int = 4
    dtype: str = "float32"
    window: int | None = None
    layout: str = "contiguous"

    def __str__(self) -> str:
        window = f" window {self.window}" if self.window else ""
        return (
            f"page {self.block_size} D {self.head_dim} group {self.group} {self.dtype}{window} {self.layout}"
        )


def every_case() -> Iterator[Case]:
    """The whole grid: 5 x 5 x 5 x 3, with windows and layouts taking turns."""
    turns = itertools.cycle(itertools.product(WINDOWS, LAYOUTS))
    for block_size, head_dim, group, dtype in itertools.product(BLOCK_SIZES, HEAD_DIMS, GROUPS, DTYPES):
        window, layout = next(turns)
        yield Case(block_size, head_dim, group, dtype, window, layout)


def pairwise_cases(seed: int = 0) -> list[Case]:
    """A small cover: every value of every parameter meets every value of every other one at least once.

    Greedy: of some random cases that contain a pair not yet covered, take the one with most such pairs.
    """
    axes = (BLOCK_SIZES, HEAD_DIMS, GROUPS, DTYPES, WINDOWS, LAYOUTS)
    random = Random(seed)
    missing = {
        ((i, a), (j, b))
        for i, j in itertools.combinations(range(len(axes)), 2)
        for a in axes[i]
        for b in axes[j]
    }
    chosen = []
    while missing:
        start = random.choice(sorted(missing, key=repr))
        best, best_pairs = None, set()
        for _ in range(40):
            values = [random.choice(axis) for axis in axes]
            for index, value in start:
                values[index] = value
            pairs = set(itertools.combinations(enumerate(values), 2)) & missing
            if len(pairs) > len(best_pairs):
                best, best_pairs = values, pairs
        chosen.append(Case(*best))
        missing -= best_pairs
    return chosen


@dataclass
class Inputs:
    """Tensors of one case; prefill takes ``new_query`` and ``query_start_loc``, decode takes ``query``."""

    query: Tensor
    key_cache: Tensor
    value_cache: Tensor
    block_tables: Tensor
    context_lens: Tensor
    new_query: Tensor
    query_start_loc: Tensor

    def to(self, device: str | torch.device) -> Inputs:
        return Inputs(**{f.name: getattr(self, f.name).to(device) for f in fields(self)})

    @property
    def decode(self) -> tuple[Tensor, ...]:
        return self.query, self.key_cache, self.value_cache, self.block_tables, self.context_lens

    @property
    def prefill(self) -> tuple[Tensor, ...]:
        return (self.new_query, self.key_cache, self.value_cache, self.block_tables, self.query_start_loc,
                self.context_lens)  # fmt: skip


def make_inputs(case: Case, contexts: list[int] | None = None, num_kv_heads: int = 2) -> Inputs:
    """Inputs of a case, each time the same. The default contexts are the ones where kernels break: 0, 1, a page less
    one, a page, a page and one, and a ragged longer one."""
    generator = torch.Generator().manual_seed(0)
    page, dim, dtype = case.block_size, case.head_dim, getattr(torch, case.dtype)
    if contexts is None:
        contexts = [0, 1, page - 1, page, page + 1, min(2 * page + 19, page + 60)]
        contexts = sorted(set(contexts), key=lambda n: (n * 7919) % 97)  # not in rising order
    num_heads, num_seqs = case.group * num_kv_heads, len(contexts)
    max_blocks = max(1, *(-(-n // page) for n in contexts)) + 1
    num_blocks = sum(-(-n // page) for n in contexts) + 3

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(dtype)

    pad = 8 if case.layout == "strided" else 0  # a multiple of 16 bytes in every format
    extra = 1 if pad else 0
    pools = []
    for _ in range(2):
        whole = torch.full(
            (num_blocks, page + extra, num_kv_heads + extra, dim + pad), float("nan"), dtype=dtype
        )
        pools.append(whole[:, :page, :num_kv_heads, :dim])
    free = iter(torch.randperm(num_blocks, generator=generator).tolist())
    tables = torch.full((num_seqs, max_blocks), num_blocks + 7, dtype=torch.int32)
    tables[:, 1::2] = -1
    for row, context in enumerate(contexts):
        for logical in range(-(-context // page)):
            block, used = next(free), min(page, context - logical * page)
            tables[row, logical] = block
            for pool in pools:
                pool[block, :used] = normal(used, num_kv_heads, dim)

    def rows(count: int) -> Tensor:  # in the strided layout: a slice of a packed [query, key, value] row
        return normal(count, num_heads + 2 * num_kv_heads * extra, dim + pad)[:, :num_heads, :dim]

    new = [min(n, 1 + 5 * i) for i, n in enumerate(contexts)]
    starts = [0, *itertools.accumulate(new)]
    return Inputs(
        query=rows(num_seqs), key_cache=pools[0], value_cache=pools[1], block_tables=tables,
        context_lens=torch.tensor(contexts, dtype=torch.int32), new_query=rows(starts[-1]),
        query_start_loc=torch.tensor(starts, dtype=torch.int32),
    )  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """The largest absolute difference of a kernel's result, and how large it may be."""

    error: float  # of the kernel, against float64
    allowed: float  # twice that of torch in the same number format, plus 1e-5

    @property
    def passed(self) -> bool:
        return self.error <= self.allowed  # False for a NaN


def judge(kind: str, kernel: Callable[..., Tensor], inputs: Inputs, window: int | None) -> Verdict:
    """Run ``kernel`` on the decode or prefill inputs and measure its error by the rule above."""
    arguments = getattr(inputs, kind)
    oracle = getattr(reference, f"paged_{kind}")
    exact = oracle(*arguments, window=window)
    plain = oracle(*arguments, window=window, compute_dtype=inputs.query.dtype)
    result = kernel(*arguments, window=window)

    def error(x: Tensor) -> float:
        return float((x.double() - exact).abs().max()) if x.numel() else 0.0

    return Verdict(error(result), 2 * error(plain) + 1e-5)
