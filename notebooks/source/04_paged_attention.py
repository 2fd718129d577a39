# %% [markdown]
# # 04 · Attention through a table
#
# A text of {{long_text:,}} tokens is read for each new token: {{gib(one_read):.3f}} GiB of keys and values on
# Llama-2-13B. Its blocks lie in crumbs. Put them side by side first, and {{gib(3 * one_read):.3f}} GiB move through the
# memory: read, write, read again. For one token.
#
# Can attention read the crumbs where they lie, one block at a time, and still get exactly the same answer?

# %% [markdown]
# **After this chapter you can**
#
# - compute attention through a block table, and say which slots must not be read;
# - prove that softmax can be taken block by block, in any order, with nothing lost;
# - find five mistakes that people make in this code, each by its number.
#
# **Needs** [01](01_kv_cache.ipynb), [03 Blocks](03_blocks.ipynb) · **Time** 30 minutes · **Level** medium · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# Take A from the last chapter, with its first {{tokens}} tokens in blocks of {{block_size}}. They fill two blocks and
# half of a third. The other half still holds what another text has left there. A careless program reads all
# three blocks to their ends.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("attention-stolen")

# %% [markdown]
# And one about the second half of this chapter.

# %%
predict("attention-kept")

# %% [markdown]
# ## Side by side
#
# First the old way: the keys of a text in one piece, and its values in another. One new token asks its question. Each
# **head** (注意力头) has a query of its own. Two of them share one head of keys and values, as in chapter 01.

# %%
import torch

draw = torch.Generator().manual_seed(4)


def random(*shape):
    return torch.randn(shape, generator=draw, dtype=torch.float64)


tokens, heads, kv_heads, width = 10, 4, 2, 8
keys, values = random(tokens, kv_heads, width), random(tokens, kv_heads, width)
query = random(1, heads, width)  # one new token

