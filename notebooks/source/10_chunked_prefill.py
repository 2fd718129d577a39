# %% [markdown]
# # 10 · Chunked prefill
#
# {{crowd}} readers watch their answers appear, a token every {{hero.usual:.0f}} ms. Then somebody pastes a report of
# {{report:,}} tokens. For {{hero.longest / 1000:.1f}} s, nobody sees anything. Each of them waits
# {{hero.longest / hero.usual:.0f}} times as long as for any token before.
#
# There is memory for all, and a seat for all. So why does one prompt stop everybody? And who pays if we don't let it?

# %% [markdown]
# **After this chapter you can**
#
# - plan a step in which prompts and answers share one budget of tokens;
# - explain why a prompt in pieces gives the same answer;
# - choose a budget, and say what it does to first words and to pauses.
#
# **Needs** [09 Preemption](09_preemption.ipynb) · **Time** 25 minutes · **Level** medium · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# A step ends for all of its requests at once. Those who write need one token each, and that is quick. But reading a
# prompt is work for each of its tokens. Put a long prompt into the same step, and all wait for it.
#
# The idea of this chapter: read the prompt in pieces. A step gets a **budget**, a number of tokens that it may
# compute. This is **chunked prefill** (分块预填充).

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("chunk-pause")

# %%
predict("chunk-price")

# %% [markdown]
# ## One budget for all
#
# Here is the whole idea in a few lines. For each request we know how many tokens it has, and how many of them are
# computed. The difference is what it lacks. Somebody who writes lacks one. A newcomer lacks its prompt. We go through
# them in order and give to each what the budget allows.

# %%
def plan_step(requests, budget):
    """How many tokens each request computes in this step; those who run stand first."""
    plan = {}
    for name, (tokens, computed) in requests.items():
        count = min(tokens - computed, budget)
        if count:
            plan[name], budget = count, budget - count
    return plan


requests = {"A": [5, 4], "B": [6, 5], "C": [30, 0], "D": [20, 0]}
for step in range(9):
    plan = plan_step(requests, budget=8)
    print(f"step {step}: {plan}")
    for name, count in plan.items():
        requests[name][1] += count
        if requests[name][1] == requests[name][0]:
            requests[name][0] += 1  # all of it is read, so a new token is sampled

# %% [markdown]
# Look at the columns. A and B get their token in every step. C gets what is left, {{left}} tokens a step, until its
# prompt is read. In the next step it is one more who writes, and D has begun. Nobody told our function what a prompt
# is. There is no phase for reading and none for writing. *Each request catches up with its length*, that is all.
#
# The engine does the same, with blocks:

# %%
from minipaged.core.scheduler import ContinuousBatchingScheduler

source(ContinuousBatchingScheduler._schedule_running, lines=(3, 9))

# %% tags=["hidden"]
left = 8 - 2

# %% [markdown]
# ## Watch it
#
# The same four in the engine, with the toy model of chapter 09. First whole prompts, then a budget of 8.

# %%
from minipaged.museum.stage import scene
from minipaged.viz.figures.timeline import chunk_interleaving


def four_requests(stage):
    stage.add("A", range(3), max_tokens=10)
    stage.add("B", range(50, 54), max_tokens=10)
    stage.step(2)
    stage.add("C", range(100, 130), max_tokens=4)
    stage.add("D", range(200, 220), max_tokens=3)
    stage.finish()


def play(budget, **options):
    return scene(40, max_num_batched_tokens=budget, enable_prefix_caching=False,
                 **options)(four_requests)()


runs = {"whole prompts": play(64, enable_chunked_prefill=False), "a budget of 8": play(8)}
show(chunk_interleaving({name: run.events for name, run in runs.items()}, budget=8))

# %% [markdown]
# In the upper half there is one tower. All that run in that step wait until the whole of it is computed. In the lower
# half the tower is laid on its side: no step goes above the line, and those who write, plain blue, are at the foot of
# each column.
#
# ### The same answer?
#
# A piece in the middle of a prompt must look at all that came before. Its keys and values lie in the blocks already,
# so it can. Each token of the toy model depends on all before it, and so a mistake would show:

