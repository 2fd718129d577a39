# %% [markdown]
# # 06 · The prefix cache
#
# In one hour a chat service read {{hour_tokens / 1e6:.0f}} million tokens of prompts. {{repeated:.0%}} of them it had
# read before: the same text, from the first word on. Each time it computed them again.
#
# The keys and values were there. Nobody knew where. How do you find a text in a memory of a million blocks? And who
# else could find it?

# %% [markdown]
# **After this chapter you can**
#
# - find a prompt in the cache by chained keys, in one pass;
# - say what happens to a block from its first token to its eviction;
# - attack a cache with a collision and with a stopwatch, and close both doors.
#
# **Needs** [05 Sharing and copy-on-write](05_copy_on_write.ipynb) · **Time** 30 minutes · **Level** medium · {{colab}}

# %% tags=["install"]

# %% [markdown]
# ## Guess first

# %%
from minipaged.lesson import exercise_links, predict, quiz, reveal, source
from minipaged.viz.show import show

predict("cache-repeat")
predict("cache-full")

# %% [markdown]
# ## An hour of chats
#
# A chat has no memory. With each line that you write, the whole talk is sent again. This is a trace of a real service,
# with the texts replaced by numbers: equal numbers are equal pieces of {{piece_tokens}} tokens
# ([Mooncake](https://arxiv.org/abs/2407.00079)). Let us count the pieces that some earlier prompt began with as well.

# %%
from minipaged.sim.experiments.hit_rate import hit_blocks, reference_lru
from minipaged.sim.traces import load_trace

chats = load_trace("mooncake-conv")
hour_tokens = sum(chat.input_tokens for chat in chats.requests)
pieces = sum(len(chat.segments) for chat in chats.requests)
repeated = reference_lru(chats, size=10**9) / pieces  # an endless memory
print(f"{len(chats):,} prompts with {hour_tokens:,} tokens")
reveal("cache-repeat", 100 * repeated, "{:.1f} of 100")

# %% [markdown]
# A cache that keeps the keys and values of such beginnings is called a **prefix cache** (前缀缓存).
#
# ## Finding a text, the slow way
#
# A text on the web does it so: try the longest beginning of the prompt, then one token less, then one less again. Each
# time, make a hash of all these tokens and look it up. How many tokens go through the hash function, for a prompt of
# 2,000 that nobody has asked before?

# %%
prompt = list(range(2000))
slow = sum(len(prompt[:length]) for length in range(len(prompt), 0, -1))
print(f"{slow:,} tokens are hashed to find nothing")

# %% [markdown]
# For a prompt twice as long it is four times as many. And the work is mostly the same: the beginnings overlap.
#
# ## A chain of keys
#
# Think of the blocks as links of a chain. The key of the first link is a hash of its tokens. The key of the second is a
# hash of its tokens *and of the first key*. And so on. So each key stands for the whole text up to there.

# %%
from minipaged.core import KVCacheManager, PrefixCache, Request
from minipaged.core.block_hash import sha256_key

source(sha256_key)

# %% [markdown]
# Now one pass is enough. Start at the root and go down, a block at a time, as long as a key is known. Let us count the
# tokens that are hashed:

# %%
hashed = []


def counting_key(parent, tokens):
    hashed.append(len(tokens))
    return sha256_key(parent, tokens)


memory = KVCacheManager(200, 16, hash_fn=counting_key)
request = Request("A", prompt)
memory.admit(request, memory.match(request), request.num_tokens)
hashed.clear()
match = memory.match(Request("B", [*prompt, 1]))
print(f"found: {match.num_tokens:,} tokens, by hashing {sum(hashed):,}")

# %% [markdown]
# {{sum(hashed):,}} in place of {{slow:,}}. This is the walk itself:

# %%
source(PrefixCache.match, lines=(1, 11))

# %% [markdown]
# You can use it without a server, under the names of the text on the web. `store` says in which blocks a prompt lies,
# `match_prefix` gives the blocks that are known, and how many tokens they hold:

