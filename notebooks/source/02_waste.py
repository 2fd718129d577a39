# %% [markdown]
# # 02 · The waste of reservation
#
# A GPU has room for {{num_slots:,}} tokens beside its model. {{len(trace)}} people stand at the door. It lets
# {{running["longest"]:.0f}} in and says that it is full. Look inside, and you find that
# {{1 - shares["longest"]["used"]:.0%}} of the room holds nothing at all.
#
# That was the normal way to serve a language model before 2023. How can a memory be full and empty at once?

# %% [markdown]
# **After this chapter you can**
#
# - name four ways in which a memory slot can be empty, and point to each;
# - explain why even a server that knows the future wastes a good part;
# - measure the waste on an hour of real traffic.
#
# **Needs** [01 Why a KV cache](01_kv_cache.ipynb) · **Time** 25 minutes · **Level** easy · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# From now on we count memory in **slots** (槽位). A slot is the room for one token, in all layers. So the waste does
# not depend on the model.
#
# Before paging, the keys and values of a request had to lie in one piece, side by side. Nobody knows how long an answer
# will be. So the server kept room for the longest one that is allowed, here {{LONGEST:,}} tokens. That is a
# **reservation** (预留).

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

LONGEST = 4096
predict("waste-longest")

# %% [markdown]
# ## Three readers
#
# Start small. Three readers ask short questions. Their answers have {{answers[0]}}, {{answers[1]}} and {{answers[2]}}
# tokens, and each has {{LONGEST:,}} slots reserved. This is what each has used at the end:

# %%
answers = (50, 200, 1000)
for tokens in answers:
    print(f"{tokens:>5,} of {LONGEST:,} slots: {tokens / LONGEST:6.1%}")

# %% [markdown]
# Even the long answer leaves three quarters of its room untouched. And this is the *end*, when it is fullest.
#
# ## Four kinds of empty
#
# Think of a row in a cinema. A group of friends has booked a piece of it. Walk along and look at the seats:
#
# - **used**: somebody sits there;
# - **reserved**: nobody yet, but a friend is on the way;
# - lost to **internal fragmentation** (内部碎片): booked, and nobody will ever come;
# - lost to **external fragmentation** (外部碎片): not booked, but the gap is too narrow for the next group;
# - **free**: not booked, and wide enough.
#
# Four of the five are empty, each for another reason. The names are those of the
# [PagedAttention paper](https://arxiv.org/abs/2309.06180). Here are the first four of them, in a memory of
# {{len(row)}} slots. The allocator is a **buddy system** (伙伴系统): it rounds each wish up to a power of two.

# %%
from minipaged.formulas import Reservation, split_waste
from minipaged.sim.regions import BuddyAllocator
from minipaged.viz.figures.waste import Region, region_strip

row = range(64)
memory = BuddyAllocator(len(row))
wishes = {"A": 10, "B": 5, "C": 20, "D": 7}  # tokens that each will have at its end
regions = {name: memory.allocate(wish) for name, wish in wishes.items()}
memory.free(regions.pop("B"))  # B is done and gives its room back

now = {"A": 6, "C": 11, "D": 3}  # tokens that each has at this moment
drawn = [Region(name, place.start, len(place), now[name], wishes[name])
         for name, place in regions.items()]
show(region_strip(len(row), drawn, wanted=memory.rounded(12),
                  title="E waits: it asks for 12 slots, which the buddies round to 16"))

# %% [markdown]
# Go through it from left to right. A wished for {{wishes["A"]}} slots and got {{len(regions["A"])}}. It has used
# {{now["A"]}}; some are still to come, and the rest is rounding. Then comes the hole that B left. It is free, yet E
# can't have it: it is too narrow. C is the worst. It wished for {{wishes["C"]}} and holds {{len(regions["C"])}}.
#
# Counted in numbers:

# %%
holdings = [Reservation(now[name], wishes[name], len(place))
            for name, place in regions.items()]
split = split_waste(holdings, memory.holes(), next_capacity=memory.rounded(12))
print(f"{split.total} slots: {split.used} used, {split.reserved} reserved, "
      f"{split.internal} internal, {split.external} external, {split.free} free")
print(f"a token in {split.utilization:.0%} of them")

# %% [markdown]
# The counting is this part of the package. A request that is there has filled `current` slots, will fill the rest up
# to `final`, and holds `capacity`. (Holes that are too small for the next request are added up below these lines.)

# %%
source(split_waste, lines=(4, 9))

# %% [markdown]
# ## Why buddies?
#
# Why would anybody round {{wishes["C"]}} up to {{len(regions["C"])}}? Because regions come and go, and the holes
# between them must become whole again. In a buddy system each region has one twin of its own size. When both are
# free they merge into one of twice the size, and that one looks for its twin. Watch the holes while the others leave:

# %%
print("holes:", memory.holes())
for name in ("D", "A", "C"):
    memory.free(regions[name])
    print(f"{name} leaves: ", memory.holes())

# %%
source(BuddyAllocator.rounded, BuddyAllocator.allocate)

