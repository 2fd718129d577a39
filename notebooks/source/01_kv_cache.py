# %% [markdown]
# # 01 · Why a KV cache, and how big
#
# The word *cat* is three bytes long. To remember it while it writes on, Llama-2-13B keeps {{per_token:,}} bytes:
# {{per_token // 3:,}} for each letter. A text of {{long_text:,}} tokens takes {{gib(one_text):.3f}} GiB, and a server
# keeps such a text for every reader at once.
#
# What is in those bytes, why does nobody throw them away, and how do you work out their number for any model?

# %% [markdown]
# **After this chapter you can**
#
# - say what a KV cache holds, and count the work that it saves;
# - work out its size for any model, and never mix GB and GiB again;
# - explain how fewer heads, windows and latents make it smaller.
#
# **Needs** [00 Start here](00_start_here.ipynb), Python and numpy · **Time** 25 minutes · **Level** easy · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# A guess that you wrote down teaches more than a fact that you read. It stays on your machine; `minipaged predictions`
# lists all of yours. Here is the first.
#
# To write one more token, a model needs two small vectors of each token before it, its *key* and its *value*. Suppose
# that it kept nothing, and made all keys and values again for each new token.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("kv-work")

# %% [markdown]
# ## What attention looks at
#
# Think of a desk with drawers. Each **token** (词元) that was read gets a drawer. On its front is a label, the
# **key** (键). Inside is what the token has to say, the **value** (值). The newest token walks along the drawers with a
# question, the **query** (查询). It compares the question with every label. Where they match well, it takes much of
# what is inside; elsewhere it takes little. That is **attention** (注意力).
#
# Here it is as code, for a model so small that you can read all of it: {{VOCABULARY}} words, vectors of
# {{WIDTH}} numbers, {{LAYERS}} layers, nothing trained. Nonsense comes out, but by the same steps as in a large
# model.

# %%
import numpy as np

VOCABULARY, WIDTH, LAYERS = 20, 8, 2
draw = np.random.default_rng(189)
embedding = draw.normal(size=(VOCABULARY, WIDTH))
to_query, to_key, to_value = draw.normal(size=(3, LAYERS, WIDTH, WIDTH)) / WIDTH**0.5
to_word = draw.normal(size=(WIDTH, VOCABULARY))


