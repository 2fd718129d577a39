# %% [markdown]
# # 07 · Continuous batching
#
# D wants an answer of {{lengths["D"]}} tokens. After step {{lengths["D"]}} it is there. But D's seat stays taken for
# {{static_steps - lengths["D"]}} steps more, because C, in the same batch, is still writing. E stands at the door all
# the time and looks at the empty chair.
#
# That was the usual way to serve until 2022. Which single rule do we have to change, and what does it change?

# %% [markdown]
# **After this chapter you can**
#
# - say how much of a batch is idle, from the lengths alone;
# - tell step by step who joins, who leaves and why;
# - explain why the engine knows neither prefill nor decode.
#
# **Needs** [03 Blocks](03_blocks.ipynb) · **Time** 25 minutes · **Level** easy · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# Take a pencil for the first one. The second one is about what comes later in this chapter.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("batch-used")
predict("batch-steps")

# %% [markdown]
# ## Why together?
#
# To make one token, a GPU must read all weights of the model. It is like driving a bus through the town: the trip takes
# as long with one passenger as with sixty. Here is how long one step takes, by the data sheet of an A100, for
# Llama-3.1-8B and texts of 500 tokens:

# %%
from minipaged.sim.cost_model import StepWork
from minipaged.viz.widgets.runs import machine

rows = 64
for passengers in (1, 4, 16, rows):
    work = StepWork(num_decodes=passengers, decode_kv=500 * passengers, num_sampled=passengers)
    seconds = machine(16).step_seconds(work)
    print(f"{passengers:>2} in one step: {1000 * seconds:4.1f} ms, "
          f"{passengers / seconds:7,.0f} tokens a second")

# %% [markdown]
# So the requests that one step serves, the **batch** (批次), should be large. All of them together make the
# **throughput** (吞吐量), the tokens a second. An empty seat in the bus is a token that nobody gets.
#
# ## The bus that waits
#
# The direct way is **static batching** (静态批处理). Fill the bus, drive until the last passenger is at home, come
# back, and fill it again. Four requests start together:

