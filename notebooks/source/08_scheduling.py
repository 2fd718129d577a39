# %% [markdown]
# # 08 · Who runs next
#
# It is a busy hour for a chat server. Somebody asks for a very short answer: {{unlucky.output_tokens}} tokens. To
# write it takes {{own_time:.2f}} s. She waits {{unlucky_wait:.1f}} s for the first word, since everybody who came
# before her is served first.
#
# Who should run next? And can a server promise anything to those who wait?

# %% [markdown]
# **After this chapter you can**
#
# - compare three rules for who runs next, and say what each one costs;
# - prove how long anybody waits when requests take turns, and measure it;
# - find five faults in a scheduler, and repair them one at a time.
#
# **Needs** [07 Continuous batching](07_continuous_batching.ipynb) · **Time** 30 minutes · **Level** medium · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first
#
# Picture a kitchen with few stoves. A **seat** is a stove: who has one cooks in each step. There are fewer seats
# than cooks. One idea is to let them take turns: after some steps, a cook gives up her stove and goes to the end
# of the line. Her pots stay as they are; she keeps her blocks. This is **round-robin** (轮转), and the length of a
# turn is its *quantum*.

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("sched-bound")

# %%
predict("sched-alike")

# %% [markdown]
# ## A rule is two decisions
#
# A policy answers two questions. Where in the line does a request stand? And does anybody have to give up a seat? The
# policies of the engine know nothing else. The first one is **first come, first served**:

# %%
from minipaged.core.policy import FCFS, RoundRobin

source(FCFS.enqueue, FCFS.requeue, FCFS.rotate)

# %% [markdown]
# Newcomers go to the end, nobody loses a seat. Round-robin keeps the line and changes the last answer. Whoever has sat
# for `quantum` steps gives up the seat, but only if somebody would take it:

# %%
source(RoundRobin.rotate)

# %% [markdown]
# Now four requests on two seats. A and B have long answers, C and D short ones. No model runs here: the scheduler does
# not care what a token says.

# %%
from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog


def serve(answers, seats, **rule):
    """Serve answers of these lengths, with memory for all; the log of the run."""
    events = EventLog()
    kv = KVCacheManager(400, 4, events=events, enable_prefix_caching=False)
    scheduler = ContinuousBatchingScheduler(kv, max_num_seqs=seats, events=events, **rule)
    for name, tokens in answers.items():
        scheduler.add_request(Request(name, [1, 2, 3, 4, 5], SamplingParams(max_tokens=tokens)))
    while scheduler.has_unfinished:
        scheduler.step(lambda plan: {one.request_id: 7 for one in plan.scheduled if one.sample})
    return events

# %%
from minipaged.viz.figures.timeline import batching_gantt, waits

lengths = {"A": 40, "B": 30, "C": 5, "D": 5}
turn = {"scheduling_policy": "round_robin", "quantum": 4}
runs = {"first come": serve(lengths, 2), "turns of 4": serve(lengths, 2, **turn)}
show(batching_gantt(runs, first_step=1))

# %% [markdown]
# Look at C and D. In the upper half they wait until a long one has ended. In the lower half they are done after
# {{ended["turns of 4"]["D"]}} steps, not {{ended["first come"]["D"]}}. Now look at A. It pauses a few times, and it
# ends at step {{ended["turns of 4"]["A"]}} in place of {{ended["first come"]["A"]}}. Somebody pays. (Near the end A is
# alone, and one seat is empty.)

# %%
ended = {rule: {event.request: event.step + 1 for event in events.select("finish")}
         for rule, events in runs.items()}
for rule, steps in ended.items():
    print(f"{rule:<11} ends at step", dict(sorted(steps.items())),
          f" mean {sum(steps.values()) / len(steps):.1f}")

# %% [markdown]
# ## A promise
#
# With first come, first served, how long you wait depends on how much others have to say. Nobody can know. With turns,
# there is a promise that you can work out before anybody speaks.
#
# Say that n requests share s seats, and there is memory for all. You have just lost your seat, so you stand at the end
# of the line. At most n - 1 others are before you. They leave the line in groups of s, and each group sits for one
# quantum. So you wait at most
#
# > quantum × (n - 1) / s, rounded up

# %%
from minipaged.viz.figures.steps import steps_of
from minipaged.viz.figures.timeline import longest_waits

