# %% [markdown]
# # 09 · When memory runs out
#
# A server is busy for {{thrash.end:.0f}} s. Of a hundred tokens that it computes, {{100 * thrash_share:.0f}} are
# tokens that it has computed before and thrown away. It never stands still, and it gets almost nothing done.
#
# Blocks must be taken from somebody when there are none left. From whom? What happens to what was in them? And how do
# you keep it from coming to this?

# %% [markdown]
# **After this chapter you can**
#
# - follow a request that loses its memory, and show that its answer stays the same;
# - compare saving with computing again, in milliseconds;
# - measure three well-known rules of thumb, and find out which of them hold.
#
# **Needs** [08 Scheduling](08_scheduling.ipynb) · **Time** 30 minutes · **Level** medium · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# Your desk is full, and you need room for one more sheet. You can carry a pile of papers to the cellar and fetch
# it later. Or you can throw the pile away, if you know how to write it again. The first is **swap** (换出): blocks
# move to the memory of the CPU. The second is **recompute** (重算).

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("preempt-cost")

# %% [markdown]
# Somebody else's pile must go, then. That request is the **victim** (牺牲者). A text on the web has a rule for it:
# take the one with the longest answer so far, since it is the least likely to end soon.

# %%
predict("preempt-long")

# %% [markdown]
# ## Two requests, four blocks
#
# A and B have a prompt of {{prompt}} tokens each, two blocks of four slots. The pool has four blocks. Both want to say
# {{answer}} tokens. A toy model runs with them, and each of its words depends on all the words before. So if a single
# key or value were lost, the answer would change.

# %%
from minipaged.museum.stage import scene

prompt, answer = 7, 6


def two_requests(stage):
    stage.add("A", range(prompt), max_tokens=answer)
    stage.add("B", range(50, 50 + prompt), max_tokens=answer)
    stage.finish()


def play(blocks, **options):
    return scene(blocks, enable_prefix_caching=False, **options)(two_requests)()


runs = {"room for all": play(20), "recompute": play(4),
        "swap": play(4, preemption_mode="swap", num_cpu_blocks=4)}
for way, run in runs.items():
    print(f"{way:<13} A {run.tokens['A']}  B {run.tokens['B']}")

# %% [markdown]
# Three times the same words. Yet in the second and third run B was thrown out in the middle. This is the heart of
# **preemption** (抢占): *a reader may notice a pause, and never another word.* Look at where it happens:

# %%
from minipaged.viz.figures.timeline import batching_gantt

show(batching_gantt({way: run.events for way, run in runs.items()}))

# %% [markdown]
# In the film both ways stand side by side. It opens at the preemption; go a few events back with ←, then on with →.
# Watch B's blocks. On the left they go back to the free queue, and nothing is kept. On the right they are copied to
# the host first.

# %%
from minipaged.viz import Film

moment = runs["recompute"].events.select("preempt")[0]
Film(runs["recompute"].events, compare=runs["swap"].events, labels=("recompute", "swap"),
     title="A needs a block, and B gives way", start=moment.time, select="B")

# %% [markdown]
# When B comes back in the left run, it has {{back.data["scheduled"]["B"][1]}} tokens to compute in one step: its
# prompt and what it has said. They are known, so all of them go through the model together, like a prompt. A request
# only knows how many of its tokens are computed. This is all that it takes to forget:

# %%
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.scheduler import ContinuousBatchingScheduler

source(BaseScheduler._drop_memory)

# %% tags=["hidden"]
back = next(event for event in runs["recompute"].events.select("step")
            if event.time > moment.time and "B" in event.data["scheduled"])

# %% [markdown]
# ## Save it, or compute it again?
#
# Take the server of the [PagedAttention paper](https://arxiv.org/abs/2309.06180): OPT-13B on an A100 with 40 GB. A
# swap sends each block over the link to the host, out and in. To compute again takes arithmetic, which grows with the
# tokens. But a step reads all weights anyway, for the others. So the first tokens are free.

# %%
from minipaged.sim.cost_model import Roofline, StepWork
from minipaged.sim.experiments import common
from minipaged.sim.experiments.common import PAPER_SLOTS, SHAREGPT

gpu, model = common.paper_machine()
cost = Roofline(gpu, model, 16)


def recompute_ms(tokens):
    alone = cost.step_seconds(StepWork(num_decodes=1, decode_kv=tokens))
    return 1e3 * (cost.step_seconds(StepWork(chunks=[(tokens, 0)])) - alone)