# %%
lengths = {"A": 100, "B": 50, "C": 200, "D": 30}
seats = len(lengths)
static_steps = max(lengths.values())
used = sum(lengths.values()) / (seats * static_steps)
for name, tokens in lengths.items():
    print(name, "#" * (tokens // 5) + "." * ((static_steps - tokens) // 5))
print(f"{sum(lengths.values())} tokens in {seats} x {static_steps} places: {used:.1%}")
reveal("batch-used", 100 * used, "{:.1f} of 100")

# %% [markdown]
# A text on the web says 30%. Take its own numbers: (100 + 50 + 200 + 30) / (4 × 200) is {{used:.1%}}. Its chart draws
# the bar of A as long as that of C, though A has half as many tokens. A bar is easily drawn too long; so here each
# picture is made from the run.
#
# The engine can do it too. This is its whole step: whoever runs gets a token. A new batch starts only when nobody runs.

# %%
from minipaged.core import StaticBatchingScheduler

source(StaticBatchingScheduler._plan_step, StaticBatchingScheduler._free)

# %% [markdown]
# Look at `_free`. Who is done becomes an idle row. Its memory comes back when the whole batch ends. And remember
# chapter 02: each row has reserved room for the longest one.
#
# ## The bus that never stops
#
# Now the one rule. **Ask at every step, not at every batch, who may sit down.** Who is done leaves at once; who waits
# takes the seat in the next step. That is **continuous batching** (连续批处理), from the
# [Orca paper](https://www.usenix.org/conference/osdi22/presentation/yu) of 2022. As a loop it is hardly longer:

# %%
from collections import deque


def continuous(lengths, seats):
    """Yield, for each step, the tokens that each running request then has."""
    waiting, running = deque(lengths), {}
    while waiting or running:
        while waiting and len(running) < seats:
            running[waiting.popleft()] = 0  # sits down
        for name in running:
            running[name] += 1
        yield dict(running)
        for name in [one for one in running if running[one] == lengths[one]]:
            del running[name]  # leaves before the next step


queue = {**lengths, "E": 120, "F": 80, "G": 60}
by_hand = list(continuous(queue, seats))
reveal("batch-steps", len(by_hand), "{} steps")

# %% [markdown]
# Seven requests in {{len(by_hand)}} steps, as many as C alone takes. In static batches it would be
# {{static_steps + queue["E"]}}.
#
# ## The same in the engine
#
# Our loop has no memory, no prompts and no model. The **scheduler** (调度器) of the engine has. Each request comes with
# a prompt of one token. It has {{seats}} seats, and the first who comes is the first served.

# %%
from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog


def serve(kind, **options):
    """Serve the seven; the log, and the tokens of who ran, step by step, counted from 1."""
    log, steps = EventLog(), {}
    engine = kind(KVCacheManager(56, 16, events=log), max_num_seqs=seats, events=log, **options)
    for number, (name, count) in enumerate(queue.items()):
        engine.add_request(Request(name, [number], SamplingParams(max_tokens=count)))
    everybody = dict(engine.requests)
    while engine.has_unfinished:
        plan = engine.schedule()
        engine.commit(plan, {one.request_id: 7 for one in plan.scheduled})
        steps[len(steps) + 1] = {one.request_id: everybody[one.request_id].num_output_tokens
                                 for one in plan.scheduled}
    return log, steps

# %%
events, steps = serve(ContinuousBatchingScheduler)
print("step   " + "".join(f"{name:>5}" for name in queue))
for step in (1, 30, 31, 50, 51, 100, 101):
    print(f"{step:>4}   " + "".join(f"{steps[step].get(name, ''):>5}" for name in queue))
print("as our loop says, in all", len(steps), "steps:", list(steps.values()) == by_hand)

# %% [markdown]
# Read it line by line. D makes its last token in step 30, and E its first one in step 31. B ends in step 50, when E has
# {{steps[50]["E"]}}, and F comes. A ends in step 100, when E has {{steps[100]["E"]}} and F {{steps[100]["F"]}}, and G
# comes. There is no step in which a seat is empty while somebody waits.
#
# The text on the web has this very table, and it is right. It also says that its scheduler takes turns, *round-robin*.
# Then the table would be another one. Try it, with turns of 16 steps:

# %%
_, turns = serve(ContinuousBatchingScheduler, scheduling_policy="round_robin", quantum=16)
for step in (30, 31, 50):
    print(f"step {step}: first come {steps[step]}, in turns {turns[step]}")

# %% [markdown]
# In turns, D has not ended in step 30. So the table belongs to *first come, first served*. Both are good ways to
# serve; chapter 08 compares them.
#
# Below is where somebody sits down in the engine. It is the same `while` as in our loop, with one condition more. The
# budget of tokens is for chapter 10.

# %%
source(ContinuousBatchingScheduler._admit_waiting, lines=(1, 4))

# %% [markdown]
# ## See both
#
# In the picture, look for the pale parts. In the upper half the seats of A, B and D are kept, idle, until C
# ends. In the lower half each bar begins where another one ended.

# %%
from minipaged.viz.figures.timeline import batching_gantt

static_events, static_table = serve(StaticBatchingScheduler)
show(batching_gantt({"static": static_events, "continuous": events}, first_step=1))

# %% [markdown]
# The film has both runs side by side, event by event. On the left it opens when D has ended. D's blocks stay where they
# are, and most of all blocks are held for tokens that have not come. On the right E sits where D was.

# %%
from minipaged.viz import Film

done = static_events.select("finish", request="D")[0]
Film(static_events, compare=events, labels=("static", "continuous"),
     start=done.time, select="E")

# %% [markdown]
# Who gains, and how much? Add up what each request waits:

# %%
def ends(table):
    """The step in which each request makes its last token."""
    return {name: max(step for step, row in table.items() if name in row) for name in queue}


for label, table in (("static", static_table), ("continuous", steps)):
    last = ends(table)
    print(f"{label:<11}", " ".join(f"{name} {step:>3}" for name, step in last.items()),
          f"  mean {sum(last.values()) / len(last):.0f}")

# %% [markdown]
# A to D end when they did before. E, F and G end {{static_end["E"] - last["E"]}}, {{static_end["F"] - last["F"]}} and
# {{static_end["G"] - last["G"]}} steps earlier. Nobody pays for it. That is rare, and the reason why each server today
# works like this.

# %% tags=["hidden"]
static_end = ends(static_table)

# %% [markdown]
# ## Two words that the engine does not know
#
# A request begins with its prompt: many tokens at once, the **prefill** (预填充). Then it makes one token a step, the
# **decode** (解码). Does a newcomer with a long prompt have to wait until the others pause? No. Let A write for three
# steps. Then B comes, with six tokens.

# %%
log = EventLog()
small = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=log), events=log)
small.add_request(Request("A", [1, 2, 3, 4, 5], SamplingParams(max_tokens=9)))
for _ in range(3):
    small.step(lambda plan: {one.request_id: 7 for one in plan.scheduled})
small.add_request(Request("B", [11, 12, 13, 14, 15, 16], SamplingParams(max_tokens=4)))
plan = small.schedule()
for one in plan.scheduled:
    print(f"{one.request_id}: from position {one.start}, {one.num_tokens} new, "
          f"blocks {one.block_table}")

# %% [markdown]
# One step holds both. A is one token behind its text, B is {{plan.scheduled[1].num_tokens}} behind. Each request only
# knows how many of its tokens are computed, `num_computed_tokens`, and each step lets it catch up. This is the whole
# trick. A prompt, a single token, and a request that comes back after a pause are the same thing.
#
# The plan is plain data. The picture shows where each new token goes:

