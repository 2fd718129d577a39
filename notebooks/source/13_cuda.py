# %% [markdown]
# # 13 · From wrong to fast in CUDA
#
# Here is a kernel that was printed in a text for learners. Define four names that it forgets, and it compiles. It runs.
# Each of its output numbers is written {{writes}} times, by threads that get in each other's way, and the result is
# {{wrong}}. Many people have read it. Nobody noticed.
#
# How do you find such faults without a GPU? And what makes the repaired kernel fast?

# %% [markdown]
# **After this chapter you can**
#
# - read a CUDA kernel and say who writes what, and when;
# - find a race on a laptop, with the two lines that cause it;
# - count what a kernel asks of the memory, and say which step saved what.
#
# **Needs** [12 A kernel in Triton](12_triton.ipynb), a little C · **Time** 30 minutes · **Level** hard · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# **CUDA** shows you what Triton hides. A kernel is written for one **thread** (线程). Threads come in blocks of, say,
# 128; a block has a small memory of its own, the **shared memory** (共享内存). 32 threads march in step. They are a
# **warp** (线程束), and its threads are called lanes.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.lesson.recorded import recorded
from minipaged.viz.show import show

predict("cuda-writes")

# %%
predict("cuda-sectors")

# %% [markdown]
# ## The kernel as it was printed
#
# One block of threads for each request and head. First the scores, query times key:

# %%
source("kernels/cuda/v0_source.cu", lines=(26, 42))

# %% [markdown]
# Take your time. Three things to look for: how long is the text? Who computes a score? And which thread may go on after
# the last line? Now the softmax and the values:

# %%
source("kernels/cuda/v0_source.cu", lines=(44, 65))

# %% [markdown]
# `qk_scores` is shared by the whole block. There is no `threadIdx` in any of these loops. So *every* thread runs all of
# them, over the same scores. We can count that:

# %%
import torch

from minipaged.kernels import traffic


def first_look():
    draw = torch.Generator().manual_seed(0)
    caches = torch.randn(2, 10, 16, 4, 64, generator=draw)
    query = torch.randn(2, 4, 64, generator=draw)
    tables = torch.randperm(10, generator=draw)[:8].reshape(2, 4).int()
    seen = traffic.count("v0_source", query, *caches, tables, torch.tensor([64, 40]))
    return {"writes": seen.global_store_requests * 32 // query.numel(),
            "reread": round(seen.reread, 1)}


first = recorded("13_cuda", "first look", first_look, again=False)
writes = first["writes"]
reveal("cuda-writes", writes, "{} times")

# %% [markdown]
# ## Run CUDA on a laptop
#
# The course has a small header, `cuda_on_cpu.h`. With it, g++ compiles a `.cu` file for the CPU. Each thread of a block
# becomes a fiber, and `__syncthreads` waits until all have come. It is slow. But it runs the same lines, in any order of
# threads that we like.
#
# And it lets us use a race detector. A **data race** (数据竞争) is this: two threads use the same address, one of them
# writes, and no barrier lies between. ThreadSanitizer, a part of g++, finds that whatever the order was. If you have no
# g++, you see what we recorded.

# %%
from minipaged.kernels import build
from minipaged.kernels.race import race


def faults_of(step):
    report = race(build.CUDA_FOLDER / f"{step}.cu", looks=("tsan",),
                  cases=("plain",), seeds=(0,))
    races = {tuple(sorted(one.lines)) for one in report.findings if one.kind == "race"}
    others = sorted(one.text for one in report.findings if one.kind != "race")
    return {"races": sorted(races), "others": others}


found = recorded("13_cuda", "faults", lambda: faults_of("v0_source"))
for one, other in found["races"]:
    print(f"race: line {one} in one thread, line {other} in another, no barrier between them")
print(*found["others"], sep="\n")

# %% [markdown]
# On the command line this is `minipaged race my_kernel.cu`, for any kernel of yours. Now read it with these lines beside
# you:

# %%
source("kernels/cuda/v0_source.cu", lines=(46, 52))

# %% [markdown]
# Line 46 reads scores while another thread is already in line 49 and changes them. There is no barrier between the
# largest score and the `exp` in place. Worse, line 49 is run by all threads, one after the other. Each takes `exp` of
# what the last one left. The result is {{wrong}}. The test fills what must not be read with NaN, and this kernel reads
# it: its length is the number of blocks times their size.

# %%
wrong = "NaN" if any("is NaN" in text for text in found["others"]) else "off"

