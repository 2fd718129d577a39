"""Right answers of different structure for the lab of chapter 12. Each cell is a whole answer."""

# %% triton.masked-load: one flat row of elements
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, pool, block, num_tokens, SIZE: tl.constexpr, DIM: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(out + i, tl.load(pool + block * SIZE + i, mask=i < num_tokens * DIM, other=0.0))


def load_page(pool, block, num_tokens):
    out = torch.empty(pool.shape[1:])
    kernel[(1,)](out, pool, block, num_tokens, SIZE=out.numel(), DIM=pool.shape[2])
    return out


# %% triton.masked-load: one program a slot
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, pool, block, num_tokens, PAGE: tl.constexpr, DIM: tl.constexpr):
    slot = tl.program_id(0)
    dims = tl.arange(0, DIM)
    row = tl.zeros([DIM], tl.float32)
    if slot < num_tokens:
        row = tl.load(pool + (block * PAGE + slot) * DIM + dims)
    tl.store(out + slot * DIM + dims, row)


def load_page(pool, block, num_tokens):
    out = torch.empty(pool.shape[1:])
    kernel[(pool.shape[1],)](out, pool, block, num_tokens, PAGE=pool.shape[1], DIM=pool.shape[2])
    return out


# %% triton.masked-load: load all, then choose
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, pool, block, num_tokens, PAGE: tl.constexpr, DIM: tl.constexpr):
    rows = tl.arange(0, PAGE)[:, None]
    places = rows * DIM + tl.arange(0, DIM)[None, :]
    page = tl.load(pool + block * PAGE * DIM + places)
    tl.store(out + places, tl.where(rows < num_tokens, page, 0.0))


def load_page(pool, block, num_tokens):
    out = torch.empty(pool.shape[1:])
    kernel[(1,)](out, pool, block, num_tokens, PAGE=pool.shape[1], DIM=pool.shape[2])
    return out