# %%
from minipaged.viz.figures.plan import step_writes

show(step_writes(plan, num_blocks=8))

# %% [markdown]
# And what happens in which order? First a plan, then the model runs, then the new tokens are entered and memory comes
# back. Here is the step in which D ends. (The log counts from 0, so our step 30 is its step 29.) Look at the last
# column: D is gone *in this step*, not in the next one.

# %%
from minipaged.viz.figures.anatomy import step_anatomy

show(step_anatomy(events, step=29))

# %% [markdown]
# ## Seats need memory
#
# Seven seats or seventy? Each seat holds the cache of a text. So the number of seats is a question of memory, and paged
# memory has more of them. The same queue of chats, on the same simulated card:

# %%
from minipaged.sim.experiments import run_experiment

gain = {}
for row in run_experiment("batching", small=True).rows:
    gain[row["system"]] = row["ours x"]
    print(f"{row['system']:<32}{row['rows a step']:>5} at a time "
          f"{row['tokens/s']:>6,} tokens/s  x{row['ours x']:.2f}")

# %% [markdown]
# With the memory of seven rows, continuous batching makes it {{gain["continuous, reserve the maximum"]:.2f}} times as
# fast. With paged memory it is {{gain["continuous, paged"]:.2f}} times, because four times as many sit in the bus. They
# need each other. The
# [paper](https://arxiv.org/abs/2309.06180) reports more, up to 22 times, for a rate of arrivals at the same waiting
# time. Ours is a full queue, in which nobody minds to wait.

# %% [markdown]
# ## Break it
#
# A small carelessness, from the scheduler of the text on the web. It looks harmless.

# %%
from minipaged import museum

exhibit = museum.exhibit("finished-holds-memory")
print(exhibit)

# %%
exhibit.film()

# %% [markdown]
# Compare the end of the two runs. On one side the pool is empty, on the other one it is not. Pick a letter, then go on.

# %%
piece = museum.piece("finished-holds-memory")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# A step late is not much. But the last request has no next step: its blocks never come back. And under load the one who
# waits for a block waits for nothing. The engine frees in `commit`, before anybody plans again.

# %% [markdown]
# ## Exercises
#
# First the price of waiting, then the steps in which each one ends. The last one is the loop of a server.

# %%
exercise_links("07_continuous_batching")

# %% [markdown]
# ## Explore
#
# The upper half is static, the lower one continuous. **Choose "A to D" with {{seats}} seats: how many steps does
# continuous batching save? Then go down to two seats and choose "short and long in turns": how many now? And for which
# workload does it never save anything?**

# %%
from minipaged.viz.widgets import batching_explorer

explorer = batching_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# With *A to D* it saves {{saved("A to D", 4)}} steps. Nobody waits, so nobody can take the empty seats. With *short and
# long in turns* and two seats it saves {{saved("short and long in turns", 2)}} steps of
# {{explorer.at(workload="short and long in turns", seats=2).data["static"]["steps"]}}. With *all alike* it saves
# {{saved("all alike", 2)}}, for any number of seats: all leave together anyway. So the gain comes from two things, a
# queue and different lengths. Real traffic has both.
#
# </details>

# %% tags=["hidden"]
def saved(workload, count):
    data = explorer.at(workload=workload, seats=count).data
    return data["static"]["steps"] - data["fcfs"]["steps"]

# %% [markdown]
# ## Recap
#
# 1. One step reads the weights once, for one request or for many. So an empty seat is a lost token.
# 2. A static batch ends with its longest answer: (100 + 50 + 200 + 30) / (4 × 200) of its places are used.
# 3. Continuous batching asks at every step. Who is done leaves, who waits sits down.
# 4. There is no prefill phase and no decode phase. Each request catches up with its length.
# 5. Seats need memory. Paging is what makes many of them possible.

# %% [markdown]
# ## What vLLM does differently
#
# Nothing in the idea: a comment in `Scheduler.schedule` of `vllm/v1/core/sched/scheduler.py` says that there is no
# decoding phase and no prefill phase. `num_computed_tokens` has its name from there. Our `commit` is
# `update_from_output`. The seats are `max_num_seqs`, the tokens of a step `max_num_batched_tokens`.
#
# With `AsyncScheduler` the next step is planned while the GPU still computes the last one. So a plan counts tokens that
# nobody has seen yet, as placeholders (`num_output_placeholders`). A request may then run one step too far; what it
# made there is thrown away. We plan one step after the other, which is easier to read. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("07_continuous_batching", rows=rows)

# %% [markdown]
# ## Next
#
# First come, first served is fair, or is it? Somebody with a short question stands behind four novels. And what if the
# one who sits down next finds no memory?
#
# **[08 · Scheduling](08_scheduling.ipynb)** lets you choose who goes first, and shows who pays for it.