# %%
said = {name: run.tokens for name, run in runs.items()}
said |= {f"a budget of {budget}": play(budget).tokens for budget in (5, 3)}
for name, answers in said.items():
    print(f"{name:<14} C says {answers['C']}, D says {answers['D']}")

# %% [markdown]
# The blocks know nothing of pieces. A piece may end in the middle of a block; the next one goes on there. That is what
# paging gives us for free: the memory of a half-read prompt is a block table like any other.
#
# ## How long is a step?
#
# To choose a budget, we must know what a token costs. Here is Llama-3.1-8B on an A100 with 80 GB, by the data sheet.
# First a step with tokens of prompts only:

# %%
from minipaged.sim.cost_model import Roofline, StepWork
from minipaged.sim.hardware import card, served_model
from minipaged.viz.figures.serving import rate_curves

gpu, model = card("a100-80g"), served_model("llama-3.1-8b")
cost = Roofline(gpu, model, 16)
counts = [16, *range(64, 1025, 64)]
step_ms = [1e3 * cost.step_seconds(StepWork(chunks=[(count, 0)])) for count in counts]
knee = gpu.flops / gpu.bandwidth
show(rate_curves({"one step": (counts, step_ms)}, x="tokens in the step", y="ms",
                 title="How long a step takes", log=False))

# %% [markdown]
# The line is flat, then it climbs. On the flat part the chip waits for the weights to come out of memory, and up to
# about {{knee:.0f}} tokens can be computed in that time. Below that, a larger step costs nothing. Above, each token
# costs the same. So a budget below {{knee:.0f}} wastes the card, and a larger one only makes steps longer. You will
# meet this bend again in chapter 13.
#
# ## Somebody pastes a report
#
# Now the scene of the first lines, on that card. Some readers are being served when a long prompt arrives. We
# measure both sides. For the newcomer it is the **time to first token** (首词元延迟). For the others it is the longest
# gap between two tokens.

# %%
from types import SimpleNamespace

from minipaged.sim import metrics
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import simulate
from minipaged.sim.workload import Trace, TraceRequest