nine = {name: 20 + 3 * place for place, name in enumerate("ABCDEFGHI")}
turns = serve(nine, 2, **turn)
longest = max(longest_waits(steps_of(turns)).values())
reveal("sched-bound", longest, "{} steps")
bound = turn["quantum"] * -(-(len(nine) - 1) // 2)
show(waits({"first come": serve(nine, 2), "turns of 4": turns}, bound=bound))

# %% [markdown]
# The bars of round-robin stop at the line. Those of first come, first served grow with the place in the queue, and
# nothing stops them. Does the promise hold in general? Try {{len(tried)}} other cases:

# %%
tried = {}
for quantum in (1, 3, 8):
    for count in (5, 9, 14):
        for seats in (1, 2, 4):
            many = {f"r{number}": 30 + 7 * number % 11 for number in range(count)}
            log = serve(many, seats, scheduling_policy="round_robin", quantum=quantum)
            measured = max(longest_waits(steps_of(log)).values())
            tried[quantum, count, seats] = measured, quantum * -(-(count - 1) // seats)
kept = sum(measured <= promised for measured, promised in tried.values())
tight = sum(measured == promised for measured, promised in tried.values())
print(f"{kept} of {len(tried)} keep the promise; "
      f"in {tight} the wait is exactly as long as it says")

# %% [markdown]
# A promise that is often met exactly can't be made smaller. But note the small print: *with memory for all*. Who
# pauses keeps its blocks. When memory runs short, the engine takes them, and the promise is gone.
#
# ## What does it cost?
#
# Turns helped C and D, because they were short and stood behind long ones. Suppose that all are alike:

# %%
alike = dict.fromkeys("ABCD", 20)
mean_end = {}
for rule, options in {"first come": {}, "turns of 4": turn}.items():
    ends = [event.step + 1 for event in serve(alike, 2, **options).select("finish")]
    mean_end[rule] = sum(ends) / len(ends)
    print(f"{rule:<11} ends at steps {ends}, mean {mean_end[rule]:.0f}")
reveal("sched-alike", 100 * mean_end["turns of 4"] / mean_end["first come"], "{:.0f}")

# %% [markdown]
# Nobody wins, and two readers lose. With turns all end late together. That is the trade: a quick *first* word for
# everybody, against a late *last* word for most.
#
# Here it is on real traffic: the first {{len(trace)}} requests of an hour of chats (chapter 02), with {{seats_there}}
# seats. A server with so few seats is overloaded; that is where rules matter.

# %%
from minipaged.sim import metrics
from minipaged.sim.experiments.common import serve as replay
from minipaged.sim.hardware import card, served_model
from minipaged.sim.serving import Serving
from minipaged.sim.traces import load_trace

seats_there, machine = 16, (card("a100-80g"), served_model("llama-3.1-8b"))
trace = load_trace("azure-conv").first(400).at_rate(8)
replayed = {rule: replay(trace, Serving(machine[1].num_blocks(machine[0]), policy=policy,
                                        max_num_seqs=seats_there, enable_prefix_caching=False),
                         machine, sample_every=0)
            for rule, policy in {"first come": "fcfs", "turns of 16": "round_robin"}.items()}

# %%
from minipaged.viz.figures.serving import latency_percentiles

show(latency_percentiles({rule: metrics.ttft(one) for rule, one in replayed.items()},
                         "time to the first token", log=True))

# %% [markdown]
# Of 100 readers, p50 is the one in the middle, and p99 the one who has it worse than all but one. (Mind the axis:
# each number on it is ten times the one below.) A rule has more sides than one, so here is the rest:

# %%
print("                first word   whole answer   longest pause   fairness")
for rule, one in replayed.items():
    print(f"{rule:<14}{metrics.spread(metrics.ttft(one))['p50']:>10.1f} s"
          f"{metrics.latency(one).mean():>13.1f} s"
          f"{metrics.inter_token_gaps(one).max():>14.1f} s"
          f"{metrics.fairness(one):>11.2f}")
print("                (half-way)        (mean)")

# %% [markdown]
# The first word comes {{first_word["first come"] / first_word["turns of 16"]:.0f}} times sooner. The whole answer
# comes later, and somebody stares at half a sentence for {{pause["turns of 16"]:.1f}} s. The last column is a
# measure of **fairness** (公平性), [Jain's index](https://arxiv.org/abs/cs/9809099). It is 1 when all are slowed down
# alike, and 1/n when one of n bears it all. Turns are far fairer. Yet vLLM runs first come, first served unless it
# is told otherwise. Under that rule whoever has begun to read is not cut off by a newcomer's turn. And whoever pauses
# still holds memory.

# %% tags=["hidden"]
records = metrics.done(replayed["first come"])
first_word = {rule: metrics.spread(metrics.ttft(one))["p50"] for rule, one in replayed.items()}
pause = {rule: float(metrics.inter_token_gaps(one).max()) for rule, one in replayed.items()}
whole = {rule: float(metrics.latency(one).mean()) for rule, one in replayed.items()}
unlucky = max(records, key=lambda one: (one.first_token - one.arrival) / one.output_tokens)
unlucky_wait = unlucky.first_token - unlucky.arrival
own_time = float(metrics.tpot(replayed["first come"]).min()) * unlucky.output_tokens

# %% [markdown]
# ## First things first?
#
# A third rule: each request carries a number, its **priority**. The lowest number is next in line. Here one request
# with number 1 waits for the only seat, and every fourth step somebody comes with a 0.

# %%
events = EventLog()
scheduler = ContinuousBatchingScheduler(KVCacheManager(40, 4, events=events), max_num_seqs=1,
                                        scheduling_policy="priority", events=events)
scheduler.add_request(Request("patient", [1, 2], SamplingParams(max_tokens=4), priority=1))
for step in range(80):
    if step % 4 == 0:
        urgent = Request(f"urgent {step}", [3, 4], SamplingParams(max_tokens=4), priority=0)
        scheduler.add_request(urgent)
    scheduler.step(lambda plan: {one.request_id: 7 for one in plan.scheduled if one.sample})
seated = [event.request for event in events.select("admit")]
print(f"{len(seated)} got the seat; the patient one among them: {'patient' in seated}")

# %% [markdown]
# {{len(seated)}} others were served, the patient one never. This is **starvation** (饥饿). It is no bug: a strict
# order has no promise for whoever stands at its end. Use it for what truly must go first, and only for a little.
#
# ## A patient
#
# Now a scheduler that is ill. A text on the web shows one in about a page of Python. It is well meant, and it teaches
# the right parts: a queue, seats, blocks, a step. We keep its rules and its order. To see what they do, we count
# blocks and leave the model out. First a frame that has no rules yet:

# %%
from collections import deque
from dataclasses import dataclass


@dataclass
class Job:
    name: str
    prompt: int  # tokens
    answer: int  # tokens that it will really write
    limit: int = 32  # max_tokens: the most that it may write
    said: int = 0
    blocks: int = 0


def jobs():
    """The running example: A to D with the lengths of chapter 03."""
    return [Job("A", 10, 9), Job("B", 11, 12), Job("C", 12, 12), Job("D", 5, 20)]

# %%
class Server:
    """Two queues and a count of free blocks. The rules come from a subclass."""

    def __init__(self, free, size):
        self.waiting, self.running = deque(jobs()), []
        self.free, self.size, self.lowest, self.homeless = free, size, free, 0

    def take(self, job, count):
        job.blocks += count
        self.free -= count
        self.lowest = min(self.lowest, self.free)

    def write(self, job):
        """One step of the model. Tokens that find no slot in the job's blocks are homeless."""
        end = job.prompt + job.said
        start = end - 1 if job.said else 0
        self.homeless += max(0, end - max(start, job.blocks * self.size))
        job.said += 1

# %% [markdown]
# And the rules of the text, in our words. Can you see what is wrong? There are four faults in the next two cells.

# %%
class RulesOfTheText(Server):
    def needed(self, job):
        return -(-job.limit // 16)

    def grow(self, job):
        if job.said % 16 == 0:
            self.take(job, 1)

# %%
class FromTheText(RulesOfTheText):
    def leave(self):
        for job in [job for job in self.running if job.said == job.answer]:
            self.running.remove(job)
            self.free += job.blocks

    def step(self):
        self.leave()
        while self.waiting and self.needed(self.waiting[0]) <= self.free:
            self.running.append(self.waiting.popleft())
            self.take(self.running[-1], self.needed(self.running[-1]))
        for job in self.running:
            self.write(job)
            self.grow(job)

# %%
charts = {}


def examine(kind):
    server, steps, most = kind(free=20, size=4), 0, 0
    while server.waiting or any(job.said < job.answer for job in server.running):
        server.step()
        steps, most = steps + 1, max(most, len(server.running))
    charts[kind.__name__] = server, steps, most
    print(f"{kind.__name__:<14}{server.homeless:>3} homeless tokens, {most} at a time, "
          f"{steps} steps, at least {server.lowest} free, {20 - server.free} held at the end")


examine(FromTheText)

# %% [markdown]
# {{charts["FromTheText"][0].homeless}} tokens have no slot. A kernel writes them all the same, into somebody else's block,
# and that reader gets nonsense. Let us repair one fault at a time, and examine the patient after each.
#
# **1. The block size is written into the sums.** There stands 16, but these blocks have {{size_there}} slots.

# %%
class AsksForSize(FromTheText):
    def needed(self, job):
        return -(-job.limit // self.size)

    def grow(self, job):
        if job.said % self.size == 0:
            self.take(job, 1)


examine(AsksForSize)

# %% [markdown]
# No token is homeless. Is the patient healthy? It runs {{charts["AsksForSize"][2]}} at a time, and it once had
# {{charts["AsksForSize"][0].lowest}} free blocks, which is less than none. Everybody holds room for the longest
# answer. That is the waste of chapter 02, and it hid the next fault.
#
# **2. Admission asks for the longest answer and forgets the prompt.** **Admission** (准入) should ask for what is
# there now: the prompt.

# %%
class AsksForPrompt(AsksForSize):
    def needed(self, job):
        return -(-job.prompt // self.size)


examine(AsksForPrompt)

# %% [markdown]
# All four run at once, and {{charts["AsksForPrompt"][0].homeless}} tokens are homeless again. The large reservation
# was hiding a bug in `grow`.
#
# **3. A block is taken at the wrong moment.** `grow` counts only what was said, not the prompt. And it comes after the
# write, when the token has already needed its slot. Ask before the write, with all tokens:

# %%
class AsksBefore(AsksForPrompt):
    def write(self, job):
        if job.prompt + job.said > job.blocks * self.size:
            self.take(job, 1)
        super().write(job)

    def grow(self, job):
        """Nothing is left to do after the write."""


examine(AsksBefore)

# %% [markdown]
# Nobody is homeless and all run. One number is odd. At the end, when all are done,
# {{20 - charts["AsksBefore"][0].free}} blocks are still held.
#
# **4. Who is done leaves one step late.** The text clears up at the start of a step. If no next step comes, nobody
# clears up.

# %%
class LeavesAtOnce(AsksBefore):
    def step(self):
        super().step()
        self.leave()


examine(LeavesAtOnce)

# %% [markdown]
# The patient is well. The fifth fault is one that none of these numbers shows.
#
# **5. It says round-robin and runs first come, first served.** The text explains turns, and its code never takes a
# seat back. The museum has this one. C is third in line for one seat, and a turn lasts two steps:

# %%
from minipaged import museum

named = museum.piece("round-robin-in-name-only")
print(named.source)
print("right:", named.right().facts)
print("text: ", named.wrong().facts)

# %% [markdown]
# The text also says that real servers run first come, first served. That is right, as you have seen. It is only that
# name and code should agree. Its other faults are in what it does when memory runs out. They wait for you in chapter
# 09.
#
# ## Nobody moves
#
# Admission now asks for the prompt alone. What if all of them grow, and the blocks are gone? Take two jobs and eight
# blocks, and let each job want more than half of them:

# %%
free, held, tokens = 6, {"A": 1, "B": 1}, {"A": 4, "B": 4}
moved = True
while moved:
    moved = False
    for name in tokens:
        if tokens[name] == held[name] * 4 and free:
            free, held[name] = free - 1, held[name] + 1
        if tokens[name] < min(24, held[name] * 4):
            tokens[name], moved = tokens[name] + 1, True
print(f"tokens {tokens}, blocks {held}, free {free}: nobody moves any more")

# %% [markdown]
# Each holds what the other needs. This is **deadlock** (死锁). It takes four things at once
# ([Coffman and others, 1971](https://doi.org/10.1145/356586.356588)): a block has one user, who has some asks for
# more, nobody can take a block away, and they wait in a circle. Break one of the four and it can't happen.
# Reservation breaks the second: nobody asks for more. It costs most of the memory. Our engine breaks the third: it
# takes blocks away. That is called preemption.
#
# ## Break it
#
# One case is left that no rule can help: a request that is larger than the whole pool. What does this server do?

# %%
exhibit = museum.exhibit("never-fits-and-waits")
print(exhibit)

# %% [markdown]
# Pick a letter. Then look at both runs side by side. With the bug `big` comes in by the door, `small` waits behind it,
# and not one block is taken.

# %%
exhibit.film()

# %%
piece = museum.piece("never-fits-and-waits")
print(exhibit.answer(piece.title))
print(piece.source)

# %% [markdown]
# It was kind, and let the large one wait. It stands at the head of the line for ever, and the small one behind it
# waits too. So the engine looks at the door, once, before it makes a promise:

# %%
from minipaged.errors import RequestError

try:
    scheduler.add_request(Request("large", [1] * 200))
except RequestError as error:
    print(error)

# %% [markdown]
# ## Exercises
#
# Write a rule of your own, let the engine run it, and see who pays. Then deal out turns, and stand at the door.

# %%
exercise_links("08_scheduling")

# %% [markdown]
# ## Explore
#
# Eight requests, two of them long. Switch to *round-robin* and move the quantum. **Which quantum gives the soonest
# first words, and which the shortest pauses? Is there one seat number from which on no rule is needed at all?**

# %%
from minipaged.viz.widgets.scheduling import scheduling_explorer

explorer = scheduling_explorer()
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# With a quantum of one step a first word takes {{by_quantum[1]["mean_first_token"]:.0f}} steps on average, and the
# longest pause is {{by_quantum[1]["longest_gap"]:.0f}} steps. With 64 it is {{by_quantum[64]["mean_first_token"]:.0f}}
# and {{by_quantum[64]["longest_gap"]:.0f}}. So a short turn wins both. (A real server pays a little for each change,
# which these steps don't count.) From {{enough}} seats on, nobody waits under any rule: the best policy is a larger
# memory.
#
# </details>

# %% tags=["hidden"]
_, quanta, seat_control, *_ = explorer.controls
by_quantum = {quantum: explorer.at(policy="round_robin", quantum=quantum).data
              for quantum in quanta.values}
enough = next(count for count in seat_control.values
              if explorer.at(seats=count).data["longest_first_token"] == 1)
size_there = charts["FromTheText"][0].size

# %% [markdown]
# ## Recap
#
# 1. A policy is two decisions: where in the line, and who gives up a seat.
# 2. Round-robin promises a wait of at most quantum × (n - 1) / seats, rounded up, while memory lasts.
# 3. Turns bring first words sooner and last words later. Strict priority can starve.
# 4. Admission asks for the prompt; growth asks for a block before the write; who is done leaves at once.
# 5. Holding and asking for more can lock everybody. Refuse what never fits, and take blocks back when they are short.

# %% [markdown]
# ## What vLLM does differently
#
# vLLM has two rules, `--scheduling-policy fcfs` and `priority` (`SchedulingPolicy` in
# `vllm/v1/core/sched/request_queue.py`); there is no round-robin. `FCFSRequestQueue` is a deque like ours,
# `PriorityRequestQueue` a heap where we keep a sorted line. Seats are `max_num_seqs`. With
# `scheduler_reserve_full_isl`, on by default, admission asks whether the whole prompt fits; `watermark` keeps a share
# of the blocks free. `max_num_queued_reqs` limits all requests in the house, waiting or running: beyond it a client
# gets an HTTP 503. And `scheduler_cls` takes a scheduler of your own. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("08_scheduling", fcfs_first=first_word["first come"],
     turns_first=first_word["turns of 16"], fcfs_all=whole["first come"],
     turns_all=whole["turns of 16"])

# %% [markdown]
# ## Next
#
# The engine takes blocks away when they are short. From whom? And where do the keys and values go: are they saved, or
# thrown away and made again?
#
# **[09 · Preemption](09_preemption.ipynb)** measures what each choice costs.
