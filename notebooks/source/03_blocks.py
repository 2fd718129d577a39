# %% [markdown]
# # 03 · Blocks
#
# A memory has {{size}} slots, and {{sum(holes)}} of them are free. A reader comes in with {{wish}} tokens. She is sent
# away: there is no room. Half of the memory is empty, and nobody can use it.
#
# What if her tokens did not have to lie side by side? And how would anybody find them again?

# %% [markdown]
# **After this chapter you can**
#
# - build a pool of blocks and a table that finds each token;
# - explain why a block is handed out in one step, and why no hole is ever too small;
# - choose a block size, and say what it costs.
#
# **Needs** [02 Waste](02_waste.ipynb) · **Time** 25 minutes · **Level** easy · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# The idea of this chapter fits in a line: cut the memory into equal pieces. A piece is called a **block** (块). It has
# room for a fixed number of tokens. A request takes one block after the other, as its text grows.
#
# So only the last block of a request can have empty slots. How many? That depends on the size of a block.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("blocks-64")

# %%
predict("blocks-tail")

# %% [markdown]
# ## The hole that is too small
#
# This is the memory of the first lines, with the buddies of chapter 02. Four readers come, two leave.

# %%
from minipaged.sim.regions import BuddyAllocator

size, wish = 64, 18
memory = BuddyAllocator(size)
regions = {name: memory.allocate(need) for name, need in
           {"A": 10, "B": 11, "C": 12, "D": 13}.items()}
memory.free(regions.pop("B"))
memory.free(regions.pop("D"))
holes = memory.holes()
print(f"free: {sum(holes)} of {size} slots, in holes of {holes}")
print(f"a place for {wish} tokens:", memory.allocate(wish))

# %% [markdown]
# Two holes of {{holes[0]}} make {{sum(holes)}}, but {{wish}} tokens must lie in one of them. Nothing is broken here.
# The rule itself is the trouble: *one piece, side by side*.
#
# ## Cut it into blocks
#
# Drop the rule. Below is all that it takes: a row of free blocks, and for each request a list of the blocks that it
# holds. We use blocks of {{block_size}} tokens, so that you can count along.

# %%
from collections import deque