def paste(budget, prompt, others):
    """A long prompt arrives while others write; budget None: it is read in one step. In ms."""
    requests = [TraceRequest(0.0, 32, 120)] * others + [TraceRequest(0.4, prompt, 40)]
    server = Serving(4096, max_num_batched_tokens=budget or 32768, max_num_seqs=64,
                     enable_chunked_prefill=budget is not None, enable_prefix_caching=False)
    result = simulate(server.scheduler(), cost, Trace("paste", tuple(requests)), sample_every=0)
    gaps = sorted(1e3 * metrics.inter_token_gaps(result))
    newcomer = result.records[-1]
    return SimpleNamespace(usual=gaps[len(gaps) // 2], longest=gaps[-1],
                           first=1e3 * (newcomer.first_token - newcomer.arrival))

# %%
crowd, report = 48, 16000
hero, tamed = paste(None, report, crowd), paste(512, report, crowd)
for name, one in {"whole prompt": hero, "pieces of 512": tamed}.items():
    print(f"{name:<14} the others: usually {one.usual:.1f} ms, at most {one.longest:>6.1f} ms; "
          f"the newcomer: {one.first:,.0f} ms")

# %% [markdown]
# The longest pause went from {{hero.longest:,.0f}} ms to {{tamed.longest:.0f}} ms. And the newcomer waits
# {{tamed.first / hero.first - 1:.0%}} longer. Now the case of your guess, with a shorter prompt:

# %%
whole, pieces = paste(None, 4000, 16), paste(512, 4000, 16)
reveal("chunk-pause", pieces.longest, "{:.0f} ms")
reveal("chunk-price", 100 * (pieces.first / whole.first - 1), "{:.0f} %")

# %% [markdown]
# A good trade: {{whole.longest / pieces.longest:.1f}} times less for {{pieces.first / whole.first - 1:.0%}} more. Why
# not go on, to ever smaller pieces?

# %%
print("budget   longest pause   first token of the newcomer")
table = {budget: paste(budget, 4000, 16) for budget in (64, 128, 256, 512, 1024, 2048)}
for budget, one in table.items():
    print(f"{budget:>6}{one.longest:>13.0f} ms{one.first:>16.0f} ms")

# %% [markdown]
# Down to {{edge}} each halving halves the pause, and the newcomer hardly notices. Below that the pause can't shrink,
# since a step never takes less than reading the weights. But the newcomer needs more and more such steps. And the
# others eat from the same budget: with 64, they take 16 and leave her 48.
#
# ## An hour of chats
#
# One pasted prompt is a story. Here is every fiftieth chat of the hour that you know, at ten a second.

# %% tags=["hidden"]
edge = min(budget for budget, one in table.items() if one.first < 1.1 * whole.first)

# %%
from minipaged.sim.experiments.common import serve
from minipaged.sim.traces import load_trace

trace = load_trace("azure-conv").every(50).at_rate(10.0)
hour = {}
for budget in (128, 512, 2048, None):
    settings = Serving(model.num_blocks(gpu), max_num_batched_tokens=budget or 8192,
                       enable_chunked_prefill=budget is not None, max_num_seqs=128,
                       enable_prefix_caching=False)
    hour[budget] = serve(trace, settings, (gpu, model), sample_every=0)
gaps = {f"budget {budget:,}" if budget else "whole prompts": 1e3 * metrics.inter_token_gaps(one)
        for budget, one in hour.items()}

# %%
from minipaged.viz.figures.serving import latency_percentiles

show(latency_percentiles(gaps, "time between two tokens", "ms", log=True))

# %%
first = {budget: 1e3 * metrics.spread(metrics.ttft(one))["p50"] for budget, one in hour.items()}
pause = {budget: 1e3 * float(metrics.inter_token_gaps(one).max())
         for budget, one in hour.items()}
print("budget   first token (p50)   longest pause   all done after")
for budget, one in hour.items():
    print(f"{budget or 'whole':>6}{first[budget]:>17,.0f} ms{pause[budget]:>13.0f} ms"
          f"{one.end:>15.1f} s")

# %% [markdown]
# Read it from below. With whole prompts half of the first words come within {{first[None]:.0f}} ms, and now and
# then all stand still for {{pause[None]:.0f}} ms. Smaller budgets cut the pauses, and first words come later. At
# 128 the server can't keep up with the prompts any more, and the line grows. The total time is the same for all. A
# budget doesn't make the card faster; it decides who waits. **Latency** (延迟) has two sides, and one knob moves
# them in opposite directions.
#
# Look at p90, too. There the largest budget is worse than whole prompts: it cuts one tall pause into several middle
# ones. The idea is from [Sarathi](https://arxiv.org/abs/2308.16369) and
# [Sarathi-Serve](https://arxiv.org/abs/2403.02310), which calls the tall ones *generation stalls*.
#
# ### A constant batch, again
#
# A text that you met in chapter 09 wants the same number of requests in each step. Now you can say what it is after:
# steps of the same *length*. With whole prompts the longest step took {{longest_step[None]:.0f}} ms. With a budget of
# 512 none took more than {{longest_step[512]:.0f}} ms, whether three requests were in it or {{most_running}}. It is
# tokens that should be bounded, not heads.

# %% tags=["hidden"]
longest_step = {budget: 1e3 * max(one.steps.seconds) for budget, one in hour.items()}
most_running = max(hour[512].steps.running)

# %% [markdown]
# ## One prompt, all of the budget
#
# A question is still open. A long prompt takes all that is left of each step. What about the short prompts behind it?
# Blocks of 4, a budget of 20, and four newcomers at once:

# %%
from minipaged.core import EventLog, KVCacheManager, Request, SamplingParams


def first_words(limit):
    events = EventLog()
    kv = KVCacheManager(100, 4, events=events, enable_prefix_caching=False)
    scheduler = ContinuousBatchingScheduler(kv, max_num_batched_tokens=20, events=events,
                                            long_prefill_token_threshold=limit)
    for name, tokens in {"long": 200, "A": 10, "B": 6, "C": 8}.items():
        scheduler.add_request(Request(name, [1] * tokens, SamplingParams(max_tokens=4)))
    while scheduler.has_unfinished:
        scheduler.step(lambda plan: {one.request_id: 7 for one in plan.scheduled if one.sample})
    seen = {}
    for event in events.select("commit"):
        for name in event.tokens:
            seen.setdefault(name, event.step + 1)
    return seen

# %%
unlimited, limited = first_words(0), first_words(8)
print("first words without a limit:   in step", unlimited)
print("first words, pieces of 8:      in step", limited)

# %% [markdown]
# Without a limit A, B and C stand behind the long one until it is read. With a limit on each piece they slip by, and
# it takes {{limited["long"] / unlimited["long"]:.1f}} times as long. The same trade, once more.
#
# ## Break it
#
# Running requests come first. That is one line in the scheduler, and easy to get wrong:

# %%
from minipaged import museum

exhibit = museum.exhibit("prompts-before-decodes")
print(exhibit)

# %% [markdown]
# Pick a letter. In the film, look at A and B while the long prompt is read.

# %%
exhibit.film()

# %%
piece = museum.piece("prompts-before-decodes")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# The pieces are there and do no good: they take the budget that those who write live on. A second way to break it is
# admission. A prompt starts with a small piece, so why not ask for the blocks of that piece alone?

# %%
half_way = museum.piece("admits-for-one-chunk")
print("right:        ", half_way.right().facts)
print("with the bug: ", half_way.wrong().facts)
print("rule:", half_way.rule)

# %% [markdown]
# ## Exercises
#
# Cut a prompt, plan a step for all, and measure both sides of a piece.

# %%
exercise_links("10_chunked_prefill")

# %% [markdown]
# ## Explore
#
# The same scene with sliders. **Which budget keeps the longest pause below twice the usual gap, and costs the newcomer
# less than a tenth more than a whole prompt? Is it still the right one with 48 others?**

# %%
from minipaged.viz.widgets.chunk import chunk_explorer

explorer = chunk_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# With 16 others it is {{good[16][0]}} tokens. With 48 others there is {{good[48] or "none"}}: they take a large part
# of a small budget, and the newcomer gets the crumbs. A budget belongs to a load. If the load doubles, the budget is
# worth a second look.
#
# </details>

# %% tags=["hidden"]
def keeps_both(budget, others):
    now, at_once = (explorer.at(budget=one, others=others).data for one in (budget, 0))
    return (now["longest_gap_ms"] < 2 * now["usual_gap_ms"]
            and now["first_token_ms"] < 1.1 * at_once["first_token_ms"])


budgets = [budget for budget in explorer.controls[0].values if budget]
good = {others: [budget for budget in budgets if keeps_both(budget, others)]
        for others in (16, 48)}

# %% [markdown]
# ## Recap
#
# 1. A step ends for all at once, so one long prompt stops everybody.
# 2. One budget of tokens a step: who writes takes one each, prompts take the rest, in pieces.
# 3. Pieces change no answer: each sees all that came before it, in the blocks.
# 4. A smaller budget means shorter pauses and later first words. Below the bend it only wastes the card.
# 5. A limit on each piece lets short prompts slip past a long one.

# %% [markdown]
# ## What vLLM does differently
#
# Here it does the same, and we took it from there. A comment in `Scheduler.schedule` says that there is no decoding
# phase and no prefill phase; requests catch up with `num_tokens`. `enable_chunked_prefill` is on by default, the
# budget is `max_num_batched_tokens`, the limit on a piece `long_prefill_token_threshold`, 0 for none. vLLM lifts that
# limit while a request is alone, and `long_prefill_token_threshold_adaptive` keeps it at a fair share of the budget or
# above. Without chunks, vLLM refuses to start if the budget is below `max_model_len`; we refuse the prompts that don't
# fit. `scheduler_reserve_full_isl` asks for the blocks of the whole prompt at admission. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("10_chunked_prefill", knee=knee, whole=pause[None], small=pause[512],
     whole_first=first[None], small_first=first[512])

# %% [markdown]
# ## Next
#
# You have all the parts now: blocks, tables, a cache of prefixes, a scheduler with a budget. So far a toy stood in for
# the model.
#
# **[11 · The engine](11_engine.ipynb)** puts a real one in, and compares every word.