# %% [markdown]
# ## Faults that no detector sees
#
# Some of its faults are right on small inputs and fatal on large ones. Take a pencil, or two lines of Python.

# %%
elements = 16 * 40 * 128  # of one block and layer of Llama-2-13B, keys alone
overflow = 2**31 // elements
shared_bytes = 48 * 1024  # 48 KiB, what a block of threads gets if it asks for no more
in_shared = shared_bytes // 4
print(f"block {overflow:,}: inside it an int of 32 bits overflows")
print(f"{in_shared:,} tokens: their scores fill 48 KiB of shared memory "
      f"({shared_bytes:,} bytes); one more is refused")
print(f"{min(128, 16)} of 128 threads work in the loop over a block of 16 keys")

# %% [markdown]
# The rest in one line each. Four names are defined nowhere in the text: `MAX_BLOCKS`, `HEAD_DIM`, `NUM_HEADS` and
# `BLOCK_SIZE`. (Our file defines them in its first lines, or it would not compile.) Beside `BLOCK_SIZE` stands a
# `block_size` of the run, and nothing says that they are the same. It knows no grouped heads. One long text can't be
# split over many blocks of threads. And it takes 32-bit numbers only. What we measured of these faults is listed in
# [docs/coverage.md](../docs/coverage.md), under chapter 13.
#
# ## Step 1: right
#
# The repair has one idea. *Each thread owns what it writes.* First a thread owns every 128th token:

# %%
source("kernels/cuda/v1_repaired.cu", lines=(41, 54))

# %% [markdown]
# Then, behind a barrier, each thread owns some numbers of the output. Nobody writes where another one writes. The length
# is the context, and offsets have 64 bits. What does the detector say now?

# %%
clean = recorded("13_cuda", "repaired", lambda: faults_of("v1_repaired"), again=False)
print("races:", len(clean["races"]), " other faults:", len(clean["others"]))

# %% [markdown]
# ## Step 2: let the lanes read side by side
#
# Right is not fast. A GPU moves memory in **sectors** (扇区) of 32 bytes. When the 32 lanes of a warp read 32 neighbours
# of 4 bytes, that is four sectors, full of what you want. When each lane reads from a key of its own, it is 32 sectors,
# nearly empty. Such a read is not **coalesced** (合并访问).

# %%
from minipaged.viz.figures.machine import Kernel, roofline, traffic_ladder, warp_reads

row = 64 * 4  # bytes of a key: 64 numbers
show(warp_reads({"one key, read together": range(0, 128, 4),
                 "a key for each lane": range(0, 32 * row, row)}))

# %% [markdown]
# In step 1 each lane has its own key. Step 2 lets a warp read one key together, and sums up with shuffles: lanes hand
# each other numbers without any memory. We count in a build where the compiler calls us at each access. It takes a
# while, so these counts are recorded; `minipaged kernels --traffic` makes them anew on your machine.

# %%
from dataclasses import asdict


def counts_of(*steps):
    return {step: asdict(traffic.count(step, *traffic.example())) for step in steps}


ladder = recorded("13_cuda", "ladder", lambda: counts_of(*build.LADDER[1:]), again=False)
for step in ("v1_repaired", "v2_warp"):
    one = ladder[step]
    print(f"{step:<12} {one['global_load_requests']:>6,} reads, "
          f"{one['global_load_sectors']:>7,} sectors")

# %%
reveal("cuda-sectors", ladder["v1_repaired"]["global_load_sectors"]
       / ladder["v2_warp"]["global_load_sectors"], "{:.1f} times")

# %% [markdown]
# ## Steps 3 and 4
#
# Step 3 is the online softmax. No score is stored any more, so shared memory no longer grows with the text. Step 4 does
# three things at once. A lane loads 16 bytes at a time. A block of threads serves all heads of a group, so each key is
# read once. And the context can be split, as in chapter 12.

# %%
for step, one in ladder.items():
    print(f"{step:<12} {one['global_load_sectors']:>7,} sectors, each asked for "
          f"{one['global_load_sectors'] / one['unique_load_sectors']:4.1f} times, "
          f"{one['barriers']:>5,} barriers")

# %%
sectors = {step: one["global_load_sectors"] for step, one in ladder.items()}
least = ladder["v4_split"]["unique_load_sectors"]
show(traffic_ladder(sectors, "sectors read", best=least))

# %% [markdown]
# The dashed line is the least: each sector once. The last step is almost there.
#
# What does that mean on the **roofline** (屋顶线)? The operations stay the same; the bytes go down. So each step moves the
# kernel to the right, up the slope. No step reaches the ridge. Decode lives under the slope, whatever you do: the best
# you can reach is the bandwidth.