# %%
cache = PrefixCache(num_blocks=8, block_size=4)
cache.store([11, 12, 13, 14, 15, 16], blocks=[3, 5])
for tokens in ([11, 12, 13, 14, 99], [11, 12, 13, 14, 15, 16, 17], [99, 12, 13, 14, 15]):
    print(tokens, "->", cache.match_prefix(tokens))

# %% [markdown]
# In the picture three prompts begin alike, in blocks of 4. Look where the colours part. A and B differ in their last
# block, so two keys are the same and the third is not. C has the very tokens of A, and not one key is the same. Why? It
# has another *salt*. We come to that.

# %%
from minipaged.viz.figures.plan import hash_chain

system = list(range(50, 60))
alike = {"A": [*system, 1, 2], "B": [*system, 9, 9], "C": [*system, 1, 2]}
show(hash_chain(alike, block_size=4, salts={"C": "blue"}))

# %% [markdown]
# Why must the chain be there at all? Because the keys and values of a token depend on *everything before it*. "The
# bank" after a river is not "the bank" after a robbery. Equal tokens in a block are not equal contents.
#
# ## Free is not forgotten
#
# Request A ends and its blocks are free. Is its text lost? Watch the free queue of a small pool with six blocks. A has
# ten tokens in its prompt.

# %%
from minipaged.core import ContinuousBatchingScheduler, SamplingParams
from minipaged.core.events import EventLog


def answer(plan):
    """In place of a model: each new token is a 7."""
    return {one.request_id: 7 for one in plan.scheduled if one.sample}


def ask(engine, name, tokens, new=2, salt=None):
    """Serve one request to its end; how many of its tokens were found."""
    asked = Request(name, tokens, SamplingParams(max_tokens=new), cache_salt=salt)
    engine.add_request(asked)
    while not asked.is_finished:
        engine.step(answer)
    return asked.num_cached_tokens

# %%
events = EventLog()
engine = ContinuousBatchingScheduler(KVCacheManager(6, 4, events=events), events=events)
asked = {"A": system, "A again": system, "B": list(range(16)), "A a third time": system}
for name, tokens in asked.items():
    found = ask(engine, name, tokens)
    evicted = [event.block for event in events.select("withdraw", reason="evict")]
    print(f"{name:<14} found {found}; evicted so far {evicted}; "
          f"free queue {engine.kv.allocator.free_blocks()}")

# %% [markdown]
# Each number in "evicted" is a block that lost its text. "A again" found all of its tokens but one, though A was long
# gone. Its blocks were free *and* known. B needed more blocks than were unused. Only then the oldest known ones lost
# their text. That is **eviction** (驱逐), and it happens when a block is handed out, not when it is freed. And A, a
# third time, still found its first block.
#
# Here is the queue as a picture. Dotted blocks can still be found. Follow P0, the start of A's text: it stands behind
# P2, its end. So the end is evicted first. That is what "tail first" in chapter 03 was good for: others are most likely
# to share the *start*. All of A's blocks wait at the *back*, because they can be found. (In chapter 03 the cache was
# off. Nobody could find them again, so they went to the front.)

# %%
from minipaged.viz.figures.pool import free_queue

show(free_queue(events))

# %% [markdown]
# All that can happen to a block is in one table. It is worth a minute. Read the row "free": the count goes to 0, and
# the key stays.

# %%
from minipaged.viz.figures.ideas import memory_event_table

show(memory_event_table())

# %% [markdown]
# ## The tree
#
# Beginnings that are shared form a tree. Here are the four requests of chapter 03 again, this time with the cache on.
# A, B and C have the same ten tokens, D has its own.

# %%
readers = {"A": (system, 9), "B": ([*system, 7], 12), "C": ([*system, 8, 9], 12),
           "D": ([1, 2, 3, 4, 5], 20)}  # name: (its prompt, tokens of its answer)
story = EventLog()
kv = KVCacheManager(20, 4, events=story)
scheduler = ContinuousBatchingScheduler(kv, events=story)
for name, (tokens, new) in readers.items():
    scheduler.add_request(Request(name, tokens, SamplingParams(max_tokens=new)))
