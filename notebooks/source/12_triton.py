# %% [markdown]
# # 12 · A kernel in Triton
#
# Sixteen readers, {{context_of_each:,}} tokens each, Llama-3-8B on an H100. For each new token the cache must be read
# once. By the data sheet that takes {{once_ms:.1f}} ms. If you put the blocks of each text side by side first, it takes
# {{gathered_ms:.1f}} ms, and your readers wait.
#
# Can one attend to blocks where they lie? Yes, with a program of your own for the GPU, a **kernel** (核函数). You will write
# it here, step by step, on any laptop.

# %% [markdown]
# **After this chapter you can**
#
# - write a kernel that follows a block table, and run it without a GPU;
# - count the bytes that a kernel moves, and say what is the least;
# - read in a compiled kernel whether it will suffer.
#
# **Needs** [04 Attention through a table](04_paged_attention.ipynb), some torch · **Time** 30 minutes · **Level** hard · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.lesson.recorded import recorded
from minipaged.viz.show import show

predict("triton-gather")

# %%
predict("triton-idle")

# %% [markdown]
# ## The tool
#
# **Triton** is a language inside Python. You write what *one program* does with small blocks of numbers. The compiler
# turns that into code for the threads of a GPU. There is also an interpreter: it runs the same lines on the CPU, slowly
# and one program after the other. One variable switches it on. It must be set before Triton is imported.
#
# Triton exists for Linux only. If you don't have it, this chapter shows you results that we recorded, and says so each
# time.

# %%
from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"
os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # it fuses nothing here; unset, Triton warns
try:
    import triton
    import triton.language as tl
except ModuleNotFoundError:
    triton = None

# %%
import torch

from minipaged.kernels import KernelUnavailable


def launch(kernel, programs, *tensors, **sizes):
    """Run the kernel as `programs` programs. Tensors are passed as addresses."""
    if triton is None:
        raise KernelUnavailable("Triton is not installed")
    triton.jit(kernel)[(programs,)](*tensors, **sizes)

# %% [markdown]
# Our running example: request B has {{context}} tokens in blocks of {{BLOCK}}. They lie in the blocks
# {{table.tolist()}} of a pool. One head, vectors of {{DIM}} numbers. All slots that nobody has written hold NaN, "not a
# number". Whoever reads one of those by mistake will see it.

# %%
BLOCK, DIM, context = 4, 8, 10
draw = torch.Generator().manual_seed(12)
table = torch.tensor([2, 0, 5], dtype=torch.int32)
keys, values = torch.randn(2, 6, BLOCK, DIM, generator=draw)
query = torch.randn(DIM, generator=draw)
for cache in (keys, values):
    cache[5, 2:] = float("nan")  # the last block: two of its slots are used
    cache[[1, 3, 4]] = float("nan")  # blocks of nobody

# %% [markdown]
# ## Step 1: follow the table
#
# The first kernel only copies. There is one program for each entry of the table. It asks which one it is
# (`program_id`), looks up its block, and copies it to its place.

# %%
def copy_block(out, cache, table, BLOCK: tl.constexpr, DIM: tl.constexpr):
    logical = tl.program_id(0)
    physical = tl.load(table + logical)
    slots = tl.arange(0, BLOCK)[:, None]
    dims = tl.arange(0, DIM)[None, :]
    rows = tl.load(cache + (physical * BLOCK + slots) * DIM + dims)
    tl.store(out + (logical * BLOCK + slots) * DIM + dims, rows)


def gather(cache):
    out = torch.empty(len(table) * BLOCK, DIM)
    launch(copy_block, len(table), out, cache, table, BLOCK=BLOCK, DIM=DIM)
    return out


in_order = keys[table.long()].reshape(-1, DIM)
copied = recorded("12_triton", "copied",
                  lambda: torch.equal(gather(keys)[:context], in_order[:context]))
print("in order, as torch has it:", copied)

# %% [markdown]
# Look at `slots` and `dims`. One is a column, one is a row. Their sum is a whole matrix of addresses,
# {{BLOCK}} × {{DIM}}, and `tl.load` fetches all of it at once. There is no loop. This is how one thinks in Triton.