# %% [markdown]
# To find a hole takes a walk over the sizes: about as many steps as the memory has doublings. That is quick. Still,
# remember it for the next chapter, where one step is enough, nothing is ever rounded to a power of two, and nothing
# ever needs to merge.

# %% [markdown]
# ## An hour of real traffic
#
# Toy numbers prove little. The package holds a recording of a chat service of Microsoft's Azure from 2023
# ([data and licence](../minipaged/sim/data/README.md)): for each request when it came, how many tokens went in and how
# many came out.

# %%
from dataclasses import replace
from minipaged.sim.traces import load_trace

recorded = load_trace("azure-conv")
for what in ("input_tokens", "output_tokens"):
    sizes = sorted(getattr(request, what) for request in recorded.requests)
    tenth, half, most = (sizes[len(sizes) * part // 10] for part in (1, 5, 9))
    print(f"{what:<13} one in ten below {tenth:>4,}, half below {half:>5,}, "
          f"one in ten above {most:>5,}")

# %% [markdown]
# Take the first {{len(trace)}} of them and let them all wait at the door, as in a rush hour. They are served by
# Llama-2-13B on a card with {{gpu.memory // 10**9}} GB. (Its texts end at {{LONGEST:,}} tokens; the few longer prompts
# are cut.) No model runs here. The scheduler and the memory are the course's own, and a cost model says how long each
# step takes. So minutes of serving pass in a moment, and every run gives the same numbers.

# %%
from minipaged.sim import metrics
from minipaged.sim.cost_model import Roofline
from minipaged.sim.experiments.common import full_window, mean_running
from minipaged.sim.hardware import card, served_model
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import simulate

gpu, model = card("a100-80g"), served_model("llama-2-13b")
block_size = 16
num_blocks = model.num_blocks(gpu, block_size)
num_slots = num_blocks * block_size
trace = recorded.first(400).map(lambda request: replace(
    request, arrival=0.0,
    input_tokens=min(request.input_tokens, LONGEST - request.output_tokens)))
print(f"{len(trace)} requests, {num_slots:,} slots")

# %%
results, shares, running = {}, {}, {}


def serve(name, memory, fit="buddy"):
    """Serve all; while others wait: where are the slots, how many are served at a time?"""
    settings = Serving(num_blocks, block_size, memory, fit, max_model_len=LONGEST,
                       enable_prefix_caching=False)
    results[name] = simulate(settings.scheduler(), Roofline(gpu, model, block_size), trace,
                             sample_every=0.5)
    start, end = full_window(results[name])
    shares[name] = metrics.memory_shares(results[name], start, end)
    running[name] = mean_running(results[name], start, end)

# %%
serve("longest", "max")
reveal("waste-longest", 100 * shares["longest"]["used"], "{:.1f} of 100 slots")

# %% [markdown]
# So three of four slots are empty while people wait. Where are they? Look at the widest band:

# %%
from minipaged.viz.figures.waste import waste_over_time, waste_stack

need = sorted(request.input_tokens + request.output_tokens for request in trace.requests)
half_need = need[len(need) // 2]
show(waste_over_time(results["longest"].memory,
                     title="Reserving the longest text: the memory over time"))

# %% [markdown]
# The widest band is *internal*: room that is held for tokens that will never come. That is not bad luck. It follows
# from the rule: everybody holds {{LONGEST:,}} slots, and half of these requests need fewer than {{half_need:,}}. The
# thin band at the top is *external*: {{num_slots:,}} slots are not a multiple of {{LONGEST:,}}, so a piece is always
# left over.

# %% [markdown]
# ## If only we knew
#
# An obvious thought: the trouble is that nobody knows how long an answer will be. Suppose that an oracle whispered the
# true length of every request to the server, and it reserved exactly that, rounded as the buddies want it.

# %%
predict("waste-oracle")

# %% [markdown]
# We let it run against two others: one that reserves the next power of two above the answer, which a clever guesser
# might reach, and the memory that the next chapter builds, in blocks of {{block_size}} slots.

# %%
serve("power of two", "pow2")
serve("true length", "oracle")
serve("blocks of 16", "paged")
reveal("waste-oracle", 100 * shares["true length"]["used"], "{:.1f} of 100 slots")
show(waste_stack(shares, title="Where the slots are while requests wait"))

# %% [markdown]
# Even the oracle leaves {{1 - shares["true length"]["used"]:.0%}} empty. Three things stand against it:
#
# - *Rounding*: {{shares["true length"]["internal"]:.0%}} are internal, because regions are powers of two.
# - *Time*: {{shares["true length"]["reserved"]:.0%}} are reserved. The room for the last token is taken when the first
#   one comes.
# - *Holes*: {{shares["true length"]["external"]:.0%}} are external. The pieces that are free don't fit together.
#
# Now look at the last bar. It knows nothing about the future. It takes a block of {{block_size}} slots when it needs
# one, wherever it may lie. {{shares["blocks of 16"]["used"]:.1%}} of the slots hold a token.

# %% [markdown]
# ### Was it the buddies' fault?
#
# A fair question: rounding to powers of two costs a lot. What if the regions have exactly the size that was asked for,
# each in the first hole that is wide enough?

# %%
serve("true length, first fit", "oracle", fit="first_fit")
kinds = ("used", "reserved", "internal", "external")
print(" " * 24 + "".join(f"{kind:>10}" for kind in kinds) + "  at a time  all served")
for name, share in shares.items():
    parts = "".join(f"{share[kind]:>10.1%}" for kind in kinds)
    print(f"{name:<24}{parts}{running[name]:>11.1f}{results[name].end:>10.0f} s")

# %% [markdown]
# The rounding is gone and the holes are worse: waste moved from one column to the next. As long as a request must lie
# in one piece, something is lost. And the last two columns say what it costs: blocks let
# {{running["blocks of 16"]:.0f}} readers in at a time where there were {{running["longest"]:.0f}}, on the same card,
# and the queue is gone in {{results["blocks of 16"].end:.0f}} s, not {{results["longest"].end:.0f}} s. (Why not in a
# quarter of the time? The card also has to read all those prompts, and no memory speeds that up.)

# %% [markdown]
# ## Break it
#
# Can a server with blocks waste memory like one without? Easily. The museum has a scheduler with blocks that asks, at
# the door, for the longest answer that a request may give. It is a real bug
# ([mini-sglang#97](https://github.com/sgl-project/mini-sglang/pull/97)), and a well-meant one. Two requests, A and B, a
# pool of {{pool.num_blocks}} blocks of {{pool.block_size}} slots:

# %%
from minipaged import museum
from minipaged.viz.figures.timeline import batching_gantt

piece = museum.piece("admits-for-max-tokens")
right, wrong = piece.right(), piece.wrong()
pool = right.events.select("pool")[0]
show(batching_gantt({"blocks when they are needed": right.events,
                     "room for the longest answer": wrong.events}))
print(piece.source)
steps = {"right": len(right.events.select("step")), "wrong": len(wrong.events.select("step"))}

# %% [markdown]
# In the lower run B stands at the door until A has ended, though most of the pool is free. In the upper one both run,
# and all is done in {{steps["right"]}} steps, not {{steps["wrong"]}}. But look closely: there A and B outgrow the pool
# together, and B steps aside for a while. That is the price of not reserving; chapter 09 pays it. The rule:
# *{{piece.rule}}*

# %% [markdown]
# ## Exercises
#
# Count the kinds of empty yourself, then see what a block leaves empty, and how many readers fit.

# %%
exercise_links("02_waste")

# %% [markdown]
# ## Explore
#
# A smaller memory, with other traffic and your choice of rule. Begin with the one that reserves the longest possible
# text. **Buy it twice the memory: is it used better now? Then go to blocks: at which block size are more than a
# fifth of the slots empty?**

# %%
from minipaged.viz.widgets.waste import waste_explorer

explorer = waste_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# With {{small:,}} slots {{by_pool[small]:.0%}} hold a token, with {{large:,}} slots {{by_pool[large]:.0%}}. A larger
# card is as empty as a small one, only larger. Blocks of {{too_large}} slots are the first to leave more than a fifth
# empty: a large block is a small reservation.
#
# </details>

# %% tags=["hidden"]
memory_control, size_control, pool_control, _ = explorer.controls
by_pool = {pool: explorer.at(memory="max", pool=pool).data["shares"]["used"]
           for pool in pool_control.values}
by_size = {size: explorer.at(block_size=size).data["shares"]["used"]
           for size in size_control.values}
small, large = 8192, 16384
too_large = next(size for size, used in by_size.items() if used < 0.8)

# %% [markdown]
# ## Recap
#
# 1. Before paging, a request lay in one piece, so room for the longest text was reserved for each.
# 2. A slot can be empty in four ways: reserved, internal, external, free. Only the last one helps anybody.
# 3. On real traffic most of the memory was empty while people waited; most of it was room that nobody ever used.
# 4. Knowing the future does not cure it: rounding, time and holes remain. The cure is to give up the one piece.
# 5. Empty slots are people at the door: several times as many can be served with blocks.

# %% [markdown]
# ## What vLLM does differently
#
# vLLM reserves nothing for an answer. At the start it takes all memory that is left for the cache, cuts it into blocks
# (`block_size`, 16 unless the attention kernel needs another size), and `KVCacheManager.allocate_slots` hands out what
# the next step needs. A new request is let in only if its whole prompt would fit (`scheduler_reserve_full_isl`, on by
# default). Even so, blocks are taken step by step. `max_model_len` is a limit, not a reservation; at the start
# vLLM only checks that one text of that length would fit.
# Reservation has not died out: in Hugging Face `transformers`, `StaticCache` still holds the longest text for each row,
# since compiled code likes fixed shapes. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("02_waste", oracle_empty=1 - shares["true length"]["used"],
     few=running["longest"], many=running["blocks of 16"])

# %% [markdown]
# ## Next
#
# The last bar of the figure used {{shares["blocks of 16"]["used"]:.1%}}, and it knew nothing. There is no trick in it
# that an operating system has not known for sixty years: cut the memory into equal pieces, and keep a list of which
# piece is where.
#
# **[03 · Blocks](03_blocks.ipynb)** builds it.