# %% triton.gather: one program a position
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, pool, table, PAGE: tl.constexpr, DIM: tl.constexpr):
    position = tl.program_id(0)
    dims = tl.arange(0, DIM)
    slot = tl.load(table + position // PAGE) * PAGE + position % PAGE
    tl.store(out + position * DIM + dims, tl.load(pool + slot * DIM + dims))


def gather(pool, table, context_len, out):
    result = out.clone()
    kernel[(context_len,)](result, pool, torch.tensor(table), PAGE=pool.shape[1], DIM=pool.shape[2])
    return result


# %% triton.gather: page after page in a loop
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, pool, table, context_len, PAGE: tl.constexpr, DIM: tl.constexpr):
    slots = tl.arange(0, PAGE)[:, None]
    places = slots * DIM + tl.arange(0, DIM)[None, :]
    for start in range(0, context_len, PAGE):
        block = tl.load(table + start // PAGE)
        inside = start + slots < context_len
        page = tl.load(pool + block * PAGE * DIM + places, mask=inside, other=0.0)
        tl.store(out + start * DIM + places, page, mask=inside)


def gather(pool, table, context_len, out):
    result = out.clone()
    kernel[(1,)](result, pool, torch.tensor(table), context_len, PAGE=pool.shape[1], DIM=pool.shape[2])
    return result


# %% triton.gather: element by element, the old row kept by tl.where
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, pool, table, context_len, SIZE: tl.constexpr, PAGE: tl.constexpr, DIM: tl.constexpr):
    i = tl.arange(0, SIZE)
    inside = i < context_len * DIM
    block = tl.load(table + i // (PAGE * DIM), mask=inside, other=0)
    new = tl.load(pool + block * PAGE * DIM + i % (PAGE * DIM), mask=inside, other=0.0)
    tl.store(out + i, tl.where(inside, new, tl.load(out + i)))


def gather(pool, table, context_len, out):
    size = triton.next_power_of_2(out.numel())
    result = torch.zeros(size)
    result[:out.numel()] = out.flatten()
    kernel[(1,)](result, pool, torch.tensor(table), context_len, SIZE=size, PAGE=pool.shape[1], DIM=pool.shape[2])
    return result[:out.numel()].reshape(out.shape)


# %% triton.online-softmax: token after token
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, query, keys, values, table, context_len, scale, PAGE: tl.constexpr, DIM: tl.constexpr):
    dims = tl.arange(0, DIM)
    q = tl.load(query + dims) * scale
    largest = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    weighted = tl.zeros([DIM], tl.float32)
    for position in range(context_len):
        at = (tl.load(table + position // PAGE) * PAGE + position % PAGE) * DIM + dims
        score = tl.sum(q * tl.load(keys + at), 0)
        top = tl.maximum(largest, score)
        old, weight = tl.exp(largest - top), tl.exp(score - top)
        total = total * old + weight
        weighted = weighted * old + weight * tl.load(values + at)
        largest = top
    tl.store(out + dims, weighted / total)


def decode(query, keys, values, table, context_len):
    out = torch.empty_like(query)
    kernel[(1,)](out, query, keys, values, torch.tensor(table), context_len, keys.shape[2] ** -0.5,
                 PAGE=keys.shape[1], DIM=keys.shape[2])
    return out


# %% triton.online-softmax: two passes, the largest score first
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def page_scores(q, keys, block, start, context_len, PAGE: tl.constexpr, DIM: tl.constexpr):
    slots = tl.arange(0, PAGE)
    at = (block * PAGE + slots)[:, None] * DIM + tl.arange(0, DIM)[None, :]
    inside = start + slots < context_len
    k = tl.load(keys + at, mask=inside[:, None], other=0.0)
    return tl.where(inside, tl.sum(k * q[None, :], 1), float("-inf")), at, inside


@triton.jit
def kernel(out, query, keys, values, table, context_len, scale, PAGE: tl.constexpr, DIM: tl.constexpr):
    dims = tl.arange(0, DIM)
    q = tl.load(query + dims) * scale
    largest = tl.full([1], float("-inf"), tl.float32)
    for start in range(0, context_len, PAGE):
        scores, at, inside = page_scores(q, keys, tl.load(table + start // PAGE), start, context_len, PAGE, DIM)
        largest = tl.maximum(largest, tl.max(scores, 0))
    total = tl.zeros([1], tl.float32)
    weighted = tl.zeros([DIM], tl.float32)
    for start in range(0, context_len, PAGE):
        scores, at, inside = page_scores(q, keys, tl.load(table + start // PAGE), start, context_len, PAGE, DIM)
        weights = tl.exp(scores - largest)
        total += tl.sum(weights, 0)
        weighted += tl.sum(weights[:, None] * tl.load(values + at, mask=inside[:, None], other=0.0), 0)
    tl.store(out + dims, weighted / total)


def decode(query, keys, values, table, context_len):
    out = torch.empty_like(query)
    kernel[(1,)](out, query, keys, values, torch.tensor(table), context_len, keys.shape[2] ** -0.5,
                 PAGE=keys.shape[1], DIM=keys.shape[2])
    return out


# %% triton.online-softmax: a running mean instead of sum and total
import os

os.environ["TRITON_INTERPRET"] = "1"
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(out, query, keys, values, table, context_len, scale, PAGE: tl.constexpr, DIM: tl.constexpr):
    slots, dims = tl.arange(0, PAGE), tl.arange(0, DIM)
    q = tl.load(query + dims)
    lse = tl.full([1], float("-inf"), tl.float32)
    mean = tl.zeros([DIM], tl.float32)
    for start in range(0, context_len, PAGE):
        at = (tl.load(table + start // PAGE) * PAGE + slots)[:, None] * DIM + dims[None, :]
        inside = start + slots < context_len
        k = tl.load(keys + at, mask=inside[:, None], other=0.0)
        v = tl.load(values + at, mask=inside[:, None], other=0.0)
        scores = tl.where(inside, tl.sum(k * q[None, :], 1) * scale, float("-inf"))
        top = tl.max(scores, 0)
        weights = tl.exp(scores - top)
        page_lse = top + tl.log(tl.sum(weights, 0))
        high = tl.maximum(lse, page_lse)
        new = high + tl.log(tl.exp(lse - high) + tl.exp(page_lse - high))
        page_mean = tl.sum(weights[:, None] * v, 0) / tl.sum(weights, 0)
        mean = mean * tl.exp(lse - new) + page_mean * tl.exp(page_lse - new)
        lse = new
    tl.store(out + dims, mean)


def decode(query, keys, values, table, context_len):
    out = torch.empty_like(query)
    kernel[(1,)](out, query, keys, values, torch.tensor(table), context_len, keys.shape[2] ** -0.5,
                 PAGE=keys.shape[1], DIM=keys.shape[2])
    return out
