# %% [markdown]
# # 15 · Twenty claims, measured
#
# You plan a server for a model with 70 billion parameters. An article says that one text of 2,048 tokens needs 5.24 GB
# of cache. You buy cards for that. When the server runs, {{1 - llama["found"] / llama["claimed"]:.0%}} of that memory
# stays dark: a text needs {{llama["found"]:.3f}} GB.
#
# Nobody lied. The formula was true once, for another model. How do you find out what still holds before you pay?

# %% [markdown]
# **After this chapter you can**
#
# - check a claim about memory or speed in a few lines;
# - name four ways in which such claims go wrong;
# - write a claim of your own that others can check.
#
# **Needs** [09 Preemption](09_preemption.ipynb) · **Time** 25 minutes · **Level** easy · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# This course grew from a text on the web. It is a good text: it taught its readers more than most. And
# {{of_text}} of its sentences and lines do not stand as they are written. Here they are, with {{of_others}} from
# popular articles and calculators. We list them with thanks. Each one shows where it is easy to slip.
#
# Two of them first as questions. A well-known title says that continuous batching enables 23 times the throughput. We
# try the idea alone.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal
from minipaged.viz.show import show

predict("errata-batching")

# %%
predict("errata-late")

# %% [markdown]
# ## How a claim is measured
#
# Every claim stands in one file of the package,
# [errata.py](../minipaged/lesson/errata.py): what is said, by whom, and a function that finds out. The list
# [docs/errata.md](../docs/errata.md) is made from it, and so is this chapter. One of them, as an example:

# %%
from minipaged.lesson.errata import ERRATA, static_batch

print(ERRATA[15].claim)
print(static_batch())

# %% [markdown]
# The text drew a chart and read 30% off it. The sum is shorter than the chart: four seats work for 100, 50, 200 and 30
# steps, and all four are held for 200. The function has no more than this in it. Most claims need three lines.
#
# ## Round one: sizes

# %%
from minipaged.lesson.errata_page import errata_table

errata_table(ERRATA[0:6])

# %% [markdown]
# Two slips explain all six rows.
#
# *Units.* GB means a billion bytes, and GiB means 1024 times 1024 times 1024 of them. They differ by 7%, which is small
# enough to go unseen and large enough to crash a server.
#
# *Yesterday's model.* The formula in most articles is right for the models of 2022. Then came
# **grouped-query attention** (分组查询注意力): several query heads share one head of keys and values. Then came the
# **sliding window** (滑动窗口): a layer that keeps the last tokens only. And then one short vector for all heads. A
# calculator that does not ask for these is wrong by up to {{latent["times"]:.0f}} times.

# %% [markdown]
# ## Round two: blocks

# %%
errata_table(ERRATA[6:11])

# %% [markdown]
# Row 9 is the most quoted number of the field, and it is true, for chats. What is lost is half a block a request: the
# **internal fragmentation** (内部碎片) of the last block. Beside a long chat that is nothing. Beside a short
# instruction it is {{under["found"]:.0f}}%.
#
# Row 8 teaches something else. "Less than 5%" holds for these answers. Its *reason* does not: answers are not multiples
# of 16 more often than chance makes them. A right number with a wrong reason fails without warning, on other traffic.

# %% [markdown]
# ## Round three: attention

# %%
errata_table(ERRATA[11:15])

# %% [markdown]
# Rows 14 and 15 leave half of the work out. The cache saves the *making* of old keys and values. Each new token must
# still *read* all of them. With one reader and a short text you can't feel it, since reading the weights takes longer.
# With many readers and long texts it is nearly all that the card does.

# %% [markdown]
# ## Round four: batches

# %%
errata_table(ERRATA[15:20])

# %%
batching = ERRATA[16].values()
reveal("errata-batching", batching["found"], "{:.1f} times")

# %% [markdown]
# So the batching alone gives {{batching["found"]:.1f}} times, and with paged memory it is {{batching["paged"]:.1f}}
# times. The 23 is not wrong. It compares two whole programs, on another model and other lengths, and the title names
# one of the changes. We compare with **static batching** (静态批处理) at its best: seven rows, which is all that fits.

# %%
late = ERRATA[18].values()
reveal("errata-late", late["late"], "{:.0f} of 100")

# %% [markdown]
# Row 19 sounded like common sense: who has talked for long will talk for longer. On this traffic the opposite is true.
# After 400 tokens three in four are nearly done, so the text's rule throws out just those who would soon give their
# memory back by themselves. Other traffic may say something else. That is why a policy is tried on a trace.
#
# Row 18 needs a fair word too. A *limit* on the batch is no bad thing: with {{batch["seats"]}} seats the same queue
# gets {{batch["capped"]:,.0f}} tokens a second, as many as without a limit. What costs is a batch so small that
# it never has to change. (Chapter 09 counts from the first step on, so its largest batch is larger.)
#
# And row 20 counts the short steps of a reader who is alone. The steps of a crowd, in chapter 09, are longer, and there
# the same copy takes as long as one of them.

# %% [markdown]
# ## How far off?
#
# {{len(numbers)}} of the twenty claims name a number that can be compared. Each bar ends at the claim divided by what
# was found. The line is 1: nothing to correct.

