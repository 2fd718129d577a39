# %% [markdown]
# # 00 · Start here
#
# A language model that writes keeps something for every token it has read: a **key** and a **value** vector in each
# layer, the *KV cache* (键值缓存). For a server with many readers this cache is most of the memory, and nobody knows
# beforehand how long an answer will be. **PagedAttention** (分页注意力) keeps the cache as an operating system keeps
# the memory of programs: in small **blocks** (块) of equal size that may lie anywhere, with a **block table** (块表)
# for each request that says where.
#
# This course builds that idea from its parts. The engine that you run here is the one that you will read: it serves
# a small story model that comes with the repository, on the CPU, in seconds. In this chapter you only use it and look.

# %% [markdown]
# ## Serve some prompts
#
# The prompts begin with the same text, a *system prompt*, and go on differently. Remember that: it is the first thing
# that paging makes cheap. `temperature=0` takes the most likely token each time, so you see the same stories as we do.

# %%
from minipaged import LLM, SamplingParams
from minipaged.models.stories import DEMO_PROMPTS, SYSTEM_PROMPT

llm = LLM(model="tiny", block_size=16, num_blocks=48)
openings = DEMO_PROMPTS[:4]
outs = llm.generate([SYSTEM_PROMPT + opening for opening in openings], SamplingParams(temperature=0, max_tokens=60))

print(SYSTEM_PROMPT)
for opening, out in zip(openings, outs):
    print(f"[{out.request_id}] {opening}{out.outputs[0].text}\n")

# %% [markdown]
# Ask each answer what it cost. `cached` counts the tokens of the prompt whose keys and values another request had
# already computed: they were **shared**, not computed again and not stored again. The first request had nobody to
# share with.

# %%
print("request  prompt  cached  new  ended by")
for out in outs:
    answer = out.outputs[0]
    print(f"{out.request_id:>7}  {len(out.prompt_token_ids):>6}  {out.num_cached_tokens:>6}  "
          f"{len(answer.token_ids):>3}  {answer.finish_reason}")

# %% [markdown]
# ## What happened in memory
#
# The engine writes down every change of its memory and of its schedule as one **event** with a logical time. Nothing
# in this course draws a picture from anything else. These are the kinds of events, and how many of each there were.

# %%
from minipaged.core.events import KINDS

for kind, count in llm.engine.events.counts().items():
    print(f"{count:>5} {kind:<9} {KINDS[kind][0]}")

# %% [markdown]
# ## Who holds which block
#
# Take the step in which the fewest blocks were free, and draw the pool at that moment: one square for each block,
# with its number, and one stripe of colour for each request that holds it. The squares with several stripes are the
# system prompt: stored once, held by all.

# %%
from minipaged.viz.figures.pool import block_map
from minipaged.viz.replay import replay
from minipaged.viz.show import show

fullest = min(llm.engine.events.select("step"), key=lambda event: event.free_blocks)
show(block_map(llm.engine.events, until=fullest.time))

# %% [markdown]
# Without sharing each request would need all of its blocks for itself, and without paging each would have to reserve
# room for its longest possible answer before it starts. Compare:

# %%
state = replay(llm.engine.events, until=fullest.time)
in_use, alone = state.num_blocks - state.free_count, sum(state.ref_count)
reserved = len(outs) * -(-llm.engine.max_model_len // 16)
print(f"{in_use} blocks in use; {alone} if nothing were shared; {reserved} if each request had reserved the longest "
      f"answer of {llm.engine.max_model_len} tokens")

# %% [markdown]
# ## The life of one block
#
# A block is *allocated* with a **reference count** (引用计数) of 1, *published* when it is full, so that its contents
# can be found, *shared* by the others, *released* by all but the last holder, and *freed* by the last one. Freed is
# not forgotten: until somebody needs the place, the next request with the same beginning can still have it.

# %%
shared = next(block for block, count in enumerate(state.ref_count) if count > 1)
for event in llm.engine.events.select(block=shared):
    print(event)

# %% [markdown]
# So the same prompt a second time costs little: the blocks that are found are not computed again. The last token of
# a prompt always is, since something must produce the next one.

# %%
again = llm.generate([SYSTEM_PROMPT + openings[0]], SamplingParams(temperature=0, max_tokens=60))[0]
print(f"{again.num_cached_tokens} of {len(again.prompt_token_ids)} tokens of the prompt were cached")
print("the same text as before:", again.outputs[0].text == outs[0].outputs[0].text)

# %% [markdown]
# ## Try it
#
# * Set `num_blocks=20` above and run all cells again. Look for `preempt` in the table of events. Are the stories the
#   same?
# * Set `block_size=4`. How many tokens are cached now, and why?
# * Set `enable_prefix_caching=False`. Which events are gone?
#
# `minipaged demo` in a terminal does the same with twelve stories, and `minipaged doctor` says what else works on
# your machine.
