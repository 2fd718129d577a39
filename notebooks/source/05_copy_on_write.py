# %% [markdown]
# # 05 · Sharing and copy-on-write
#
# Ten people use the same assistant. Each of their requests begins with the same {{prefix:,}} tokens of instructions.
# Llama-2-13B keeps them ten times: {{gib(apart_bytes):.2f}} GiB. Of these, {{gib(apart_bytes - shared_bytes):.2f}} GiB
# are bytes that it already had.
#
# A block table can point anywhere. So why not let ten tables point to the same blocks? And what happens when one of the
# ten wants to write?

# %% [markdown]
# **After this chapter you can**
#
# - count who holds a block, and say when it is free;
# - explain copy-on-write, and who has to copy;
# - work out what sharing saves for ten requests, four answers or six beams.
#
# **Needs** [03 Blocks](03_blocks.ipynb) · **Time** 25 minutes · **Level** medium · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# Two guesses. The first one is about memory, the second one about care.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("sharing-saves")
predict("cow-blocks")

# %% [markdown]
# ## Two tables, one block
#
# Two people share a notebook page to save paper. It works well while both only read. Then one of them writes a word,
# and the other one finds it in the middle of her own sentence.
#
# Here is that page as a row of slots, with blocks of {{block_size}}. Request 1 has read ten tokens. Request 2 begins
# with the same ten, so somebody had the idea to give it the same table.

# %%
block_size = 4
prompt = list(range(50, 60))
slots = [*prompt, None, None]  # blocks P0, P1 and P2; the last one is half full
tables = {"1": [0, 1, 2], "2": [0, 1, 2]}