while scheduler.has_unfinished:
    scheduler.step(answer)
print("found:", {event.request: event.cached_tokens for event in story.select("admit")})

# %%
from minipaged.viz.figures.prefixes import prefix_tree

moment = story.select("step")[4]
show(prefix_tree(story, until=moment.time, title="After the fifth step"))

# %% [markdown]
# Each path from the root is a text. The first two boxes are held by three requests and exist once. And look at P2 and
# P3: they have the same four tokens. A and B came at the same time and both went on with a 7, so each computed them.
# The cache knows both, and serves the first. In the film you see the tree grow, and the requests leave.

# %%
from minipaged.viz import Film

Film(story, title="Four requests, one beginning", start=moment.time)

# %% [markdown]
# ## The last block
#
# Ten tokens are two blocks and a half. vLLM shares full blocks only. Our engine also knows the half full one, the
# **tail**, and finds as much of it as is the same:

# %%
for tails in (True, False):
    small = ContinuousBatchingScheduler(KVCacheManager(20, 4, share_partial_blocks=tails))
    ask(small, "A", system)
    found = ask(small, "B", [*system, 99])
    print(f"share_partial_blocks={tails!s:<5} found {found} of {len(system) + 1} tokens")

# %% [markdown]
# The price: whoever hits a tail will write into it, so the block is copied, as you saw in chapter 05. A tail can be
# found only after its step is over. A full block may be shared in the very step that fills it.
#
# And if the whole prompt is known? Twelve tokens, three full blocks:

# %%
twice = ContinuousBatchingScheduler(KVCacheManager(20, 4))
ask(twice, "A", list(range(12)))
reveal("cache-full", ask(twice, "A again", list(range(12))), "{} tokens")

# %% [markdown]
# One token is always left to compute. The cache holds keys and values; what comes *next* it does not hold. To know
# that, the model must run for the last token.
#
# ## How much memory?
#
# A cache works only for what it still has. Here is our hour of chats with smaller and larger memories. The sizes are
# for Llama-3.1-8B.

# %%
from minipaged.viz.figures.serving import rate_curves

piece_tokens = 512
sizes = (1_000, 3_000, 10_000, 30_000, 50_000, 100_000)  # blocks
gigabytes = [size * piece_tokens * 131_072 / 1e9 for size in sizes]
rates = [100 * reference_lru(chats, size) / pieces for size in sizes]
show(rate_curves({"found": (gigabytes, rates)}, x="memory for the cache in GB",
                 y="prompt tokens found in %", title="An hour of chats", log=False))

# %% [markdown]
# One card has room for the left end of this curve. That is why servers put old blocks into the memory of the CPU, or on
# a disk, before they forget them. The curve is made with a plain list of the last used pieces. Does the engine's queue
# do as well?

# %%
early = chats.first(2000)
print("first 2,000 chats, 3,000 blocks: the engine finds", hit_blocks(early, 3_000)[0],
      "pieces, the list", reference_lru(early, 3_000))

# %% [markdown]
# Nearly. The engine misses a few, and you know why: one token is always left to compute, so the last piece of a prompt
# is never taken whole.

# %% [markdown]
# ## Break it: a security lab
#
# Put on a black hat for ten minutes. You use a server together with others. Everything here is a toy; the doors were
# real.
#
# ### Door 1: two texts, one key
#
# The text on the web uses `str(hash(tuple))` as key, and never looks at the tokens again. Python's `hash` was not made
# to resist anybody:

# %%
print("the same key for two prompts:", str(hash((-1, 5))) == str(hash((-2, 5))))
predict("cache-birthday")

# %% [markdown]
# Two contents with one hash are a **hash collision** (哈希冲突). Take a better function then, but only 32 bits of it.
# Surely nobody tries four billion blocks?

# %%
from array import array

from minipaged.core.block_hash import root_key


def short_key(parent, tokens):
    return sha256_key(parent, tokens)[:4]


seen, number = {}, 0
while (key := short_key(root_key(None), array("q", [number, 3, 2, 1]))) not in seen:
    seen[key] = number
    number += 1