# %%
from minipaged.sim.hardware import card

operations = 4 * 8 * (64 + 40) * 64  # heads, tokens of both texts, numbers of a head
show(roofline(card("a100-80g"), [Kernel(step, operations, 32 * count)
                                 for step, count in sectors.items()]))

# %% [markdown]
# These points are bounds, computed from counted sectors as if none of them came from a cache. They are no times.
#
# ## And on a GPU?
#
# Times need a GPU. This cell measures if there is one, and writes what it gets as a share of a plain copy.

# %%
from minipaged.kernels import KernelUnavailable, bench

try:
    for timed in bench.run():
        print(f"{timed['shape']:<32} {timed['kernel']:<24} {timed['microseconds']:>9.1f} us "
              f"{timed['of_copy']:.0%} of a copy")
except KernelUnavailable as missing:
    print(missing)

# %% [markdown]
# We have not measured ours, so here is what others have. FlashAttention 3 on an H100 reached 37% of the bandwidth with
# 128 tokens of context and 55% with 4,096, in blocks of 8
# ([flash-attention#1572](https://github.com/Dao-AILab/flash-attention/issues/1572)). Short texts never get near the roof.
#
# ## Break it
#
# Kernels that write have faults of their own. Here is one. Pick a letter first.

# %%
from minipaged import museum

exhibit = museum.exhibit("padding-is-written")
exhibit

# %%
piece = museum.piece("padding-is-written")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# A batch is often filled up to a round size. The fillers get slot -1, which means "nowhere". In Python, -1 is the last
# slot of the pool, and it belongs to somebody. In CUDA it is the memory *before* the pool. The rule: *{{piece.rule}}*

# %% [markdown]
# ## Exercises
#
# A barrier, a mask, an offset, a read that is coalesced. The checks run your kernel on the CPU, with the race detector.

# %%
exercise_links("13_cuda")

# %% [markdown]
# ## Explore
#
# One read of a warp. At first each lane reads 4 bytes and the lanes are 256 bytes apart, as in step 1. **How near must
# the lanes come before they begin to share sectors? And what happens to a perfect read when it starts at byte 4?**

# %%
from minipaged.viz.widgets.warp import warp_explorer

explorer = warp_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# From 512 down to 32 bytes apart nothing changes: {{explorer.at(apart=32).data["sectors"]}} sectors, one for each lane.
# At 16 bytes two lanes share one, {{explorer.at(apart=16).data["sectors"]}} sectors, and side by side it is
# {{side["sectors"]}}. If that read begins at byte 4 it takes {{shifted["sectors"]}}, and {{shifted["use"]:.0%}} of the
# bytes are wanted. That is why kernels ask for aligned memory.
#
# </details>

# %% tags=["hidden"]
side = explorer.at(apart=4).data
shifted = explorer.at(apart=4, start=4).data

# %% [markdown]
# ## Recap
#
# 1. A plausible kernel can be wrong everywhere. Compare with float64, and poison what must not be read.
# 2. A race is two threads, one address, one write and no barrier. A detector names both lines, on a laptop.
# 3. Repair by ownership: each thread has its own tokens, then its own outputs, with a barrier between.
# 4. Memory moves in sectors. Lanes that read side by side, 16 bytes each, waste none.
# 5. Counts say why a step should be faster. Only a GPU says how much.

# %% [markdown]
# ## What vLLM does differently
#
# vLLM had a CUDA kernel much like our step 2 and a split one like step 4: `paged_attention_v1` and `paged_attention_v2`.
# Their layout of keys is odd at first sight, and you can see it in `PagedAttention.split_kv_cache`
# (`vllm/v1/attention/ops/paged_attn.py`): `head_size // x` comes before the slots, with x numbers in 16 bytes. So lanes
# that read neighbouring tokens read neighbouring bytes. Today NVIDIA cards use FlashAttention (`FLASH_ATTN`), FlashInfer
# or Triton, listed in `AttentionBackendEnum`; the split of the context is `num_splits` in `flash_attn.py`. Slot -1 is
# `PAD_SLOT_ID` there. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("13_cuda", ratio=sectors["v1_repaired"] / sectors["v4_split"])

# %% [markdown]
# ## Next
#
# Now you know every part: blocks, tables, sharing, schedules, kernels. Time to decide something yourself. Real traffic is
# waiting, and three references that you can beat.
#
# **[14 · Capstone](14_capstone.ipynb)** scores your own policy.