def slot(name, position):
    return tables[name][position // block_size] * block_size + position % block_size


slots[slot("2", 10)] = 99  # request 2 goes on with its token 99
slots[slot("1", 10)] = 71  # and request 1 with its token 71
print("request 2 wrote 99 and reads", slots[slot("2", 10)])

# %% [markdown]
# Request 2 now goes on from a word that it never said. There is no error, and no crash. The answer is fluent, and it
# belongs to two people.
#
# Look where it went wrong. P0 and P1 are full. Nobody writes there again, so they can be shared for ever. Only the
# last, half full block is in danger, and only at the moment when somebody writes.
#
# ## Count the holders
#
# To see the danger we need one number for each block: how many tables hold it. That is its **reference count**
# (引用计数). You met it in chapter 03, where a block was free or had one holder. With it the rule is short:
#
# > **Before you write into a block with more than one holder, copy it, and write into the copy.**
#
# This is **copy-on-write** (写时复制). Operating systems do the same when a program starts a copy of itself. Here it is
# as the engine does it. `grow` makes room for new tokens; the lines below are its middle part.

# %%
from minipaged.core import KVCacheManager, Request

source(KVCacheManager.grow, lines=(9, 16))
source(KVCacheManager._copy_on_write)

# %% [markdown]
# Read the first part once more. `shared` are the blocks that will be written and have more than one holder. Then it
# asks whether there is room for *all* new blocks and *all* copies. If not, nothing has changed yet. Only then it acts.
#
# ## P2 becomes P2'
#
# Now the same two requests in the engine. Request 1 runs for one step. Then request 2 comes, with the same ten tokens
# and one of its own. Finding them is the topic of chapter 06; here we watch what follows.

# %%
from minipaged.core import ContinuousBatchingScheduler, SamplingParams
from minipaged.core.events import EventLog


def answer(plan):
    """In place of a model: each new token is a 7."""
    return {one.request_id: 7 for one in plan.scheduled if one.sample}


def started(num_blocks=8):
    """An engine in which request 1 has computed its ten tokens."""
    log = EventLog()
    memory = KVCacheManager(num_blocks, block_size, events=log)
    engine = ContinuousBatchingScheduler(memory, events=log)
    engine.add_request(Request("1", prompt, SamplingParams(max_tokens=6)))
    engine.step(answer)
    return engine, log

# %%
scheduler, events = started()
scheduler.add_request(Request("2", [*prompt, 9], SamplingParams(max_tokens=6)))
plan = scheduler.schedule()
counts = list(scheduler.kv.allocator.ref_count)
for name, table in scheduler.kv.tables().items():
    print(f"request {name} holds {table.blocks}")
print("to be copied:", plan.copies, " counts of P0 to P3:", counts[:4])
scheduler.commit(plan, answer(plan))
reveal("cow-blocks", sum(count > 0 for count in counts), "{} blocks")

# %% [markdown]
# Block 3 is the copy of block 2. Let us call it P2'. The counts are what they should be: P0 and P1 have two holders,
# P2 and P2' one each. The plan says what is to be copied. It moves no data itself; the model's part does, before
# it writes.
#
# In the figure, compare the two last arrows of request 2. Below each block stands its count.

# %%
from minipaged.viz.figures.tables import block_table_arrows, copy_on_write

show(copy_on_write(events))

# %% [markdown]
# And as a film, from the moment before. Press → to go on, one event at a time. P3 leaves the free queue, the copy is
# noted, and the old block loses one holder.

# %%
from minipaged.viz import Film

while scheduler.has_unfinished:
    scheduler.step(answer)
copied = events.select("copy")[0]
Film(events, title="P2 is copied", start=copied.time - 2, select="2")

# %% [markdown]
# ## Who copies?
#
# A question that trips many people: is the *owner* safe, since it was first? No. A block has no owner, it has holders.
# Whoever writes while others hold it must copy.
#
# To see it, let request 1 write first. A **fork** (分叉) makes request 2 out of request 1: the same tokens, the same
# blocks, and a count more for each. It takes no memory at all.

# %%
source(KVCacheManager.fork)

# %%
scheduler, events = started()
scheduler.fork("1", "2")
kv = scheduler.kv
print("after the fork", kv.table("1").blocks, kv.table("2").blocks, kv.allocator.ref_count[:4])
plan = scheduler.schedule()  # both write a token now, request 1 first
print("after the step", kv.table("1").blocks, kv.table("2").blocks, kv.allocator.ref_count[:4])
print("copied:", plan.copies)

# %% [markdown]
# This time request 1 got the copy. Then it was request 2's turn. It looked at the count of P2, saw a 1, and wrote in
# place. So for two holders there is *one* copy, not two. For n holders that write there are n - 1.
#
# ## What it saves
#
# Back to the ten people. Here is the count by the engine. Each of them adds {{own}} tokens of her own.

# %%
def blocks_in_use(beginning, own, people=10, size=16):
    """(blocks that tables name, blocks that exist) when `people` requests share a beginning."""
    memory = KVCacheManager(people * (beginning + own) // size + people, size)
    for person in range(people):
        hers = range(9000 + person, 9000 + person + own)
        request = Request(str(person), [*range(beginning), *hers])
        found = memory.match(request)
        memory.admit(request, found, request.num_tokens - found.num_tokens)
        request.num_computed_tokens = request.num_tokens
        memory.commit([request])
    named = sum(table.num_blocks for table in memory.tables().values())
    return named, memory.num_blocks - memory.free_count

# %%
prefix, own = 2000, 500
named, exist = blocks_in_use(prefix, own)
saving = 100 * (1 - exist / named)
print(f"the tables name {named:,} blocks, and {exist:,} exist")
reveal("sharing-saves", saving, "{:.1f} percent")

# %% [markdown]
# A text on the web gives 15.3 GB for ten beginnings and 1.53 GB for one, and says that 90% is saved. In bytes it is
# {{gib(apart_bytes):.2f}} GiB and {{gib(shared_bytes):.3f}} GiB; only the unit slipped. The 90% is right too, for the
# beginning alone. With the answers it is {{saving:.0f}}%, and it falls as they grow:

# %%
from minipaged.presets import preset


def gib(size):
    return size / 2**30


block_bytes = preset("llama-2-13b").shape.block_bytes(16)
one_prefix = prefix // 16  # blocks
apart_bytes, shared_bytes = 10 * one_prefix * block_bytes, one_prefix * block_bytes
print(f"the beginnings: {gib(apart_bytes):.2f} GiB apart, {gib(shared_bytes):.3f} GiB "
      f"shared, {gib(apart_bytes - shared_bytes):.2f} GiB saved")
for tokens in (16, 500, 2000, 8000):
    here, there = blocks_in_use(prefix, tokens)
    print(f"{tokens:>5,} own tokens: {1 - there / here:5.1%} of the blocks saved")

# %% [markdown]
# Did you notice that nothing was copied here? {{prefix:,}} tokens are exactly {{one_prefix}} full blocks. The text had
# chosen a length without a tail. With five tokens more there is one, and each new person needs a copy of it:

# %%
tail_log = EventLog()
memory = KVCacheManager(400, 16, events=tail_log)
for person in range(10):
    request = Request(str(person), [*range(prefix + 5), 9000 + person])
    found = memory.match(request)
    memory.admit(request, found, request.num_tokens - found.num_tokens)
    request.num_computed_tokens = request.num_tokens
    memory.commit([request])
copies = tail_log.select("copy")
print(len(copies), "copies of block", copies[0].src)
print("to the blocks", [copy.dst for copy in copies])

# %% [markdown]
# ## Four answers to one question
#
# Ask a model for four answers and keep the best one. That is **parallel sampling** (并行采样). The prompt is computed
# once; then three forks. Watch the last block of the prompt: it is half full, so it is what they fight for.

# %%
scheduler, events = started(12)
for name in ("2", "3", "4"):
    scheduler.fork("1", name)
plan = scheduler.schedule()
print("copies:", plan.copies)
show(block_table_arrows(events, title="One prompt, four answers"))

# %% [markdown]
# Three copies, as you now expect: the last writer was alone and kept P2. P0 and P1 stand there with a count of
# {{four_holders}}, and they keep it while the answers grow. Each answer is free to go where it likes.
#
# ## Beams: a family tree
#
# **Beam search** (束搜索) keeps the k best texts so far. In each step some of them get two children, and some get none.
# A child is a fork. A text without children gives its blocks back. Let us play it for four steps by hand, with two
# beams:

# %%
from minipaged.core import FinishReason

four_holders = scheduler.kv.allocator.ref_count[0]
scheduler, events = started(16)
scheduler.fork("1", "2")
for loser, parent, child in ("123", "234", "435", "356"):
    before = len(events.select("copy"))
    scheduler.step(answer)
    scheduler.finish(loser, FinishReason.ABORT)  # its text was not among the best
    scheduler.fork(parent, child)
    live = {name: list(table.blocks) for name, table in scheduler.kv.tables().items()}
    print(f"{len(events.select('copy')) - before} copied; {loser} is out, {parent} has the "
          f"child {child}: {live}")

# %% [markdown]
# Nobody copies a history. A child takes over its parent's table, and at most the newest block is copied, when one of
# the two writes. When the tokens begin a new block, nothing is copied at all. Before paged memory, a beam search copied
# whole texts again and again.
#
# How much is shared depends on how soon all beams have a common ancestor. The course has a simulator; here is a small
# run of it beside the numbers of the [paper](https://arxiv.org/abs/2309.06180), section 6.3, for its long chats.

# %%
from minipaged.sim.experiments import run_experiment

samples = run_experiment("parallel_sampling", small=True).rows[-1]
beams = run_experiment("beam_search", small=True).rows[-1]
for what, row, column in (("6 samples", samples, "ours saved %"),
                          ("6 beams", beams, "ours, turnover 0.1")):
    print(f"{what:<9} save {row[column]:.1f}% of the blocks here, "
          f"{row['published saved %']} in the paper (2 to 6 of them)")

# %% [markdown]
# Beams share far more than samples do. Four answers part at their first word and never meet again. Beams descend from
# each other all the time. Our beams share more than the paper's. There is no model in this run, so we draw the winners
# by chance; real beams keep apart for longer.

# %% [markdown]
# ## Break it
#
# What you did by hand at the beginning has happened in real engines. Here is the piece of the museum, in the engine of
# the course. Read what one sees, then choose a letter.

# %%
from minipaged import museum

exhibit = museum.exhibit("no-copy-on-write")
print(exhibit)

# %% [markdown]
# Here are both runs side by side, the right one and the one with the bug, from the moment where they part. Watch which
# block request B gets for its last tokens.

# %%
exhibit.film()

# %% [markdown]
# The tokens of A are right at first, then they turn into those of B. There is a pattern to learn here: *an answer that
# becomes somebody else's in the middle* smells of a shared block.

# %%
piece = museum.piece("no-copy-on-write")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# The rest of the engine is as it was: one missing function is enough. The text on the web has such a hole too. Its
# cache asks `self.allocator` for the new block, and never sets it. So at the first copy the program stops, which is at
# least honest.

# %% [markdown]
# ## Exercises
#
# First count what sharing saves, then build the memory that copies on write. The beams are for the brave.

# %%
exercise_links("05_copy_on_write")

# %% [markdown]
# ## Explore
#
# Several answers to one prompt. The upper bar is the memory if each were stored alone, the lower one is shared memory.
# **Move the prompt from {{long_prompt}} tokens down to {{full_prompt}}: what happens to the copies, and to the number
# of blocks? Then set the block size to 1: how many copies are there now, for any prompt?**

# %%
from minipaged.viz.widgets import sharing_explorer

explorer, long_prompt, full_prompt = sharing_explorer(), 500, 496
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# At {{long_prompt}} tokens there are {{explorer.at(prompt=long_prompt).data["copies"]}} copies, and at {{full_prompt}}
# there are {{explorer.at(prompt=full_prompt).data["copies"]}}: the prompt ends where a block ends. The blocks are
# {{explorer.at(prompt=long_prompt).data["held"]}} both times. A copy costs time, but no memory: each answer needs that
# block anyway. With a block size of 1 every block is full, so there are
# {{explorer.at(block_size=1).data["copies"]}} copies.
#
# </details>

# %% [markdown]
# ## Recap
#
# 1. A block's reference count is the number of tables that hold it. At 0 it is free.
# 2. Full blocks are shared for ever: nobody writes into them again.
# 3. Whoever writes into a block with more than one holder copies it first. The last holder writes in place.
# 4. A fork takes no memory. Samples share the prompt, beams share a family tree.
# 5. Sharing saves most where beginnings are long and answers short.

# %% [markdown]
# ## What vLLM does differently
#
# The first vLLM had all of this: `fork`, a `CopyOnWriteTracker`, and `blocks_to_copy` in each step. Today's vLLM has
# no fork. A request with `n=4` becomes four requests (`ParentRequest`), and the prefix cache lets them share
# the *full* blocks of the prompt. The half full one is computed by each of them. It is simpler, and a block of tokens
# is cheap to compute. `LLM.beam_search` sends ordinary requests too, and relies on the cache.
#
# The idea lives on in one corner. A model with Mamba layers beside its attention has very large blocks. There a hit can
# end inside a block, at a multiple of `prefix_match_unit`, and `_apply_cow` in `single_type_kv_cache_manager.py` gives the
# request a copy. (Read in vLLM 0.32; our engine shares half full blocks for every model, unless you pass
# `share_partial_blocks=False`.)

# %% [markdown]
# ## Quiz

# %%
quiz("05_copy_on_write")

# %% [markdown]
# ## Next
#
# Request 2 found the blocks of request 1, and we did not ask how. It can't compare its text with every block of the
# memory. And what if request 1 is long gone?
#
# **[06 · The prefix cache](06_prefix_cache.ipynb)** finds a text among a million blocks in a few steps. Then we attack
# it.