theirs, mine = [seen[key], 3, 2, 1], [number, 3, 2, 1]
print(theirs, "and", mine, "have the key", key.hex())
print(f"after {number + 1:,} blocks")
reveal("cache-birthday", (number + 1) / 1e6, "{:.3f} million")

# %% [markdown]
# It is the birthday surprise: you don't look for one person's birthday, any two will do. The number of tries is about
# the *square root* of the number of keys. Now the victim asks `theirs`, and you ask `mine`. In this museum piece the
# cache trusts the key:

# %%
from minipaged import museum

piece = museum.piece("weak-hash-is-trusted")
print(piece.source)


def found_by_me():
    engine = ContinuousBatchingScheduler(KVCacheManager(20, 4, hash_fn=short_key))
    ask(engine, "victim", [*theirs, 9])
    return ask(engine, "me", [*mine, 9])


with piece.switched_on():
    print("cache that trusts keys:  ", found_by_me(), "tokens of another text are served to me")
print("cache that checks tokens:", found_by_me(), "tokens")

# %% [markdown]
# The first one answers you from somebody else's text. Turn it around, and it is worse: ask `mine` first, and the victim
# is answered from *your* text. vLLM had this door open for a while
# ([CVE-2025-25183](https://github.com/vllm-project/vllm/issues/12621): it used Python's `hash`). There are two locks: a
# strong hash, and a look at the tokens. The engine has both. So even a bad hash can only make it slow, never wrong:

# %%
source(PrefixCache._find)

# %% [markdown]
# ### Door 2: a stopwatch
#
# This one needs no wrong line at all. A found prompt is answered faster. So you can *ask* whether somebody else has
# just written a certain text. The victim writes a sentence that everybody knows, and then a PIN of three digits. You
# try one digit after the other.

# %%
sentence, pin = list(range(50, 58)), [4, 7, 1]


def victim_is_writing(salt=None, **options):
    engine = ContinuousBatchingScheduler(KVCacheManager(256, 4, **options))
    engine.add_request(Request("victim", [*sentence, *pin], SamplingParams(max_tokens=400),
                               cache_salt=salt))
    engine.step(answer)
    return engine

# %%
def steal(engine, salt=None):
    """(the digits, number of tries); None in place of digits when no answer came faster."""
    known, tries = list(sentence), 0
    while len(known) < len(sentence) + len(pin):
        for digit in range(10):
            tries += 1
            if ask(engine, "guess", [*known, digit, 99], new=1, salt=salt) > len(known):
                known.append(digit)
                break
        else:
            return None, tries
    return known[len(sentence):], tries

# %%
stolen, tries = steal(victim_is_writing())
print("tails are shared:     ", stolen, "after", tries, "tries, of 1,000 possible PINs")
print("only full blocks:     ", steal(victim_is_writing(share_partial_blocks=False))[0])
print("a salt for each user: ", steal(victim_is_writing(salt="alice"), salt="mallory")[0])

# %% [markdown]
# {{tries}} tries for three digits, not a thousand. A tail tells you *each* token that is right, so you guess one at a
# time. With full blocks you must guess a whole block at once. That is harder, and not safe: attacks of this kind work
# on real services ([Leaking Secrets from Prefix Caches](https://arxiv.org/abs/2411.18191), CVE-2025-46570).
#
# The last line is the lock. A **salt** (盐值) is a word that goes into the root of the chain. Who has another salt
# has other keys from the first block on. In a company all may share one salt; two customers must not. And the *server*
# has to choose it. If Mallory may write "alice" into his request, the door is open again:

# %%
print("Mallory writes alice: ", steal(victim_is_writing(salt="alice"), salt="alice")[0])

# %% [markdown]
# ### Door 3: where does one part end?
#
# A salt can have parts: a user, a model version, an image. Put them one after the other, and look:

# %%
from minipaged.core.block_hash import encode

print("glued: ", "ab" + "c" == "a" + "bc")
print("ours:  ", encode(("ab", "c")), encode(("a", "bc")))
print("types: ", encode(1), encode("1"), encode(True))