def attend(queries, keys, values):
    """Each query looks at the keys up to its own place: a weighted mean of their values."""
    place = np.arange(len(keys) - len(queries), len(keys))  # queries are the last tokens'
    scores = np.where(np.arange(len(keys)) <= place[:, None], queries @ keys.T, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ values

# %% [markdown]
# The line with `place` says that a token never looks at those after it. Keep it in mind: everything else in this
# chapter rests on it.
#
# ## Without a cache
#
# The direct way: for each new token, read the whole text again. `made` counts how many tokens got their keys and
# values.

# %%
def write_without_cache(prompt, count):
    text, made = list(prompt), 0
    for _ in range(count):
        x = embedding[text]  # one row a token
        for layer in range(LAYERS):
            x = x + attend(x @ to_query[layer], x @ to_key[layer], x @ to_value[layer])
        made += len(text)
        text.append(int((x[-1] @ to_word).argmax()))
    return text[len(prompt):], made


prompt = [3, 1, 4, 1]
words, made = write_without_cache(prompt, 12)
print("written:", words)
print("keys and values were made for", made, "tokens")

# %% [markdown]
# There were {{len(prompt)}} tokens in the prompt and {{len(words)}} were written. So why {{made}}? The first step
# read {{len(prompt)}} tokens, the next one more, and so on. The model made the keys of the prompt {{len(words)}} times,
# and got the same ones each time.
#
# ## With a cache
#
# The keys and values of a token depend on the token and on those before it. What comes later can't change them. So
# keep them. That is the **KV cache** (键值缓存). In each step only the newest token passes through the model, and its
# key and value join the others.

# %%
def write_with_cache(prompt, count):
    empty = np.zeros((0, WIDTH))
    cache = [(empty, empty) for _ in range(LAYERS)]  # (keys, values) of each layer
    text, new, made = list(prompt), list(prompt), 0
    for _ in range(count):
        x = embedding[new]  # at first the prompt, then one token
        for layer, (keys, values) in enumerate(cache):
            keys = np.vstack([keys, x @ to_key[layer]])
            values = np.vstack([values, x @ to_value[layer]])
            cache[layer] = keys, values
            x = x + attend(x @ to_query[layer], keys, values)
        made += len(new)
        new = [int((x[-1] @ to_word).argmax())]
        text += new
    return text[len(prompt):], made

# %%
words_cached, made_cached = write_with_cache(prompt, 12)
print("written:", words_cached, "the same" if words_cached == words else "different!")
print("keys and values were made for", made_cached, "tokens")

# %% [markdown]
# The same words for {{made_cached}} in place of {{made}}. Look at the shape of the bars below. Without a cache they are
# a staircase that climbs with the text. With one there is a bar for the prompt and then a flat line. The bar for the
# prompt has a name, *prefill*, and so has the flat line, *decode*. You will meet both again.

# %%
from minipaged.viz.figures.sizes import cache_work

show(cache_work(len(words), prompt_tokens=len(prompt)))

# %% [markdown]
# Now the longer text of your guess.

# %%
_, long_made = write_without_cache([3], 200)
_, long_made_cached = write_with_cache([3], 200)
print(f"{long_made:,} without a cache, {long_made_cached:,} with one")
reveal("kv-work", long_made / long_made_cached, "{:.1f} times as many")

# %% [markdown]
# That is half the length of the text: the staircase is half of a square. For a text twice as long it is twice as bad.
# This is why every server keeps a KV cache, and why this course exists. The cache trades work for memory, and now
# memory is what runs out. (The engine of this course can do without, to compare: `LLM(model="tiny", use_cache=False)`.)

# %% [markdown]
# ## How big is it?
#
# Count what one token leaves behind. Every layer keeps a key and a value. Each has several **heads** (注意力头), which
# look for different things at the same time, and each head has a vector. So:
#
# > bytes of one token = 2 (key and value) × layers × heads × numbers in a head's vector × bytes of one number
#
# Llama-2-13B has {{shape.num_layers}} layers, {{shape.num_kv_heads}} heads, vectors of {{shape.head_dim}} numbers, and
# a number takes 2 bytes (a 16-bit float). Before you run the next cell, try it: how much is that for a text of 1,000
# tokens?

# %%
predict("kv-13b")

# %%
from minipaged.formulas import format_bytes
from minipaged.presets import preset

shape = preset("llama-2-13b").shape
per_token = 2 * 40 * 40 * 128 * 2
print("by hand:   ", f"{per_token:,} bytes a token")
print("by formula:", f"{shape.bytes_per_token:,} bytes a token")
for tokens in (1, 1000, 4096):
    print(f"{tokens:>6,} tokens: {format_bytes(shape.sequence_bytes(tokens))}")
reveal("kv-13b", shape.sequence_bytes(1000) / 2**20, "{:.1f} MiB")

# %% [markdown]
# Here is the formula as the package has it. This is the real code, not a copy of it in the text. `minipaged calc` uses
# it, and so do all chapters. (`cdiv` divides and rounds up. `latent_dim` and `scale_bytes` are for other models; here
# they do nothing.)

# %%
from minipaged.formulas import KVShape

source(KVShape.layer_bytes_per_token, KVShape.bytes_per_token)

# %% [markdown]
# ### Two units, one trap
#
# One GB is 10⁹ bytes; one GiB is 2³⁰ bytes, {{2**30 / 10**9 - 1:.1%}} more. A good habit is never to write the first
# and mean the second. See what happens otherwise. A text on the web gives the size for 1,000 tokens as 0.78 GB. It is
# {{one_thousand / 10**9:.3f}} GB, or {{gib(one_thousand):.3f}} GiB. The 0.78 comes from dividing by 1,024 twice and by
# 1,000 once. The same text adds 31.3 for ten readers, which are GiB, to 26 for the weights, which are GB, and gets
# 57.3 of neither. Correct is:

# %%
def gib(size):
    return size / 2**30


one_thousand, long_text = shape.sequence_bytes(1000), 4096
one_text = shape.sequence_bytes(long_text)
weights = 2 * preset("llama-2-13b").parameters
print(f"weights            {format_bytes(weights, exact=False)}")
print(f"ten long texts     {format_bytes(10 * one_text, exact=False)}")
print(f"together           {format_bytes(weights + 10 * one_text, exact=False)}")

# %% [markdown]
# Ten readers with long texts weigh more than the model itself. The weights are there once, for everybody. The cache
# is there for each reader, and it grows while you look.

# %% [markdown]
# ## How to make it smaller
#
# The formula is a product, so each factor is a place to save.
#
# - **Fewer heads of keys and values.** In **multi-head attention** (多头注意力) each query head has a key and value
#   head of its own. In **grouped-query attention** (分组查询注意力) several query heads share one. Llama-3-8B has
#   {{llama3.num_query_heads}} query heads and {{llama3.num_kv_heads}} heads of keys and values.
# - **A sliding window.** With a **sliding window** (滑动窗口) a layer keeps the last tokens only; older drawers are
#   emptied and used again. Mistral-7B v0.1 keeps {{mistral.window:,}}.
# - **A latent.** DeepSeek-V3 keeps one short vector a layer, from which all heads make their keys and values.
# - **Smaller numbers.** One byte in place of two halves everything (fp8).
#
# In the figure, look for two surprises. Llama-2-70B is five times as large as Llama-2-13B, and its cache is
# smaller. And Gemma-2-9B is a small model with a large cache.

# %%
from minipaged.viz.figures.sizes import kv_size_bars, kv_size_curve

names = {"Llama-2-13B": "llama-2-13b", "Llama-2-70B": "llama-2-70b", "Llama-3-8B": "llama-3-8b",
         "Gemma-2-9B": "gemma-2-9b", "Falcon-7B": "falcon-7b", "DeepSeek-V3": "deepseek-v3"}
shapes = {name: preset(key).shape for name, key in names.items()}
llama3, mistral = shapes["Llama-3-8B"], preset("mistral-7b-v0.1").shape
show(kv_size_bars(shapes, long_text))

# %% [markdown]
# A window does nothing for a short text. It bends the curve once the text is longer than the window: from there on
# the cache of Mistral-7B v0.1 stops growing.

# %%
lengths = range(0, 16385, 512)
curves = {"Llama-3-8B": llama3, "Mistral-7B v0.1, windows": mistral,
          "Gemma-2-9B, windows in half of the layers": shapes["Gemma-2-9B"]}
show(kv_size_curve(curves, lengths))

# %% [markdown]
# ## Break it
#
# The museum of this course keeps real mistakes that can be switched on. An exhibit shows what you would see, and keeps
# silent about the cause. This one is about a model that you know. Read it, and pick a letter before you go on.

# %%
from minipaged import museum

exhibit = museum.exhibit("query-heads-counted")
exhibit

# %% [markdown]
# The first number is {{wrong_bytes // right_bytes}} times the right one. And {{llama3.num_query_heads}} is
# {{wrong_bytes // right_bytes}} times {{llama3.num_kv_heads}}. That is the trace to follow: whose heads were counted? A
# model's `config.json` names both numbers, and the one for the queries comes first.

# %%
piece = museum.piece("query-heads-counted")
print(exhibit.answer(piece.title))
print(piece.source)
what = "bytes of one token of Llama-3-8B"
right_bytes, wrong_bytes = (run.facts[what] for run in (piece.right(), piece.wrong()))

# %% [markdown]
# For an older model such as Llama-2-13B both numbers are equal. So the mistake goes unseen until somebody changes the
# model. Queries never count: each is asked once and forgotten.

# %% [markdown]
# ## Exercises
#
# Write the formula yourself. The checks find a counterexample if there is one, and tell you what you probably had in
# mind.

# %%
exercise_links("01_kv_cache")

# %% [markdown]
# ## Explore
#
# This is a card with 80 GB, with a model on it. Move the sliders with the mouse, or with Tab and the arrow keys, and
# read the sentence below the picture. **How many requests of {{far:,}} tokens fit beside Llama-3.1-8B? And what does
# change that more: one byte in place of two, or a model with twice as many layers?**

# %%
from minipaged.viz.widgets.kv_size import kv_size_explorer

explorer, far = kv_size_explorer(), 32768
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# {{explorer.at(tokens=far).data["room"]}} requests fit with two bytes, and
# {{explorer.at(tokens=far, dtype="fp8").data["room"]}} with one: halving the bytes doubles the room. Twice
# as many layers would halve it, and the weights would grow too, so that is worse.
#
# </details>

# %% [markdown]
# ## Recap
#
# 1. A token leaves a key and a value in every layer; later tokens look at them and never change them.
# 2. Keeping them turns a staircase of work into a flat line: about half the text's length times less.
# 3. One token takes 2 × layers × KV heads × head size × bytes; multiply by tokens, and by readers.
# 4. Heads of *keys and values* count, not those of the queries. Windows, latents and small numbers save too.
# 5. Write GB or GiB and mean it.

# %% [markdown]
# ## What vLLM does differently
#
# The same formula stands in `vllm/v1/kv_cache_interface.py`: `FullAttentionSpec.page_size_bytes` for a block of one
# layer, with `SlidingWindowSpec` and `MLAAttentionSpec` (latents) beside it. vLLM does not ask you how much room there
# is. It runs the model once with the largest batch, sees what memory is left of `gpu_memory_utilization`, and takes
# all of it at the start. Its log then says `GPU KV cache size` in tokens, and `Maximum concurrency`: how many of the
# longest requests fit. `kv_cache_dtype="fp8"` stores one byte a number. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("01_kv_cache", per_token=per_token,
     query_heads=llama3.num_query_heads, kv_heads=llama3.num_kv_heads)

# %% [markdown]
# ## Next
#
# You know now what {{long_text:,}} tokens cost. But who says that an answer will have {{long_text:,}}? Nobody knows
# before it ends. In an hour of a real chat service, half of the answers were shorter than {{half_shorter_than}}
# tokens. Servers kept the full room for each of them all the same.
#
# **[02 · The waste of reservation](02_waste.ipynb)** looks at where all that memory goes.

# %%
from minipaged.sim.traces import load_trace

answers = sorted(request.output_tokens for request in load_trace("azure-conv").requests)
half_shorter_than = answers[len(answers) // 2]
print(f"{len(answers):,} answers: half have fewer than {half_shorter_than} tokens, "
      f"the longest has {answers[-1]:,}")