# %%
def weights_of(query, keys, head):
    """How much one head takes of each token: numbers that sum to 1."""
    scores = keys[:, head // (heads // kv_heads)] @ query[head] / width**0.5
    return torch.softmax(scores, dim=0)


def attend(query, keys, values):
    """A weighted mean of the values, for each head."""
    return torch.stack([weights_of(query, keys, head) @ values[:, head // (heads // kv_heads)]
                        for head in range(heads)])


side_by_side = attend(query[0], keys, values)
print("each head takes most from token",
      [int(weights_of(query[0], keys, head).argmax()) for head in range(heads)])

# %% [markdown]
# Two lines of the text that this course grew from are easy to read over: `keys = kv_cache[:n]` and
# `values = kv_cache[:n]`. They name the same numbers twice. Keys and values are two rows of drawers; we come back to
# what that costs.
#
# ## In crumbs
#
# Now the same tokens in blocks. The pool has been busy for a while: its {{num_blocks}} blocks of
# {{block_size}} are full of what other texts have left. A has the table {{list(table.blocks)}}. `slots` says
# where each token goes, as in chapter 03.
#
# One layer of the pool is one array: blocks, then places in the block, then heads, then the numbers of a vector.

# %%
from minipaged.core import BlockTable
from minipaged.kernels import reference

num_blocks, block_size = 9, 4
key_blocks = random(num_blocks, block_size, kv_heads, width)
value_blocks = random(num_blocks, block_size, kv_heads, width)
table = BlockTable(block_size, [5, 2, 7])
slots = table.slots(0, tokens)
reference.reshape_and_cache(keys, values, key_blocks, value_blocks, torch.tensor(slots))
print("slots:", slots)
source(reference.reshape_and_cache)

# %% [markdown]
# This is what the query must look at. Follow the numbers in the circles: they are the order in which the blocks are
# read. Then look for the two hatched slots. They are in a block of ours, and they are not ours.

# %%
from minipaged.viz.figures.attention import attention_gather, online_softmax

show(attention_gather(table.blocks, tokens, block_size, num_blocks))

# %% [markdown]
# ## Gather, then attend
#
# The direct way: fetch the blocks in the order of the table, lay them side by side, cut off what is too much. Then go
# on as before. That is **PagedAttention** (分页注意力) in two steps.

# %%
source(reference.gather)

# %%
gathered = attend(query[0], reference.gather(key_blocks, table.blocks, tokens),
                  reference.gather(value_blocks, table.blocks, tokens))
print("the same as side by side:", torch.equal(gathered, side_by_side))

# %% [markdown]
# Not nearly the same: the same, to the last bit. Paging moves numbers, it does not touch them. And this is the function
# against which every fast kernel of this course is checked. Three of its lines are worth a stop: `group` for heads that
# share, `[:context_len]` inside of `gather`, and `_visible`, so that a token sees nothing that comes after it.

# %%
source(reference.paged_attention)

# %% [markdown]
# ## Never past the end
#
# Is the cut `[:context_len]` so important? Measure your first guess: read all three blocks to the end, and add up what
# the {{over}} slots behind the text get.

# %%
over = len(table.blocks) * block_size - tokens
too_far = reference.gather(key_blocks, table.blocks, tokens + over)
shares = [float(weights_of(query[0], too_far, head)[tokens:].sum()) for head in range(heads)]
stolen = sum(shares) / heads
print("taken by another text, head by head:", "  ".join(f"{share:.0%}" for share in shares))
reveal("attention-stolen", 100 * stolen, "{:.0f} of 100")

# %% [markdown]
# {{stolen:.0%}} of the attention goes to somebody else's words. The answer is fluent, and wrong, and depends on who was
# there before. A sharp test: fill every slot that is not ours with NaN, "not a number". One touch, and the result is
# NaN too.

# %%
poisoned = []
for blocks in (key_blocks, value_blocks):
    clean = torch.full_like(blocks, float("nan"))
    flat = clean.view(-1, kv_heads, width)
    flat[slots] = blocks.view(-1, kv_heads, width)[slots]
    poisoned.append(clean)
result = reference.paged_attention(query, *poisoned, table.blocks, tokens)
careless = reference.paged_attention(query, *poisoned, table.blocks, tokens + over)
print("to the context:", "as before" if torch.allclose(result[0], side_by_side) else "wrong")
print("to the end of the block:", "NaN" if careless.isnan().all() else "numbers")

# %% [markdown]
# ## One block at a time
#
# Gathering is right, and it moves everything twice. A GPU should read each block once, where it lies, and forget it.
# But there is softmax in the way. It divides by a sum over *all* scores. And it has a second catch: `exp` of a large
# score is too large for any float. So one subtracts the largest score first. That one too is only known at the end.

# %%
scores = torch.tensor([1000.0, 1001.0])
print("exp of the scores:      ", torch.exp(scores).tolist())
print("exp of score - largest: ",
      [round(weight, 3) for weight in torch.exp(scores - scores.max()).tolist()])

# %% [markdown]
# The way out is to keep accounts, and to correct them when a larger score turns up. This is **online softmax**
# (在线softmax), from [Milakov and Gimelshein, 2018](https://arxiv.org/abs/1805.02867).
# [FlashAttention](https://arxiv.org/abs/2205.14135) made it famous. In plain Python, for one head and values that are
# single numbers:

# %%
from math import exp, inf


def fold(state, scores, values, power=exp):
    """Read one block more. The state: largest score, sum of weights, sum of weight x value."""
    largest, total, mixed = state
    new = max(largest, *scores)
    shrink = power(largest - new) if total else 0  # what was summed up was too large
    weights = [power(score - new) for score in scores]
    mix = sum(weight * value for weight, value in zip(weights, values))
    return new, total * shrink + sum(weights), mixed * shrink + mix

# %% [markdown]
# Here it reads {{len(row)}} scores, block by block. In the last row it divides, once.

# %%
row = [1, 0, 2, 1, 3, 1, 2, 6, 2, 4, 1, 3]
worth = [5, 1, 8, 2, 4, 9, 3, 6, 7, 1, 5, 2]
state = (-inf, 0, 0)
for start in range(0, len(row), block_size):
    stop = start + block_size
    state = fold(state, row[start:stop], worth[start:stop])
    largest, total, mixed = state
    print(f"after {stop:>2} scores: largest {largest}, sum {total:.4f}, mixed {mixed:7.4f}")
at_once = torch.softmax(torch.tensor(row).double(), dim=0) @ torch.tensor(worth).double()
print(f"block by block {mixed / total:.6f}, at once {float(at_once):.6f}")

# %% [markdown]
# In the figure, look at the second block. A new largest score comes, the dashed line jumps, and the old sum is scaled
# down to almost nothing. In the third block nothing larger comes, so the old sum stays as it is.

# %%
show(online_softmax(row, block_size))

# %% [markdown]
# ### Why it is exact
#
# It is no estimate. Three short steps show it.
#
# 1. **What is always true.** Let `m` be the largest score so far. Then `total` is the sum of `exp(s - m)` over all
#    scores `s` that were read, and `mixed` is the same sum, each term times its value. At the start both are empty.
# 2. **A block keeps it true.** Say the largest is now `n`. Each old term is multiplied by `exp(m - n)`, and
#    `exp(s - m) * exp(m - n)` is `exp(s - n)`. The new terms come with `n` at once. So all terms have `n`.
# 3. **At the end.** `mixed / total` has the factor `exp(-n)` in each term above and below. It cancels, and what
#    is left is softmax.
#
# Nowhere did it matter which block came first, or how long it was. A machine can check that with no rounding at all.
# Take powers of 2 in place of `exp`; then every number is a fraction, and Python computes with fractions exactly.
# Here are six ways to cut the row, each in as many orders as there is time for:

# %%
from fractions import Fraction
from itertools import permutations


def two_to_the(number):
    return Fraction(2) ** number if number > -inf else Fraction(0)


results, tried = set(), 0
for size in (1, 2, 3, 4, 6, 12):
    blocks = [(row[at:at + size], worth[at:at + size]) for at in range(0, len(row), size)]
    for order in permutations(blocks) if len(blocks) <= 6 else (blocks, blocks[::-1]):
        state = (-inf, Fraction(0), Fraction(0))
        for block in order:
            state = fold(state, *block, power=two_to_the)
        results.add(state[2] / state[1])
        tried += 1
direct = sum(2**s * v for s, v in zip(row, worth)) / Fraction(sum(2**s for s in row))
print(f"{tried} ways, {len(results)} result: {results.pop()}; directly: {direct}")

# %% [markdown]
# One result for {{tried}} ways, and it is the right one. This freedom is worth a lot. Blocks may lie anywhere and be
# read in any order. And several programs can share a long text, each with a part of the blocks, and fold their states
# into one at the end. Chapter 12 does that.
#
# This is the same loop in the package, for all heads. Look for the three lines that you know.

# %%
source(reference.paged_attention_online, lines=(19, 40))

# %%
online = reference.paged_attention_online(query, key_blocks, value_blocks, table.blocks, tokens,
                                          compute_dtype=torch.float64)
close = torch.allclose(online[0], side_by_side, rtol=0, atol=1e-12)
print("as side by side, to 12 digits:", close)
kept = len(state) - 1  # beside the half-made answer: the largest score and the sum
reveal("attention-kept", kept, "{} numbers for each head")

# %% [markdown]
# Gathering holds all the scores and a second copy of the text. This way holds {{kept}} numbers and the answer, for a
# text of any length.

# %% [markdown]
# ## Break it
#
# A piece of the museum. The number that you see is how far an answer is from the right one. Right answers are at most 1
# here, and the slots of other texts hold larger numbers. What has happened?

# %%
from minipaged import museum

exhibit = museum.exhibit("reads-past-the-context")
exhibit

# %%
piece = museum.piece("reads-past-the-context")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# The code of the text on the web has this one, and some more. They are common; each is in other public code as well.
# Here they are side by side, on our small text. The last two ask torch's own attention, in ways that look harmless.

# %%
from torch.nn.functional import scaled_dot_product_attention as torch_attention

chunk = random(3, heads, width)  # the last three tokens at once
wide_keys, wide_values = (one.repeat_interleave(2, dim=1) for one in (keys, values))
heads_first = [one.transpose(0, 1) for one in (chunk, wide_keys, wide_values)]
right = reference.paged_attention(query, key_blocks, value_blocks, table.blocks, tokens)
right_chunk = reference.paged_attention(chunk, key_blocks, value_blocks, table.blocks, tokens)
too_many = reference.gather(value_blocks, table.blocks, tokens + over)
in_turn = [0, 1, 0, 1]  # KV heads dealt like cards; right is 0, 0, 1, 1
wrong = {
    "whole last block": attend(query[0], too_far, too_many),
    "keys for values": attend(query[0], keys, keys),
    "heads dealt in turn": reference.paged_attention(
        query, key_blocks[:, :, in_turn], value_blocks[:, :, in_turn], table.blocks, tokens)[0],
}
for name, answer in wrong.items():
    print(f"{name:<22} off by {float((answer - right[0]).abs().max()):.3f}")

# %%
early = torch_attention(*heads_first, is_causal=True).transpose(0, 1)
print(f"{'rows count from 0':<22} off by {float((early - right_chunk).abs().max()):.3f}")
mixed_up = torch_attention(query, wide_keys, wide_values)
print(f"{'tokens for heads':<22} shape {tuple(mixed_up.shape)}, right is {tuple(right.shape)}")

# %% [markdown]
# - *Whole last block*: the code has no context length. The error is the smallest here, so it is the hardest to notice.
# - *Keys for values*: the two slices with one name, from above.
# - *Heads dealt in turn*: head h reads KV head `h // group`, not `h % kv_heads`. With as many KV heads as heads, as in
#   the text on the web, nobody can see a difference.
# - *Rows count from 0*: `is_causal=True` takes the first row for the first token. Here it stands at position
#   {{tokens - 3}}.
# - *Tokens for heads*: torch wants heads first. It does not complain. Each token now looks at heads.
#
# Not one of them raises an error. That is why each kernel of this course is compared with a plain and slow function.

# %% [markdown]
# ## Exercises
#
# Share heads, read through a table, place a chunk, fold a softmax. A wrong answer gets a counterexample, as
# small as one can be found.

# %%
exercise_links("04_paged_attention")

# %% [markdown]
# ## Explore
#
# Here a query reads its blocks, and you choose the order. The dashed line is the largest score so far. **In which order
# is the sum never scaled down, and what happens to the answer? Then let it read whole blocks: at which lengths is
# nothing stolen?**

# %%
from minipaged.viz.widgets.attention import attention_explorer

explorer = attention_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# With the largest score first the sum is never scaled down; with the first block first it happens
# {{first["rescaled"]}} time. The answer is {{first["answer"]:.4f}} both times, and with the last block first too. With
# whole blocks of {{block_size}}, nothing is stolen at {{", ".join(map(str, safe))}} tokens: the multiples of the block
# size. At {{worst}} it is the most, {{by_length[worst]:.0%}}. So a test with a text of {{safe[1]}} tokens would never
# find that mistake.
#
# </details>

# %% tags=["hidden"]
first, best = explorer.data, explorer.at(order="largest score first").data
assert best["rescaled"] == 0 and best["answer"] == first["answer"]
by_length = {length: explorer.at(reads="whole blocks", tokens=length).data["stolen"]
             for length in explorer.controls[0].values}
safe = [length for length, share in by_length.items() if share == 0]
worst = max(by_length, key=by_length.get)

# %% [markdown]
# ## Recap
#
# 1. Attention through a table gives the same bits as attention side by side. Paging moves numbers, no more.
# 2. Never read past the context: the rest of the last block belongs to somebody else.
# 3. Softmax can be taken block by block: keep the largest score and the sum, and scale down what was summed.
# 4. That is exact, in any order and with any cut. So blocks can lie anywhere, and programs can share a text.
# 5. Wrong attention raises no error. Check it against a slow and simple function, and with NaN in foreign slots.

# %% [markdown]
# ## What vLLM does differently
#
# Nothing is gathered. The first kernels were `paged_attention_v1` and `paged_attention_v2` in `csrc/attention`: the
# second one cuts a long context into parts and folds their states. Look for them in old versions. Today most models on
# NVIDIA cards use FlashAttention, on Blackwell cards FlashInfer. `flash_attn_varlen_func` takes the `block_table`
# itself. The Triton backend has `unified_attention`, one kernel for prompts and single tokens. New keys and values are
# written by `reshape_and_cache_flash`, with a `slot_mapping`, as here. `merge_attn_states` folds two states, for a
# prefix that many requests share. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("04_paged_attention", stolen=stolen, tried=tried)

# %% [markdown]
# ## Next
#
# A table says where a block lies. It does not say that the block belongs to one reader only. Three of our four requests
# begin with the same ten tokens, and each keeps a copy of them.
#
# **[05 · Sharing and copy-on-write](05_copy_on_write.ipynb)** lets one block stand in many tables, until somebody wants
# to write.

# %% tags=["hidden"]
from minipaged.presets import preset


def gib(size):
    return size / 2**30


long_text = 4096
one_read = preset("llama-2-13b").shape.sequence_bytes(long_text)
