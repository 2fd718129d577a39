# %% [markdown]
# # 00 · Start here
#
# Four people ask for a story. A server of the old kind sets aside room for {{reserved_tokens:,}} tokens, in case that
# the stories get long. Then the four are told, and they have {{told:,}} tokens together.
# {{1 - told / reserved_tokens:.0%}} of the room was never used, and all that time it was kept from everybody else.
#
# Memory is what decides how many people a language model can serve. Who wastes it, and how can one do better?

# %% [markdown]
# **After this chapter you can**
#
# - serve a model that writes stories, on your own machine;
# - watch in a film what its memory does, step by step;
# - find your way through this course.
#
# **Needs** some Python; no GPU, no network · **Time** 15 minutes · **Level** easy · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Four stories
#
# This engine is the one that you will read, break and repair. It serves a small model that comes with the course. All
# four prompts begin with the same opening. Each goes on in its own way. Run the cell; it takes a few seconds.

# %%
from textwrap import fill

from minipaged import LLM, SamplingParams
from minipaged.models.stories import DEMO_PROMPTS, SYSTEM_PROMPT

openings = DEMO_PROMPTS[:4]
llm = LLM(model="tiny", block_size=16, num_blocks=48)
outs = llm.generate([SYSTEM_PROMPT + opening for opening in openings],
                    SamplingParams(temperature=0, max_tokens=60))
print(fill(SYSTEM_PROMPT.strip(), 90))
for opening, out in zip(openings, outs):
    story = " ".join((opening + out.outputs[0].text).split())
    print(fill(f"[{out.request_id}] {story[:230]} ...", 90, initial_indent="\n"))

# %% [markdown]
# The model is tiny, so the stories are a bit odd. But every number below is real.
#
# ## What they cost
#
# For each token that it has read, the model keeps some numbers, to look back at. That is the **KV cache**
# (键值缓存). It is most of the memory that a reader costs. Here it lies in **blocks** (块) of {{state.block_size}}
# tokens. A **block table** (块表) for each request says which blocks are its own.
#
# `cached` counts tokens that somebody else had already read.

# %%
print("request  prompt  cached  new")
for out in outs:
    print(f"{out.request_id:>7}  {len(out.prompt_token_ids):>6}  {out.num_cached_tokens:>6}  "
          f"{len(out.outputs[0].token_ids):>3}")

# %% [markdown]
# The first request read its whole prompt. The others found {{outs[1].num_cached_tokens}} tokens of it done: the opening
# that all four share. So think about the memory.
#
# ## Guess first
#
# Each chapter asks you to guess before you measure. A guess that you wrote down teaches more than a fact that you read.
# It stays on your machine.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal
from minipaged.viz.replay import replay
from minipaged.viz.show import show