# %%
from minipaged.viz.figures.attention import attention_gather

show(attention_gather(table.tolist(), context_len=context, block_size=BLOCK, num_blocks=6))

# %% [markdown]
# ## Step 2: attend where they lie
#
# Now leave out the copy. One program walks over the blocks. It keeps three things: the largest score so far, the sum of
# weights, and the weighted sum of values. You know this **online softmax** (在线softmax) from chapter 04.

# %%
def attend(out, query, keys, values, table, context, BLOCK: tl.constexpr, DIM: tl.constexpr):
    dims, slots = tl.arange(0, DIM), tl.arange(0, BLOCK)
    q = tl.load(query + dims) * DIM**-0.5
    largest, total = -float("inf"), 0.0
    weighted = tl.zeros([DIM], tl.float32)
    for start in range(0, context, BLOCK):
        physical = tl.load(table + start // BLOCK)
        seen = start + slots < context
        at = (physical * BLOCK + slots)[:, None] * DIM + dims[None, :]
        k = tl.load(keys + at, mask=seen[:, None], other=0.0)
        v = tl.load(values + at, mask=seen[:, None], other=0.0)
        scores = tl.where(seen, tl.sum(q[None, :] * k, 1), -float("inf"))
        top = tl.maximum(largest, tl.max(scores, 0))
        rescale, weights = tl.exp(largest - top), tl.exp(scores - top)
        total = total * rescale + tl.sum(weights, 0)
        weighted = weighted * rescale + tl.sum(weights[:, None] * v, 0)
        largest = top
    tl.store(out + dims, weighted / total)

# %%
from minipaged.kernels import reference


def error_of(kernel, believed=context):
    out = torch.empty(DIM)
    launch(kernel, 1, out, query, keys, values, table, believed, BLOCK=BLOCK, DIM=DIM)
    cache = [one[:, :, None] for one in (keys, values)]  # one head
    lens = torch.tensor([context])
    right = reference.paged_decode(query[None, None], *cache, table[None], lens)
    return float((out.double() - right[0, 0]).abs().max())


close = recorded("12_triton", "attend", lambda: error_of(attend) < 1e-6)
print("equal to float64, up to 0.000001:", close)

# %% [markdown]
# The most important word in it is `mask`. The last block has room for {{BLOCK}}, and {{context % BLOCK}} are written.
# With the mask the rest is never read. A text on the web computes the length as *number of blocks × block size* instead.
# Let the kernel believe that:

# %%
broken = recorded("12_triton", "whole blocks",
                  lambda: str(error_of(attend, believed=len(table) * BLOCK)))
print("difference from float64:", broken)

# %% [markdown]
# Our pool says NaN, loudly. In a real pool there is the text of some other reader, and nothing looks wrong. (Would it
# not do to set the weights to 0? No: zero times NaN is NaN. So the values need the mask as well.)
#
# ## Count the bytes
#
# Why is that better than copying? In the interpreter each load and each store goes through one function, so we can
# count. First gather keys and values, then attend to the copy. Then attend in place.

# %%
from minipaged.kernels.triton.counting import counted


def moved():
    out, straight = torch.empty(DIM), torch.arange(len(table), dtype=torch.int32)
    with counted() as gathered:
        side_by_side = [gather(cache) for cache in (keys, values)]
        launch(attend, 1, out, query, *side_by_side, straight, context, BLOCK=BLOCK, DIM=DIM)
    with counted() as in_place:
        launch(attend, 1, out, query, keys, values, table, context, BLOCK=BLOCK, DIM=DIM)
    return gathered.moved, in_place.moved


gathered, in_place = recorded("12_triton", "moved", moved)
least = 2 * context * DIM * 4
print(f"gather, then attend: {gathered:>5} bytes\nattend in place:     {in_place:>5} bytes")
print(f"keys and values:     {least:>5} bytes; nobody can do with less")

# %%
reveal("triton-gather", gathered / in_place, "{:.2f} times as many")

# %% [markdown]
# Read, write, read: three moves for one. In place, almost nothing is moved but keys and values. The rest is the query,
# the result and {{len(table)}} entries of the table. For texts of real length it does not show any more.
#
# Moves are all that counts here. In the picture below, the roof says how much a GPU can compute for each byte that it
# moves. Decode is far on the left, under the slope. There, the time is the bytes divided by the bandwidth.

# %%
from minipaged.presets import preset
from minipaged.sim.hardware import card
from minipaged.viz.figures.machine import Kernel, roofline

h100, llama = card("h100"), preset("llama-3-8b").shape
readers, context_of_each = 16, 4096
cache_bytes = readers * llama.sequence_bytes(context_of_each)
once_ms = 1e3 * cache_bytes / h100.bandwidth
gathered_ms = 3 * once_ms
work = 4 * readers * context_of_each * llama.num_query_heads * llama.head_dim * llama.num_layers
show(roofline(h100, [Kernel("decode, in place", work, cache_bytes),
                     Kernel("decode, gather first", work, 3 * cache_bytes)]))

# %% [markdown]
# ## Step 3: heads that share
#
# In Llama-3-8B, {{llama.num_query_heads // llama.num_kv_heads}} query heads share one head of keys and values. If each
# query head has a program of its own, each reads the same keys again. So the kernel of the course gives a program the
# whole group. The queries of a group become the rows of a small matrix, and the scores are one product of matrices,
# `tl.dot`. GPUs have special units for it, the **tensor cores** (张量核心). This is the heart of the real kernel:

# %%
source("kernels/triton/decode.py: attend_tile")

# %% [markdown]
# It is your loop, with a matrix in place of a vector. Three differences are worth a look. It counts in powers of two,
# since `exp2` is what the hardware has. It survives rows that have seen nothing yet. And where a table names a block
# that doesn't exist, it gives NaN and not invented data.
#
# Does sharing show in the bytes? Eight query heads, two heads of keys and values:

# %%
from minipaged.kernels import paged_decode


def shared_heads():
    caches = torch.randn(2, 10, 16, 2, 64, generator=draw.manual_seed(1))
    queries = torch.randn(1, 8, 64, generator=draw)
    tables = torch.randperm(10, generator=draw)[None, :4].int()
    lens = torch.tensor([50], dtype=torch.int32)
    paged_decode(queries, *caches, tables, lens)  # the first call tests the interpreter
    apart = caches.repeat_interleave(4, dim=3)  # each query head with its own copy
    found = []
    for pair in (apart, caches):
        with counted() as counts:
            paged_decode(queries, *pair, tables, lens)
        found.append(counts.load_bytes)
    return found

# %%
own, shared = recorded("12_triton", "heads", shared_heads)
print(f"each query head reads for itself: {own:>7,} bytes")
print(f"a program for the group:          {shared:>7,} bytes")

# %% [markdown]
# ## Step 4: more programs
#
# One thing is still missing. A program runs on one **multiprocessor** (流式多处理器) of the GPU; an H100 has
# {{units}}. One reader with a long text and {{llama.num_kv_heads}} heads gives {{llama.num_kv_heads}} programs.

# %%
from minipaged.viz.widgets.splits import MULTIPROCESSORS, estimate

units = MULTIPROCESSORS["h100"]
alone = estimate("h100", requests=1, context=32768, splits=1)
reveal("triton-idle", 100 * alone["busy"], "{:.0f} percent")

# %% [markdown]
# So the context is cut into **splits** (切分). Each split has its own program, with its own largest score, sum and
# result. A second, small kernel puts them together: it scales each result to the common largest score, as your loop does
# from block to block. You will move the number of splits below.
#
# ## Look at the machine code
#
# Time can't be measured without a GPU. But the compiler runs without one. It tells what it used:
#
# - **registers** (寄存器): the variables of a thread. More than 255 there are not.
# - *stack*: variables that did not fit. They *spill* into slow memory. You want 0.
# - *mma*: instructions for the tensor cores. *async*: copies that run while the program computes on.
#
# Here is the real kernel for two cards: one of 2018 (`sm_75`) and one of 2022 (`sm_90`, H100).

# %%
from minipaged.kernels.triton import aot

compiled = recorded("12_triton", "compiled", lambda: aot.report(
    ("paged_decode bf16 D128 G4 splits 1",), ("sm_75", "sm_90")))
for one in compiled:
    print(f"{one['arch']}: {one['registers']:>3} registers, stack {one['stack']:>3} bytes, "
          f"{one['shared']:,} bytes shared, {one['mma']} mma, {one['cp_async']} async")

# %%
old, new = compiled

# %% [markdown]
# The same source, two very different fates. For the new card there are {{new["mma"]}} instructions for the tensor cores,
# {{new["cp_async"]}} copies that overlap with the work, and nothing spills. For the old card this Triton finds none of
# the two. All {{old["registers"]}} registers are full and {{old["stack"]}} bytes spill. Nothing would crash. It would be
# slow, and you would not know why.

# %% [markdown]
# ## Break it
#
# What can go wrong in step 2? This exhibit is right for short texts. Pick a letter before you go on.

# %%
from minipaged import museum

exhibit = museum.exhibit("softmax-page-by-page")
exhibit

# %%
piece = museum.piece("softmax-page-by-page")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# It is your loop without `rescale`. With one block there is nothing to rescale, so a test with a short text passes. The
# rule: *{{piece.rule}}* And for tests: always take a context that is longer than one block, and one that ends inside a
# block.

# %% [markdown]
# ## Exercises
#
# Write the mask, the gather and the online softmax yourself. The checks run them in the interpreter.

# %%
exercise_links("12_triton")

# %% [markdown]
# ## Explore
#
# Arithmetic, not a measurement: what a card could do at best. Begin with one request on an H100. **How many splits does
# it take until the time no longer falls? And with sixteen requests, is splitting still worth it?**

# %%
from minipaged.viz.widgets.splits import split_explorer

explorer = split_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# {{best}} splits: {{by_splits[best]:.0f}} microseconds in place of {{by_splits[1]:.0f}}. Then all multiprocessors have
# work, and more splits only add results to put together. With sixteen requests there are {{many["programs"]}} programs
# already, and {{many["busy"]:.0%}} of the card is at work without any split. So a server needs splits when few readers
# have long texts.
#
# </details>

# %% tags=["hidden"]
by_splits = {splits: explorer.at(splits=splits).data["microseconds"]
             for splits in explorer.controls[3].values}
best = min(by_splits, key=by_splits.get)
many = explorer.at(requests=16).data

# %% [markdown]
# ## Recap
#
# 1. A Triton program works on blocks of numbers; a column plus a row of addresses is a whole matrix.
# 2. Follow the table inside the kernel: a copy moves three times as much, and moving is all the time there is.
# 3. Masks decide what is read. What is not written must not be read, not even to be weighted with 0.
# 4. A program for a group of heads reads keys once; splits give a long context to many programs.
# 5. Without a GPU you still have values (interpreter), bytes (counted) and registers (compiled). Not time.

# %% [markdown]
# ## What vLLM does differently
#
# Its Triton kernel is `kernel_unified_attention` in `vllm/v1/attention/ops/triton_unified_attention.py`; the class
# around it is `TritonAttentionBackend`. One kernel serves prefill and decode: some query tokens times the heads of a
# group become the rows of the matrix. With few requests it takes a three-dimensional grid, where the third axis is the
# split (a *segment* there), and `reduce_segments` puts the parts together. `triton_attn.py` decides: it looks at
# `MIN_LAUNCH_GRID_SIZE_2D` and takes `NUM_PAR_SOFTMAX_SEGMENTS` segments. With `VLLM_BATCH_INVARIANT` there are no
# segments; after chapter 11 you know why. On most NVIDIA cards vLLM prefers FlashAttention or FlashInfer.
# (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("12_triton", ratio=gathered / in_place, stack=old["stack"])

# %% [markdown]
# ## Next
#
# Triton hides the threads from you. That is comfortable, and now and then it is not enough. The text that this course
# grew from shows a kernel in CUDA, where you see each thread. It has more faults than you would believe, and the worst
# ones show up only now and then.
#
# **[13 · From wrong to fast in CUDA](13_cuda.ipynb)** catches them on a laptop.