# %% [markdown]
# `encode` writes each part as Python writes it, a text in its quotes, and a comma behind it: so each part has an end, and
# 1 is not "1". vLLM had this one too: an image of 30 × 150 points and one of 150 × 30 were the same to it
# ([CVE-2025-46722](https://github.com/vllm-project/vllm/pull/17378)). The museum has it as `salt-without-boundaries`.
#
# ### And without any attacker
#
# The cache of the text has three more faults. No one needs to attack it; it harms itself. Here they are in our engine,
# one at a time, with what the judges say:

# %%
for name in ("lookup-takes-references", "cache-keeps-references", "full-hit-computes-nothing"):
    fault = museum.piece(name).wrong().faults[0]
    print(f"{museum.piece(name).title}\n    {fault.judge}: {fault.text}\n")

# %% [markdown]
# The first: looking up raises the counts, and then the request is not let in. Its blocks are held by nobody, for ever.
# In the engine `match` changes nothing, and `admit` takes all or nothing. The second: the cache itself counts as a
# holder, so its blocks are never free. The third you know: a whole prompt may not match.

# %% [markdown]
# ## Exercises
#
# Walk down a chain, order the evictions, share a tail, and forge a key.

# %%
exercise_links("06_prefix_cache")

# %% [markdown]
# ## Explore
#
# Sixty prompts that begin alike, in a few families. **Set the common beginning to {{beginning}} tokens and move the
# block size up: where does the cache find nothing, and why? Then choose a block size of {{normal}} and
# {{families}} different beginnings: can more memory bring the rate above one half?**

# %%
from minipaged.viz.widgets import prefix_explorer

explorer, beginning, normal, families = prefix_explorer(), 250, 16, 32
explorer

# %% [markdown]
# <details><summary>What you should have found</summary>
#
# With blocks of 64 it finds {{rate(block_size=64):.0%}}, with blocks of 256 {{rate(block_size=256):.0%}}: the common
# beginning does not fill a single block. With {{families}} beginnings of 500 tokens the rate is
# {{rate(groups=families, prefix=500):.0%}}, and with the largest memory
# {{rate(groups=families, prefix=500, pool=32768):.0%}}. More memory does not help any further: the first prompt of each
# family has nobody to share with.
#
# </details>

# %% tags=["hidden"]
def rate(**settings):
    return explorer.at(**{"prefix": beginning, **settings}).data["hit_rate"]

# %% [markdown]
# ## Recap
#
# 1. A key is a hash of the block's tokens and of the key before it. So it stands for the whole text up to there.
# 2. Freed is not evicted. A free block can be found until it is handed out again.
# 3. The free queue is the order of eviction: longest unused first, and of one request its end first.
# 4. A key only says where to look. Tokens and parent are compared, and one token is always computed.
# 5. A cache that is shared tells what others wrote. A salt that the server chooses keeps users apart.

# %% [markdown]
# ## What vLLM does differently
#
# `hash_block_tokens` in `vllm/v1/core/kv_cache_utils.py` hashes the parent's hash, the tokens, and *extra keys*: LoRA
# adapter, images, and `cache_salt` in the first block. The default of `prefix_caching_hash_algo` is `sha256`. vLLM does
# not compare the tokens on a hit: it trusts SHA-256, and nobody has ever found a collision of it. With the faster
# `xxhash` the root is a random number (`NONE_HASH`), so that no one can prepare a collision.
#
# `get_computed_blocks` finds full blocks only (but for the corner named in chapter 05), and leaves one token
# to compute. A found block is taken with `touch`; `_maybe_evict_cached_block` forgets a key when its block is
# handed out. SGLang keeps a real tree, `RadixCache`, and walks down its edges. (Read in vLLM 0.32.)

# %% [markdown]
# ## Quiz

# %%
quiz("06_prefix_cache", tries=tries)

# %% [markdown]
# ## Next
#
# Memory is in order now: cut, shared, found again. But the GPU still waits. A batch of four is as slow as its longest
# answer, and three seats stay empty.
#
# **[07 · Continuous batching](07_continuous_batching.ipynb)** gives a free seat away at the next step.