fullest = min(llm.engine.events.select("step"), key=lambda event: event.free_blocks)
state = replay(llm.engine.events, until=fullest.time)
alone = sum(state.ref_count)
predict("start-blocks", alone=alone, each=alone // len(outs))

# %%
in_use = state.num_blocks - state.free_count
told = sum(len(out.prompt_token_ids) + len(out.outputs[0].token_ids) for out in outs)
reserved_tokens = len(outs) * llm.engine.max_model_len
print(f"room for the longest story, four times: {reserved_tokens // state.block_size} blocks")
print(f"only what is needed, nothing shared:    {alone} blocks")
reveal("start-blocks", in_use, "{} blocks")

# %% [markdown]
# Two ideas did that. Blocks are taken one by one, when a story needs them. And what is the same is stored once. This is
# **PagedAttention** (分页注意力), the idea of this course. Here is the memory at its fullest moment. Look for the
# squares with four stripes. That is the opening, held by all.

# %%
from minipaged.viz.figures.pool import block_map

show(block_map(llm.engine.events, until=fullest.time))

# %% [markdown]
# ## Watch it
#
# The engine writes down each change of its memory. A film plays it. Click on it and press Space, or → for the next
# change. `?` shows all keys. Watch the first steps: how do requests 1, 2 and 3 get their first blocks?

# %%
from minipaged.viz import Film

Film(llm.engine.events, title="Four stories, one opening", select="1")

# %% [markdown]
# They do not take new blocks for the opening: they *share* those of request 0. At the end the blocks become free, and
# still nothing is thrown away. So ask again for the first story:

# %%
again = llm.generate([SYSTEM_PROMPT + openings[0]],
                     SamplingParams(temperature=0, max_tokens=60))[0]
found, length = again.num_cached_tokens, len(again.prompt_token_ids)
print(f"{found} of {length} tokens of the prompt were found in free blocks")
print("the same story:", again.outputs[0].text == outs[0].outputs[0].text)

# %% [markdown]
# ## How the course works
#
# | chapters | what you learn |
# |---|---|
# | [01](01_kv_cache.ipynb), [02](02_waste.ipynb) | what the memory is, and where it is wasted |
# | [03](03_blocks.ipynb), [04](04_paged_attention.ipynb) | blocks, tables, and attention that reads through them |
# | [05](05_copy_on_write.ipynb), [06](06_prefix_cache.ipynb) | sharing: copy when you write, find what is there |
# | [07](07_continuous_batching.ipynb) to [10](10_chunked_prefill.ipynb) | who runs, who waits, who has to go |
# | [11](11_engine.ipynb) | the whole engine, token for token |
# | [12](12_triton.ipynb), [13](13_cuda.ipynb) | the same on a GPU, in Triton and CUDA |
# | [14](14_capstone.ipynb) to [16](16_paper_on_a_laptop.ipynb) | your own scheduler, myths, the paper on a laptop |
#
# Each chapter begins with a number that hurts. You guess, run, look, break something, and repair it in a lab. The
# numbers in the text come from the run, so they are true on the day that you read them. If something does not work on
# your machine, `minipaged doctor` in a terminal says what, and how to mend it.
#
# The course grew from a text on the web, the *source text*. Most of it is right. Where it is not, a chapter says so and
# measures; [chapter 15](15_errata.ipynb) has the whole list.

# %% [markdown]
# ## Break it
#
# Errors in memory do not crash. They tell another story. This course has a museum of real bugs, each a few lines that
# you can switch on. Here one opening gets two endings, first without a bug, then with one.

# %%
from contextlib import nullcontext
from minipaged import museum

piece = museum.piece("copy-is-planned-and-not-made")
endings = {}
for what, bug in (("right", nullcontext()), ("with the bug", piece.switched_on())):
    with bug:
        writer = LLM(model="tiny", block_size=16, num_blocks=48)
        two = SamplingParams(n=2, temperature=0.8, seed=1, max_tokens=60)
        out = writer.generate([SYSTEM_PROMPT + openings[0]], two)[0]
    endings[what] = [" ".join(one.text.split()) for one in out.outputs]
    print(f"{what}:\n   Mia could not find {endings[what][0][:130]} ...")

# %% [markdown]
# The second text is fluent, and it has lost the thread. A block of memory should have been copied, and was not. So the
# model looks back at numbers that mean nothing. No error, no warning. These are the wrong lines. You need not
# understand them yet; after chapter 05 you will.

# %%
print(piece.source)

# %% [markdown]
# ## Exercises
#
# The labs are in the folder `exercises`. They check what you write, find a counterexample, and give hints when you ask
# for them. `minipaged learn next` in a terminal shows the way. The first two, when you have read their chapters:

# %%
exercise_links("formulas.kv-bytes", "waste.tail")

# %% [markdown]
# ## Explore
#
# Most chapters have a picture with sliders. Behind it the engine runs again at each move. This one shows many prompts
# that begin alike. Move the *common beginning* to the right, step by step. **Where does sharing stop to save more, and
# which other slider helps?**

# %%
from minipaged.viz.widgets import prefix_explorer

explorer = prefix_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# Up to {{lengths[-2]:,}} tokens it saves more and more, {{saved[lengths[-2]]:.0%}} of the blocks. At {{lengths[-1]:,}}
# it drops to {{saved[lengths[-1]]:.0%}}: the memory is too small to keep all those beginnings. With {{more:,}} slots
# it is {{helped:.0%}}. Memory again.
#
# </details>

# %% tags=["hidden"]
lengths, pools = explorer.controls[0].values, explorer.controls[3].values
saved = {length: explorer.at(prefix=length).data["with"]["blocks_saved"] for length in lengths}
more = pools[pools.index(8192) + 1]
helped = explorer.at(prefix=lengths[-1], pool=more).data["with"]["blocks_saved"]

# %% [markdown]
# ## Recap
#
# 1. For each token that it has read, a model keeps numbers: the KV cache. Memory decides how many readers fit.
# 2. PagedAttention keeps it in blocks that may lie anywhere, with a table for each request.
# 3. Blocks are taken when they are needed, and what is the same is stored once.
# 4. Every change is an event. Films, figures and tests read those events and nothing else.
# 5. Bugs of memory do not crash: they tell another story. So guess, measure, and check.

# %% [markdown]
# ## What vLLM does differently
#
# [vLLM](https://github.com/vllm-project/vllm) is the engine that made this idea known. It serves large models on many
# GPUs. Here you can read everything in a few evenings. The names are the same on purpose: `LLM`, `SamplingParams`,
# `generate`, `block_table`, `num_computed_tokens`. So `from vllm import LLM`, with the name of a model of Hugging Face
# and without `num_blocks`, serves your prompts there. Each chapter ends with what vLLM does in another way;
# [docs/names.md](../docs/names.md) lists the names side by side.

# %% [markdown]
# ## Quiz

# %%
quiz("00_start_here", in_use=in_use, alone=alone, found=found, length=length)

# %% [markdown]
# ## Next
#
# What are those numbers that a model keeps, and why are they so many? For a model that people really use, one short
# word takes as much memory as the text of a whole novel.
#
# **[01 · Why a KV cache](01_kv_cache.ipynb)** counts them.