# %%
numbers = {number: one.values()["claimed"] / one.values()["found"]
           for number, one in enumerate(ERRATA, 1) if "claimed" in one.values()}
far = max(numbers, key=numbers.get)
print(f"claim {far}: {numbers[far]:.0f} times too large")

# %%
from minipaged.viz.style import BLUE, INK, new_figure, styled


@styled
def draw_ratios():
    figure, axes = new_figure(4.4)
    axes.barh([f"{number}" for number in numbers], [one - 1 for one in numbers.values()],
              left=1, color=BLUE)
    axes.axvline(1, color=INK)
    axes.set(xscale="log", xlabel="claimed / found", ylabel="claim", title="How far off?")
    axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    axes.invert_yaxis()
    return figure


show(draw_ratios(), f"{len(numbers)} bars of claimed over found: claim {far} is the largest, "
             f"{numbers[far]:.0f} times; the least is {min(numbers.values()):.2f}.", numbers)

# %% [markdown]
# Look for the bars that you can hardly see: claims 1, 2 and 11. Those are the units. The long bars to the right are
# models with fewer heads than the formula counts, a rule of code that fits one prompt length in 16, and a title. Bars
# to the left name too little. In four of them waste, work or time looks smaller than it is. In claim 16 it is the use of
# the card: it is better than the text says.

# %% [markdown]
# ## Break it
#
# Here is row 2 as a bug in code. The museum has it in the function that prints sizes all over this course:

# %%
from minipaged import museum

piece = museum.piece("gib-written-gb")
print(piece.source)
for run in (piece.right(), piece.wrong()):
    print(run.facts["ten requests of 4,096 tokens of Llama-2-13B"])

# %% [markdown]
# Read the last line as somebody would who plans a server. Nothing in it looks wrong. It is {{too_small:.1%}} smaller
# than the truth, and it will be added to weights in honest GB. The rule: *{{piece.rule}}*

# %% tags=["hidden"]
llama, latent, under, batch = (ERRATA[index].values() for index in (3, 5, 8, 17))
of_text = sum(one.source.startswith("source text") for one in ERRATA)
of_others = len(ERRATA) - of_text
too_small = 1 - 1000**3 / 1024**3

# %% [markdown]
# ## Exercises
#
# First claims and bugs of this kind, with a check. Then two functions that would have caught most of rounds one and
# two.

# %%
exercise_links("15_errata", "formulas.kv-bytes", "waste.tail")

# %% [markdown]
# ## Explore
#
# A calculator multiplies. The picture below counts. Choose Gemma 2 9B, and read the bytes of one token. **For
# {{readers}} requests of {{short_text:,}} tokens, is the cache just the product of the three numbers? And for
# {{long_text:,}} tokens?**

# %%
from minipaged.viz.widgets.kv_size import kv_size_explorer

explorer = kv_size_explorer()
readers, short_text, long_text = 16, 4096, 32768
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# At {{short_text:,}} tokens yes: {{gemma[short_text] / 1e9:.1f}} GB both ways. At {{long_text:,}} tokens the product is
# {{product / 1e9:.1f}} GB, and the cache takes {{gemma[long_text] / 1e9:.1f}} GB. Half of the layers of this model keep
# the last {{short_text:,}} tokens and forget the rest, so their share stops growing.
#
# </details>

# %% tags=["hidden"]
shown = {tokens: explorer.at(model="gemma-2-9b", tokens=tokens, requests=readers).data
         for tokens in (short_text, long_text)}
gemma = {tokens: data["kv_bytes"] for tokens, data in shown.items()}
product = readers * long_text * shown[long_text]["bytes_per_token"]

# %% [markdown]
# ## Recap
#
# 1. Write the unit, and add only numbers that have the same one.
# 2. A formula belongs to the models of its year. Ask for KV heads, windows and shared vectors.
# 3. A right number with a wrong reason holds until the traffic changes.
# 4. "X times faster" needs three words more: than what, and why.
# 5. A claim with a function beside it can be checked by anybody, in any year.

# %% [markdown]
# ## What vLLM does differently
#
# vLLM does not trust formulas either. Each kind of layer describes its own memory: `FullAttentionSpec`,
# `SlidingWindowSpec` and `MLAAttentionSpec` in `kv_cache_interface.py` each have `page_size_bytes` and
# `max_memory_usage_bytes`. The number of heads comes from `ModelConfig.get_num_kv_heads`, never from the query. At the
# start it measures how much memory the model itself takes, and then prints a line that is worth reading: the
# `KV cache size` in tokens, and the `Maximum concurrency` in requests of the longest length. Compare it with your plan
# before you open the doors. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("15_errata", times=4, alone=batching["found"], paged=batching["paged"])

# %% [markdown]
# ## Next
#
# We have been hard on others. Now it is our turn: the numbers that a famous paper measured on real cards, beside those
# that we compute on a laptop. Where do they part, and whose fault is it?
#
# **[16 · The paper on a laptop](16_paper_on_a_laptop.ipynb)** finds out.