def swap_ms(tokens):
    return 1e3 * cost.step_seconds(StepWork(swap_blocks=2 * -(-tokens // 16)))


reveal("preempt-cost", recompute_ms(512) / swap_ms(512), "{:.2f} times")

# %%
from minipaged.viz.figures.serving import rate_curves

sizes = list(range(64, 2049, 64))
show(rate_curves({"compute again": (sizes, [recompute_ms(size) for size in sizes]),
                  "swap out and in": (sizes, [swap_ms(size) for size in sizes])},
                 x="tokens of the victim", y="ms", log=False,
                 title="What one preemption costs"))

# %% [markdown]
# Look at where the curves cross. A short victim is cheaper to compute again, a long one to save. For a model with few
# KV heads the blocks are small, and saving wins sooner. With small blocks each copy also has a price of its own, which
# this picture leaves out. The paper finds both ways alike for blocks of 16 to 64.
#
# ## Under load
#
# Now {{len(trace)}} requests stand at the door of that server at once. Their lengths are drawn from recorded chats.
# Its pool has {{num_blocks}} blocks.

# %%
from minipaged.sim.serving import Serving

trace, num_blocks = common.workload(SHAREGPT, 150), PAPER_SLOTS // 16


def overloaded(**options):
    settings = Serving(num_blocks, 16, enable_prefix_caching=False, max_model_len=2048,
                       **options)
    return common.serve(trace, settings, (gpu, model), sample_every=0)


def again(result):
    return result.counts.lost_tokens / result.counts.computed_tokens


swapping = {"preemption": "swap", "num_cpu_blocks": 2000}
busy, saved = overloaded(), overloaded(**swapping)
for way, one in {"recompute": busy, "swap": saved}.items():
    print(f"{way:<10}{one.counts.preemptions:>4} preemptions, {again(one):.0%} computed again, "
          f"{one.counts.swapped_blocks:>5,} blocks moved, all done after {one.end:.1f} s")

# %% [markdown]
# A third of the work is done twice, and it costs {{busy.end / saved.end - 1:.0%}} of the time. How can that be? A step
# of this server is mostly waiting for weights to arrive from memory. Known tokens fill that time with arithmetic. A
# few preemptions are no disaster, then.
#
# ## Who has to go?
#
# The engine has three rules. Each sees the running requests, oldest seat first.

# %%
from minipaged.core.policy import lowest_priority, most_generated, newest

source(newest, most_generated, lowest_priority)

# %% [markdown]
# ### Claim 1: the longest answer so far is the least likely to end soon
#
# That is the reason that the text gives for `most_generated`. We can look. Of all answers that have n tokens, what
# part ends within the next 50? If the claim holds, the curve falls. Here it is for two recordings, of Azure's chats
# and of [Mooncake](https://arxiv.org/abs/2407.00079)'s:

# %%
from minipaged.sim.traces import load_trace

SOON = 50


def ending_soon(answers, said):
    left = [tokens - said for tokens in answers if tokens > said]
    return sum(more <= SOON for more in left) / len(left)


chats = {name: [request.output_tokens for request in load_trace(key).requests]
         for name, key in {"Azure": "azure-conv", "Mooncake": "mooncake-conv"}.items()}
said = range(0, 601, 50)
share = {name: [ending_soon(answers, tokens) for tokens in said]
         for name, answers in chats.items()}
reveal("preempt-long", 100 * ending_soon(chats["Azure"], 400), "{:.0f} of 100")
show(rate_curves({name: (list(said), shares) for name, shares in share.items()},
                 x="tokens said so far", y=f"part that ends within {SOON} more",
                 title="Who ends soon?", log=False))

# %% [markdown]
# In both, the far end lies higher than the start. In between the curves go their own ways: near {{dip}} tokens almost
# none of Azure's answers ends. Answers have a usual length, and who has reached it is about to stop. So this rule
# often takes the memory of the one who would have given it back anyway. What does that do to the run?

# %%
longest = overloaded(victim="most_generated")
for rule, one in {"newest": busy, "most generated": longest}.items():
    lost = one.counts.lost_tokens / one.counts.preemptions
    print(f"{rule:<15}{one.counts.preemptions:>4} preemptions, {lost:>4.0f} tokens lost in "
          f"each, {again(one):.0%} computed again, done after {one.end:.1f} s")

# %% [markdown]
# Fewer victims, for a long one gives more blocks. But each loses {{lost_ratio:.1f}} times as much, and in the end more
# is lost. It is not a terrible rule. It is a rule whose reason does not hold here.
#
# ### Claim 2: its swap is cheap beside its run time
#
# The text swaps that victim out, and calls it cheap. A request that has said {{said_tokens}} tokens:

# %% tags=["hidden"]
dip = min(said, key=lambda tokens: ending_soon(chats["Azure"], tokens))
lost_ratio = (longest.counts.lost_tokens / longest.counts.preemptions
              / (busy.counts.lost_tokens / busy.counts.preemptions))

# %%
said_tokens = 512
steps = busy.steps
step_ms = 1e3 * sum(steps.seconds) / len(steps)
others = sum(steps.running) / len(steps) - 1
own = swap_ms(said_tokens) / (said_tokens * step_ms)
print(f"its run so far  {said_tokens * step_ms / 1e3:6.1f} s")
print(f"its swap        {swap_ms(said_tokens) / 1e3:6.3f} s, {own:.1%} of that")
print(f"a step          {step_ms / 1e3:6.3f} s")

# %% [markdown]
# Beside its own run it is nothing: the claim holds. But it is not the one who waits. The copies are part of a step, so
# the {{others:.0f}} others stand still for {{swap_ms(said_tokens):.0f}} ms, as long as a whole step. The right
# question is not how the cost compares with the victim's time. It is how it compares with the other ways to get a
# block. And of all victims, the one with the most tokens is the dearest.
#
# ### Claim 3: a constant batch size is best
#
# The text wants to keep the number of running requests constant. Which number, then? We try some.

# %%
batch = {seats: overloaded(max_num_seqs=seats) for seats in (8, 16, 24, 32)}
print("at a time   preemptions   all done after")
for seats, one in batch.items():
    print(f"{seats:>9}{one.counts.preemptions:>14}{one.end:>15.1f} s")
full = [running for running, waiting in zip(steps.running, steps.waiting) if waiting]
print(f"by memory{busy.counts.preemptions:>14}{busy.end:>15.1f} s"
      f"   ({min(full)} to {max(full)} at a time while others wait)")

# %% [markdown]
# The more the better, until memory is full. {{safe}} at a time never preempts, and takes {{batch[safe].end:.0f}} s.
# Leaving it to memory takes {{busy.end:.0f}} s: many at a time while texts are short, fewer when they have grown. No
# constant can do both. What the text wants is a step of constant *length*, and chapter 10 shows how to get it.

# %% tags=["hidden"]
safe = max(seats for seats, one in batch.items() if not one.counts.preemptions)

# %% [markdown]
# ## Thrash
#
# So far preemption was cheap, since most victims stay out for long. Now take turns (chapter 08): {{thrash_seats}}
# seats, and a turn lasts four steps. Whoever waits keeps its blocks, if there are blocks. There are not. So at each
# turn somebody comes back, and takes the blocks of another one who will be back soon:

# %%
thrash_seats = 24
print("turn of   preemptions   computed again   all done after")
for quantum in (64, 16, 4):
    thrash = overloaded(policy="round_robin", quantum=quantum, max_num_seqs=thrash_seats)
    print(f"{quantum:>7}{thrash.counts.preemptions:>14,}{again(thrash):>17.1%}"
          f"{thrash.end:>15.0f} s")
thrash_share = again(thrash)
print(f"without turns{batch[24].counts.preemptions:>8,}{again(batch[24]):>17.1%}"
      f"{batch[24].end:>15.0f} s")

# %% [markdown]
# This is **thrashing** (抖动). Operating systems met it in [the 1960s](https://doi.org/10.1145/1476589.1476705),
# when programs pushed each other's pages out. The cure is the same: let fewer in. One way is a **watermark**:
# admission leaves a part of the pool free, so that those who run have room to grow.

# %%
print("kept free   preemptions   computed again   all done after")
for part in (0.0, 0.01, 0.05, 0.1):
    one = busy if part == 0 else overloaded(watermark=part)
    print(f"{part:>9.0%}{one.counts.preemptions:>14}{again(one):>17.0%}{one.end:>15.1f} s")

# %% [markdown]
# A little room at the top removes most of the double work. Too much of it leaves memory idle, and the time goes up
# again.
#
# ## The patient, part two
#
# In chapter 08 you repaired half of a scheduler. The other half is what it does when memory runs out. In our words,
# with one block for each request:

# %%
said_by = {"A": 5, "B": 3, "C": 4, "D": 2}
running, served = list(said_by), []


def preempt_request(request):
    victim = max(running, key=said_by.get)
    running.remove(victim)
    print(f"{request} needs a block; {victim} is swapped out")


for job in running:
    if job == "B":  # it finds no free block
        preempt_request(job)
        continue
    served.append(job)
print("served:", served, " still running:", running)

# %% [markdown]
# Four requests, and so much goes wrong in one step. Go through it:
#
# - C was never served. The list moved up by one while the loop walked on, so C was passed over.
# - A was served, and lost its memory in the same step. What it computed is gone.
# - B asked, a block came free, and B did not get it.
# - `preempt_request` ignores its argument. Who called can't know who has gone. It may even be B itself.
#
# The engine keeps count instead of walking along a list that changes. Whoever stands before place `len(scheduled)` is
# served. It asks again until there is a block, or until the asker itself has gone. And a victim leaves the plan:

# %%
source(ContinuousBatchingScheduler._schedule_running, lines=(2, 16))

# %% [markdown]
# Two more faults are in the swap itself: shared blocks are copied and freed as if one request owned them. The museum
# shows what the other holder thinks of that:

# %%
from minipaged import museum

shared = museum.piece("shared-freed-as-if-owned")
print(shared.source)
for fault in shared.wrong().faults:
    print(f"step {fault.step}: {fault.text}")

# %% [markdown]
# ## Break it
#
# And the last one. B is swapped out, as it should be. Then this happens:

# %%
exhibit = museum.exhibit("swapped-never-returns")
print(exhibit)

# %% [markdown]
# Pick a letter. In the film, look at the end of the run with the bug: nobody runs, the memory is empty, and B waits.

# %%
exhibit.film()

# %%
piece = museum.piece("swapped-never-returns")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# A door needs two sides. In the text a request goes out, and no line brings it in. In the engine a swapped request
# stands first in the waiting line, and comes back before anybody new is let in.
#
# ## Exercises
#
# Choose the victim, make room, count the cost, and bring a request back so that nobody notices.

# %%
exercise_links("09_preemption")

# %% [markdown]
# ## Explore
#
# Eight requests and a pool that you can shrink. **From which pool on is there no preemption? At a pool of 120, which
# of the two changes helps more: swap in place of recompute, or another victim?**

# %%
from minipaged.viz.widgets.preemption import preemption_explorer

explorer = preemption_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# {{roomy}} blocks are the first that are enough. With {{small}} blocks it takes {{at_small["recompute"]:.2f}} s. Swap
# makes it {{at_small["swap"]:.2f}} s. Another victim, the one with the most tokens, makes it
# {{at_small["most_generated"]:.2f}} s: worse. Now try a pool of 180. There the same victim is the better one. With
# eight requests chance decides much, so measure on many before you believe in a rule.
#
# </details>

# %% tags=["hidden"]
pools, small = explorer.controls[0].values, 120
roomy = next(pool for pool in pools if explorer.at(pool=pool).data["preemptions"] == 0)
at_small = {name: explorer.at(pool=small, **change).data["seconds"] for name, change in
            {"recompute": {}, "swap": {"mode": "swap"},
             "most_generated": {"victim": "most_generated"}}.items()}

# %% [markdown]
# ## Recap
#
# 1. Preemption takes a request's blocks, never its words. Its reader sees a pause and the same answer.
# 2. Swap costs bytes over a link, recompute costs arithmetic; on the paper's server they are alike at {{said_tokens}} tokens.
# 3. The newest gives way, so that the oldest always gets on. Long answers are often near their end.
# 4. The price of a swap is paid by all who run, not by the one who goes.
# 5. Thrash comes from letting too many in. Leave some room, and do not take turns without memory.

# %% [markdown]
# ## What vLLM does differently
#
# It only recomputes. `Scheduler._preempt_request` in `vllm/v1/core/sched/scheduler.py` frees the blocks, sets
# `num_computed_tokens` to 0 and the status to `PREEMPTED`, and `prepend_request` puts it first in line. The victim is
# `self.running[-1]`, the newest; under the priority policy it is the one with the largest `(priority, arrival_time)`.
# Its prefix cache softens the blow: a victim's full blocks can still be found until somebody overwrites them.
# Swapping, with `swap_space` and `PreemptionMode.SWAP`, belonged to the older engine, V0. Today `kv_offloading_size`
# keeps cached blocks in CPU memory, for prefix hits. Its `watermark` is 0 unless you set it. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("09_preemption", swapped=saved.counts.swapped_blocks, run=saved.end, share=thrash_share,
     stall=saved.counts.swapped_blocks * model.shape.block_bytes(16) / gpu.host_link)

# %% [markdown]
# ## Next
#
# One thing still makes everybody wait, with all the memory in the world: a newcomer with a very long prompt. While it
# is read, nobody gets a word.
#
# **[10 · Chunked prefill](10_chunked_prefill.ipynb)** cuts it into pieces.
