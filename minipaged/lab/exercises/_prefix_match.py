"""Lab of chapter 06: the longest prefix that the cache knows, in one pass."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

MATCH = '''\
def block_key(parent_key, tokens):
    return (31 * parent_key + sum(tokens)) % 97

def match_prefix(tokens, block_size, cache):
    blocks, key, parent = [], 0, None
    for start in range(0, (len(tokens) - 1) // block_size * block_size, block_size):
        part = tokens[start:start + block_size]
        key = block_key(key, part)
        for block, before, known in cache.get(key, []):
            if known == part and before == parent:
                break
        else:
            return blocks
        blocks.append(block)
        parent = block
    return blocks
'''
block_key = from_source(MATCH).block_key
#: Blocks of one token. To compute the chain of keys anew for each block takes too long. To cut the known part off the
#: prompt for each block is right: it copies the rest each time, but 4,000 such copies take a few milliseconds.
LONG = 4000


def _case(rng: random.Random) -> dict:
    size, known = rng.randint(1, 3), []
    for _ in range(rng.randint(1, 3)):
        start = rng.choice(known)[:size * rng.randint(0, 2)] if known else []
        known.append(start + [rng.randint(1, 3) for _ in range(size * rng.randint(1, 3))])
    prompt = rng.choice(known) + [rng.randint(1, 3) for _ in range(rng.randint(0, 3))]
    if rng.random() > 0.5:  # two tokens change places: the sum of their block stays
        one = rng.randint(0, len(prompt) - 1)
        other = min(one + 1, len(prompt) - 1)
        prompt[one], prompt[other] = prompt[other], prompt[one]
    evicted = rng.choice([None, None, rng.randint(0, 4)])
    return {"block_size": size, "known": known, "prompt": prompt, "evicted": evicted}


def _cache(size: int, known: list[list[int]], evicted: int | None) -> dict[int, list]:
    """Entries [block, block before, tokens] by key, for the full blocks of these texts."""
    cache: dict[int, list] = {}
    blocks: dict[tuple, int] = {}
    for text in known:
        key, parent = 0, None
        for start in range(0, len(text) - size + 1, size):
            part = text[start:start + size]
            key, contents = block_key(key, part), (parent, *part)
            if contents not in blocks:
                blocks[contents] = len(blocks)
                cache.setdefault(key, []).append([blocks[contents], parent, part])
            parent = blocks[contents]
    return {key: [entry for entry in entries if entry[0] != evicted] for key, entries in cache.items()}


def _drive(trace: Trace, case: dict) -> None:
    if case.get("long"):
        text = [number * number % 7 for number in range(LONG)]
        trace.call("match_prefix", text, 1, _cache(1, [text], None),
                   text=f"match_prefix({LONG} tokens, 1, the cache of the same {LONG} blocks)")
    else:
        trace.call("match_prefix", case["prompt"], case["block_size"],
                   _cache(case["block_size"], case["known"], case["evicted"]))


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(MATCH, *pairs))


MATCH_EXERCISE = Exercise(
    id="prefix.match",
    title="What do we know already?",
    chapter="06_prefix_cache",
    minutes=20,
    level="medium",
    goal="Find the longest known prefix of a prompt in one pass, and trust no key without looking at the tokens.",
    interface=("match_prefix(tokens, block_size, cache)",),
    hints=("Two different blocks have the same key. Which two things must agree before you may use a block that was "
           "computed for somebody else?",
           "Walk over the full blocks that leave at least one token over. The key of a block comes from the key before "
           "it. Among the entries with this key, take the one with the same tokens whose block before is the one you "
           "found last; stop where there is none.",
           "key, parent = 0, None; for start in range(0, (len(tokens) - 1) // block_size * block_size, block_size): "
           "part = tokens[start:start + block_size]; key = block_key(key, part); go through cache.get(key, []) for "
           "known == part and before == parent; append that block, it is the new parent; else return."),
    rule="A block is a hit when its tokens are the same and the block before it is the hit before; equal keys alone "
         "prove nothing. Hits are full blocks from the start without a gap, and at least one token is left to compute.",
    examples=({"block_size": 4, "known": [[1, 2, 3, 4, 5, 6, 7, 8], [4, 3, 2, 1, 9, 9, 9, 9]],
               "prompt": [1, 2, 3, 4, 5, 6, 7, 8, 9], "evicted": None},
              {"block_size": 4, "known": [[1, 2, 3, 4, 5, 6, 7, 8]], "prompt": [1, 2, 3, 4, 5, 6, 7, 8],
               "evicted": None},
              {"block_size": 4, "known": [[1, 2, 3, 4, 5, 6, 7, 8], [4, 3, 2, 1]],
               "prompt": [4, 3, 2, 1, 5, 6, 7, 8, 9], "evicted": None},
              {"block_size": 4, "known": [[1, 2, 3, 4, 5, 6, 7, 8]],
               "prompt": [1, 2, 3, 4, 22, 22, 22, 22, 5, 6, 7, 8, 9], "evicted": None},
              {"long": True}),
    case=_case,
    drive=_drive,
    reference=lambda: from_source(MATCH),
    misconceptions=(
        _wrong("square", "for each block you compute the chain from the start again: 4,000 blocks take 8 million "
               "steps. Keep the last key, and each step needs just one more.", "key = block_key(key, part)",
               "key = 0\n        for at in range(0, start + block_size, block_size):\n"
               "            key = block_key(key, tokens[at:at + block_size])"),
        _wrong("trusts-the-key", "you take the first block with the right key. Keys can be equal by chance, or because "
               "somebody chose the tokens so: then you serve another prompt's memory. Compare the tokens.",
               "known == part and before == parent", "True"),
        _wrong("tokens-only", "you compare the tokens of the block, but not what came before it. K and V depend on the "
               "whole text before them: the same 4 tokens after another text are another block.",
               "known == part and before == parent", "known == part"),
        _wrong("parent-only", "you compare the block before, but not the tokens themselves.",
               "known == part and before == parent", "before == parent"),
        _wrong("first-entry", "you give up when the first entry with this key does not fit; behind it may stand the "
               "one that does.", "cache.get(key, [])", "cache.get(key, [])[:1]"),
        _wrong("whole-prompt", "you use the whole prompt. Then nothing is left to compute, and the model has no last "
               "token whose logits give the next one. Of 8 known tokens in blocks of 4, only 4 can be used.",
               "(len(tokens) - 1) // block_size", "len(tokens) // block_size"),
        _wrong("one-block-short", "you always leave a whole block to compute. One token is enough: a prompt of 9 "
               "tokens can use 2 blocks of 4.", "(len(tokens) - 1) // block_size * block_size",
               "max(0, len(tokens) - block_size) // block_size * block_size"),
        _wrong("unchained", "you make each key from the block's own tokens. The key before it goes in as well: that is "
               "what ties a block to its text.", "key = block_key(key, part)", "key = block_key(0, part)"),
        _wrong("next-token", "each of your blocks begins one token after the one before. The next block begins where "
               "this one ends, block_size tokens further.", "part = tokens[start:start + block_size]",
               "part = tokens[start // block_size:][:block_size]"),
        _wrong("jumps-the-gap", "you go on behind a block that is missing. What comes later was computed after another "
               "text; that its key fits is chance.", "        else:\n            return blocks",
               "        else:\n            continue"),
        _wrong("counts-tokens", "you return the number of tokens; give the list of blocks, which the request will "
               "hold.",
               "        else:\n            return blocks", "        else:\n            return len(blocks) * block_size",
               "        parent = block\n    return blocks",
               "        parent = block\n    return len(blocks) * block_size"),
    ),
    seconds=0.5,
)