block_size = 4
free_list = deque(range(size // block_size))
tables = {}


def grow(name, tokens):
    """Take blocks from the front until `tokens` tokens fit."""
    table = tables.setdefault(name, [])
    while len(table) * block_size < tokens:
        table.append(free_list.popleft())

# %% [markdown]
# The same four readers, in the same memory. They grow in turn, as they do in a server: each writes one token, then
# the next one does.

# %%
for tokens in range(1, 14):
    for name, need in {"A": 10, "B": 11, "C": 12, "D": 13}.items():
        grow(name, min(tokens, need))
for name in ("B", "D"):
    free_list.extend(tables.pop(name))
grow("E", wish)
for name, table in tables.items():
    print(f"{name} has the blocks {table}")

# %% [markdown]
# E is in. Her {{wish}} tokens lie in {{len(tables["E"])}} blocks, wherever one was free. There is no hole that is too
# small, since each free block fits each wish. External fragmentation is gone: not less of it, none.

# %% [markdown]
# ## Finding a token again
#
# The list of a request is its **block table** (块表). Entry 0 is the block of its first {{block_size}} tokens, entry 1
# that of the next {{block_size}}, and so on. The request counts in **logical blocks** (逻辑块): 0, 1, 2. The memory
# counts in **physical blocks** (物理块): where they really lie.
#
# To find a token, divide its position by the block size. The quotient picks the entry, the rest is the place inside
# the block. This is the whole of it, as the engine does it:

# %%
from minipaged.core import BlockAllocator, BlockTable

source(BlockTable.append, BlockTable.num_blocks, BlockTable.get_physical, BlockTable.slot)

# %% [markdown]
# Try it with the usual block size of vLLM. A text of {{text_length}} tokens needs {{len(text_table.blocks)}} blocks.
# Suppose that it got these:

# %%
from minipaged.formulas import blocks_for_tokens

text_length = 50
text_table = BlockTable(16, [3, 7, 12, 1])
print("blocks that it needs:", blocks_for_tokens(text_length, text_table.block_size))
for position in (0, 15, 16, 37, 49):
    logical, offset = divmod(position, text_table.block_size)
    print(f"position {position:>2}: entry {logical}, place {offset:>2} -> block "
          f"{text_table.get_physical(logical):>2} -> slot {text_table.slot(position):>3}")

# %% [markdown]
# ## You know this already
#
# If you have met an operating system, you have met this table. A program thinks that its memory is one long row. That
# is its **virtual memory** (虚拟内存). In truth it lies in pages, anywhere, and a **page table** (页表) says where. In
# the figure, follow the dark row from the left to the right. Then do the same in the second half.

# %%
from minipaged.viz.figures.ideas import page_table_analogy, same_idea

show(page_table_analogy(text_table.blocks, text_table.block_size, position=37))

# %% [markdown]
# The idea is from about 1962. The [PagedAttention paper](https://arxiv.org/abs/2309.06180) brought it to the KV cache
# in 2023. Most words have a twin. You will meet the last two of them in chapters 09 and 05.

# %%
show(same_idea())

# %% [markdown]
# ## The allocator
#
# In the engine, a **block allocator** (块分配器) keeps the row of free blocks. It also counts, for each block, how many
# tables hold it. For now that count is 1 or 0; in chapter 05 several will share a block, and it grows.

# %%
pool = BlockAllocator(num_blocks=6, block_size=block_size)
mine, yours = pool.allocate_many(3), pool.allocate()
pool.increment_ref(yours)
print("held by me:", mine, " held twice:", yours, " counts:", pool.ref_count)
print(f"free: {pool.free_count} of {pool.num_blocks}, so {pool.utilization:.0%} is in use")
pool.free(yours)
pool.free_many(mine)
print("counts:", pool.ref_count, " free, front first:", pool.free_blocks())

# %% [markdown]
# Look at the last line. One of two holders let block {{yours}} go, so it is still in use. And the three others came
# back *tail first*: the end of a text is used again before its beginning. Chapter 06 shows what that is good for.
#
# What does a grant cost? The buddies walk up from size to size, {{size.bit_length()}} sizes even in our small memory,
# and merge again later. Here the row of free blocks, the **free queue** (空闲队列), is a chain: each block knows its
# neighbours. Taking one out means to join its two neighbours, however long the chain is.

# %%
source(BlockAllocator._unlink, BlockAllocator._link)

# %% [markdown]
# A few steps for each block, at the front, at the back, and out of the middle too, however long the queue is. Why out of
# the middle? Because a free block may still hold a text that somebody asks for again. That is for chapter 06 as well.

# %% [markdown]
# ## Watch it
#
# Now four requests in the scheduler of the engine. There is no model here: each new token is a 7, for memory does not
# care what a text says. A, B and C begin with the same {{len(prompt)}} tokens. Nobody notices that yet.

# %%
from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog

prompt = list(range(50, 60))
readers = {"A": (prompt, 9), "B": ([*prompt, 7], 12), "C": ([*prompt, 8, 9], 12),
           "D": ([1, 2, 3, 4, 5], 20)}  # name: (its prompt, tokens of its answer)
events = EventLog()
kv = KVCacheManager(20, block_size, events=events, enable_prefix_caching=False)
scheduler = ContinuousBatchingScheduler(kv, events=events)
for name, (tokens, answer) in readers.items():
    scheduler.add_request(Request(name, tokens, SamplingParams(max_tokens=answer)))
while scheduler.has_unfinished:
    scheduler.step(lambda plan: {one.request_id: 7 for one in plan.scheduled if one.sample})
last_of_a = events.select("free", request="A")[-1].block
print(len(events.select("step")), "steps,", len(events.select("allocate")), "blocks handed out")

# %%
from minipaged.viz import Film

ends = events.select("finish", request="A")[0]
Film(events, title="Four requests, blocks of 4", start=ends.time - 7, select="A")

# %% [markdown]
# The film opens shortly before A ends. Click on it, then go on with → or press Space. Watch two things:
#
# - A block is taken when a text needs it, one at a time. Most steps take none.
# - When A ends, its blocks go to the front of the queue. The next wish gets P{{last_of_a}}, which was A's last one.
#
# Two steps later it looks like this. Follow the arrows of B. Its table is in order, the blocks are not, and one of them
# was A's.

# %%
from minipaged.viz.figures.tables import block_table_arrows

moment = events.select("step")[10]
show(block_table_arrows(events, until=moment.time, title="After A has ended"))

# %% [markdown]
# ## How large should a block be?
#
# One side of the answer is waste. On average the last block of a text is half empty: with n slots a block, about
# (n - 1) / 2 of them. First the text of your first guess, with {{short}} tokens:

# %%
short = 17
for block in (16, 64):
    held = blocks_for_tokens(short, block)
    print(f"blocks of {block}: {held} of them, {held * block - short} slots stay empty")
reveal("blocks-64", blocks_for_tokens(short, 64) * 64 - short, "{} slots")

# %% [markdown]
# A text on the web says that with blocks of 64 these tokens need 2 blocks and waste 15. That is the line for blocks of
# 16. It is easily mixed up, and now you can tell. Next, the real traffic of chapter 02: {{len(lengths):,}} requests.

# %%
from minipaged.sim.traces import load_trace
from minipaged.viz.figures.sizes import block_size_sweep

requests = load_trace("azure-conv").requests
lengths = [request.input_tokens + request.output_tokens for request in requests]
tail = sum(-length % 16 for length in lengths) / len(lengths)
reveal("blocks-tail", tail, "{:.2f} slots")
show(block_size_sweep(lengths))

# %% [markdown]
# Look at both halves. On the left waste doubles with each step, just as the dashed line says. On the right the tables
# get shorter. That is the other side of the answer: a small block means more entries to look up, and shorter stretches
# that the GPU can read in one go. A block of 16 of Llama-2-13B has {{block_mib:.1f}} MiB.
#
# ### Is 16 magic?
#
# The same text on the web gives a reason for 16: most answers are multiples of it, so less than 5% is lost. Let us
# count.

# %%
from minipaged.presets import preset

answers = [request.output_tokens for request in requests]
block_mib = preset("llama-2-13b").shape.block_bytes(16) / 2**20
multiples = sum(answer % 16 == 0 for answer in answers) / len(answers)
print(f"answers with a multiple of 16 tokens: {multiples:.1%}; by chance: {1 / 16:.1%}")
kinds = {"whole texts": lengths, "answers alone": answers,
         "texts below 100 tokens": [length for length in lengths if length < 100]}
lost = {}
for what, texts in kinds.items():
    empty = sum(-tokens % 16 for tokens in texts)
    lost[what] = empty / (sum(texts) + empty)
    print(f"{what:<23} {lost[what]:5.1%} of their slots are empty")

# %% [markdown]
# There are not more multiples than chance gives. The small loss is real, {{lost["whole texts"]:.1%}} here, and it has
# another reason: the texts are long. Half an empty block is little beside {{sum(lengths) / len(lengths):,.0f}} tokens.
# For short texts it is {{lost["texts below 100 tokens"]:.0%}}. So 16 is a fair choice for chats, and no magic.

# %% [markdown]
# ## Break it
#
# What if somebody gives a block back twice? In our first lines, `free_list` is a plain row. It believes what it is
# told. A leaves and returns its blocks; a careless line returns one of them again:

# %%
careless = deque([8, 9])
careless.append(5)  # A is done with block 5
careless.append(5)  # and says so again
for reader in ("B", "C", "D", "E"):
    print(f"{reader} gets block {careless.popleft()}")

# %% [markdown]
# D and E write into one block, and each will read the other's words. Nothing crashes. This is why an allocator must
# check. But a check can also be too kind. Here is one of the museum, which was once proposed as a repair:

# %%
from minipaged import museum

exhibit = museum.exhibit("double-free-in-silence")
exhibit

# %%
piece = museum.piece("double-free-in-silence")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# The pool stays in order, so is all well? No. Whoever frees twice has lost count. Had another reader got the block in
# between, the second call would have taken it from her, and no check could have told. The second call is the last
# moment at which the mistake can be seen. The `free` of the text on the web keeps silent too, about a block that does
# not exist. The engine says what is wrong, and changes nothing:

# %%
from minipaged.errors import BlockError

pool = BlockAllocator(num_blocks=6, block_size=block_size)
pool.free(pool.allocate())
for block in (0, 17):
    try:
        pool.free(block)
    except BlockError as error:
        print(error)
print("free:", pool.free_count)

# %% [markdown]
# ## Exercises
#
# Write the pool yourself and let it serve the engine. Find a token, and let a table grow.

# %%
exercise_links("03_blocks")

# %% [markdown]
# ## Explore
#
# The same explorer as in chapter 02. This time leave it on *block after block* and move only the block size. **Go from
# 16 down to 1: how many more requests run at a time? Then go up to 256: how many fewer?**

# %%
from minipaged.viz.widgets.waste import waste_explorer

explorer = waste_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# At 16 there are {{running[16]:.1f}} at a time. Down at 1 there are {{running[1]:.1f}}: next to nothing is gained, and
# each table is 16 times as long. Up at 256 there are {{running[256]:.1f}}. So the left side of 16 is flat and the right
# side is a slope. A good block size is the largest one that is still on the flat part.
#
# </details>

# %% tags=["hidden"]
running = {size: explorer.at(block_size=size).data["running"] for size in (1, 16, 256)}

# %% [markdown]
# ## Recap
#
# 1. Cut the memory into equal blocks. Then every free block fits every wish, and no hole is too small.
# 2. A block table says where: `table[position // block_size] * block_size + position % block_size` is the slot.
# 3. The free queue is a chain: taking and giving back cost the same, however large the memory is.
# 4. Only the last block of a text has empty slots, (n - 1) / 2 on average. It matters for short texts.
# 5. Giving a block back twice must raise an error. Silence hides it until two readers share a block.

# %% [markdown]
# ## What vLLM does differently
#
# Its pool is `BlockPool` in `vllm/v1/core/block_pool.py`. The chain is `FreeKVCacheBlockQueue` in `kv_cache_utils.py`;
# read its docstring, it says why a `deque` would not do. Each `KVCacheBlock` is an object with its `ref_cnt` and its
# two neighbours, where we keep plain arrays. Block 0 is the `null_block`: it is never handed out, and stands for "no
# block here", for instance behind a sliding window. The tables also exist a second time, as numbers on the GPU:
# `BlockTables` in `vllm/v1/worker/gpu/block_table.py`. Its `compute_slot_mappings` makes slots out of positions there.
# (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("03_blocks", lost=lost["whole texts"], short=lost["texts below 100 tokens"])

# %% [markdown]
# ## Next
#
# A, B, C and D now lie in crumbs all over the memory. But attention wants to look at all keys of a text, in order. Do
# we have to put the crumbs together again, for each token and in each layer?
#
# **[04 · Attention through a table](04_paged_attention.ipynb)** reads them where they are.
