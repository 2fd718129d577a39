# %% [markdown]
# # Lab 12 · Triton
#
# Three kernels: load one page, gather through the table, attend page after page. Triton's interpreter runs them on the
# CPU, so no GPU is needed; on a GPU the same text is compiled. Triton exists for Linux only: elsewhere the checks say so.
#
# Each answer is a kernel; the function below it launches the kernel and is given. `guarded` puts NaN on both sides of a
# tensor: a kernel that reads beside it sees NaN instead of somebody's memory.

# %% tags=["setup"]
import os

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: run kernels on the CPU
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
import torch

from minipaged.lab import check, hint

try:
    import triton
    import triton.language as tl
except ImportError:  # the kernels can be read and not run; the checks say so
    from types import SimpleNamespace
    triton, tl = SimpleNamespace(jit=lambda function: function), SimpleNamespace(constexpr=None)


def guarded(tensor):
    """A flat copy with NaN on both sides."""
    beside = torch.full((tensor.numel() + 4096,), float("nan"), dtype=tensor.dtype)
    return torch.cat([beside, tensor.flatten(), beside])[len(beside):]


def launch(kernel, *arguments, **constants):
    """Run one program of a kernel; an error inside it comes out as itself, not wrapped by the interpreter."""
    try:
        kernel[(1,)](*arguments, **constants)
    except Exception as error:
        raise (error.__cause__ or error) from None

# %% [markdown]
# {{exercise triton.masked-load}}
#
# The pool is one row of numbers: `num_blocks` pages (块) of `PAGE` slots of `DIM` numbers. `PAGE` and `DIM` are powers of
# two, known when the kernel is compiled. The kernel gets pointers, `pool` and `out`: adding a tensor of offsets to a pointer
# gives a tensor of addresses, and `tl.load` loads them all at once. A mask (掩码) says which ones to leave alone.
#
# - Write to `out`, `[PAGE, DIM]`: the first `num_tokens` slots of page `block`, then zeros.
# - It returns nothing; `load_page` is given.
#
# **Example.** Request A has pages `[2, 0]` of 4 slots and 7 tokens, so page 0 holds three of them:
# `load_page(pool, 0, 3)` gives three rows and a row of zeros. The fourth slot holds NaN.

# %% nbgrader={"grade": false, "grade_id": "triton_masked-load", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def load_page_kernel(out, pool, block, num_tokens, PAGE: tl.constexpr, DIM: tl.constexpr):
    ### BEGIN SOLUTION
    slots = tl.arange(0, PAGE)
    dims = tl.arange(0, DIM)
    offsets = (block * PAGE + slots)[:, None] * DIM + dims[None, :]
    written = (slots < num_tokens)[:, None]
    page = tl.load(pool + offsets, mask=written, other=0.0)
    tl.store(out + slots[:, None] * DIM + dims[None, :], page)
    ### END SOLUTION


def load_page(pool, block, num_tokens):
    num_blocks, page, dim = pool.shape
    out = guarded(torch.full((page, dim), 7.0))
    launch(load_page_kernel, out, guarded(pool), block, num_tokens, PAGE=page, DIM=dim)
    return out[:page * dim].reshape(page, dim).clone()

# %% nbgrader={"grade": true, "grade_id": "triton_masked-load_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("triton.masked-load")

# %% [markdown]
# {{exercise triton.gather}}
#
# Now all positions of a request at once. `positions = tl.arange(0, TILE)` covers the context and more: `TILE` is a power
# of two, at least as large as the pages of the table (块表). `table` is a pointer to its entries.
#
# - Row p of `out` gets the token at position p, for every p below `context_len`.
# - The rows behind it must stay as they are: they belong to somebody else.
#
# **Example.** Table `[2, 0, 1]`, pages of 4, 7 tokens: rows 0 to 3 of `out` are page 2, rows 4 to 6 the first three slots
# of page 0. Rows 7 and up keep their old contents.

# %% nbgrader={"grade": false, "grade_id": "triton_gather", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def gather_kernel(out, pool, table, context_len, TILE: tl.constexpr, PAGE: tl.constexpr, DIM: tl.constexpr):
    ### BEGIN SOLUTION
    positions = tl.arange(0, TILE)
    dims = tl.arange(0, DIM)
    inside = positions < context_len
    blocks = tl.load(table + positions // PAGE, mask=inside, other=0)
    slots = blocks * PAGE + positions % PAGE
    rows = tl.load(pool + slots[:, None] * DIM + dims[None, :], mask=inside[:, None], other=0.0)
    tl.store(out + positions[:, None] * DIM + dims[None, :], rows, mask=inside[:, None])
    ### END SOLUTION


def gather(pool, table, context_len, out):
    num_blocks, page, dim = pool.shape
    tile = triton.next_power_of_2(page * len(table))
    buffer, entries = guarded(out), torch.tensor([*table, *[0] * tile], dtype=torch.int32)
    launch(gather_kernel, buffer, guarded(pool), entries, context_len, TILE=tile, PAGE=page, DIM=dim)
    return buffer[:out.numel()].reshape(out.shape).clone()

# %% nbgrader={"grade": true, "grade_id": "triton_gather_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("triton.gather")

# %% [markdown]
# {{exercise triton.online-softmax}}
#
# A context of 100,000 tokens has 100,000 scores: too many for a program's registers. The online softmax (在线归一化) keeps
# only the largest score, the total of the weights and the weighted sum of the values, and corrects them page after page.
# One query head, one KV head.
#
# - Loop over the pages: `for index in range(num_pages)`. Page `index` of the request is block `table[index]`.
# - Its scores are `sum(k * q) * scale` a slot; slots from `context_len` on weigh nothing. Store `[DIM]` numbers to `out`.
# - `num_pages` pages hold the context; the last one may be filled in part, and holds NaN behind its last token.
#
# **Example.** Two pages of one slot, values 10 and 20, scores 0 and ln 3. After the first page: largest 0, total 1, weighted
# 10. The second one raises the largest to ln 3, so both are multiplied by exp(0 - ln 3) = 1/3: total 1/3 + 1 = 4/3, weighted
# 10/3 + 20 = 70/3. The result is 17.5 = 1/4 · 10 + 3/4 · 20.

# %% nbgrader={"grade": false, "grade_id": "triton_online-softmax", "locked": false, "schema_version": 3, "solution": true, "task": false}
@triton.jit
def decode_kernel(out, query, keys, values, table, context_len, num_pages, scale,
                  PAGE: tl.constexpr, DIM: tl.constexpr):
    ### BEGIN SOLUTION
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
    ### END SOLUTION


def decode(query, keys, values, table, context_len):
    num_blocks, page, dim = keys.shape
    out, entries = guarded(torch.zeros(dim)), torch.tensor(table, dtype=torch.int32)
    launch(decode_kernel, out, guarded(query), guarded(keys), guarded(values), entries, context_len,
           -(-context_len // page), dim ** -0.5, PAGE=page, DIM=dim)
    return out[:dim].clone()

# %% nbgrader={"grade": true, "grade_id": "triton_online-softmax_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("triton.online-softmax")
