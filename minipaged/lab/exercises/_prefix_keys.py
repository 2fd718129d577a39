"""Lab of chapter 06: break a weak key, then make one that holds."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._prefix_match import block_key
from minipaged.lab.plain import Said
from minipaged.lab.trace import Trace

KEYS = '''\
from hashlib import sha256

def forge(tokens, block_size):
    return [token + 97 for token in tokens]

def block_keys(tokens, block_size, salt):
    key, keys = sha256(repr(salt).encode()).digest(), []
    for start in range(0, len(tokens) - block_size + 1, block_size):
        part = tokens[start:start + block_size]
        key = sha256(key + repr(part).encode()).digest()
        keys.append(key)
    return keys
'''
LARGEST = 999  # token id of a forged prompt
SALTS = (None, "None", "", 0, 1, "1", -1, -2)


def _weak_keys(tokens: list[int], size: int) -> list[int]:
    key, keys = 0, []
    for start in range(0, len(tokens), size):
        key = block_key(key, tokens[start:start + size])
        keys.append(key)
    return keys


def _case(rng: random.Random) -> dict:
    size = rng.randint(1, 3)
    one = [rng.choice([1, 2, 3, 12, 23, rng.randint(0, 70_000)]) for _ in range(rng.randint(0, 7))]
    other, change_at = list(one), rng.randint(0, 6)
    if change_at < len(one):
        following = min(change_at + 1, len(one) - 1)
        kind = rng.choice(["equal", "swap", "add", "digits"])
        if kind == "swap":
            other[change_at], other[following] = one[following], one[change_at]
        elif kind == "add":
            other[change_at] += rng.choice([1, 97, 256, 65_536])
        elif kind == "digits" and following > change_at:  # 1, 23 and 12, 3 look alike when nothing stands between
            one[change_at:following + 1], other[change_at:following + 1] = [1, 23], [12, 3]
    victim = [rng.choice([7, 7, rng.randint(0, 800)]) for _ in range(size * rng.randint(1, 2))]
    first = rng.choice(SALTS)
    return {"block_size": size, "victim": victim,
            "prompts": [[one, first], [other, rng.choice([first, first, rng.choice(SALTS)])]]}


def _drive(trace: Trace, case: dict) -> None:
    size, victim, found = case["block_size"], case["victim"], []

    def forged(tokens: list[int]) -> Said:
        if len(tokens) != len(victim) or any(type(one) is not int or not 0 <= one <= LARGEST for one in tokens):
            return Said(f"not {len(victim)} token ids from 0 to {LARGEST}")
        if tokens == victim:
            return Said("the victim's own prompt")
        same = _weak_keys(tokens, size) == _weak_keys(victim, size)
        return Said("another prompt with the same keys" if same else "a prompt with other keys")

    def counted(keys: list) -> Said:
        if any(type(key) not in (str, bytes, int) for key in keys):
            return Said("a list in which not every key is text, bytes or a whole number")
        return Said(f"{len(keys)} key(s)")

    if victim:
        trace.call("forge", victim, size, view=forged)
    for prompt, salt in case["prompts"]:
        prompt = prompt if isinstance(prompt, list) else list(range(prompt))
        found.append(trace.call("block_keys", prompt, size, salt, view=counted))
        if not isinstance(found[-1], (list, tuple)):
            return
        trace.result("different keys of this prompt", len(set(map(repr, found[-1]))))
    for number in range(1, len(found)):
        trace.result(f"blocks with the same key in the prompts {number} and {number + 1}",
                     [at for at, (one, other) in enumerate(zip(found[number - 1], found[number])) if one == other])


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(KEYS, *pairs))


KEYS_EXERCISE = Exercise(
    id="prefix.keys",
    title="Break a key, make a key",
    chapter="06_prefix_cache",
    minutes=25,
    level="hard",
    goal="Forge a prompt that a weak key takes for another one, then write keys that cannot be forged.",
    interface=("forge(tokens, block_size)", "block_keys(tokens, block_size, salt)"),
    hints=("block_key adds up the tokens and keeps the rest of a division by 97. What can you do to a block so that "
           "this rest stays? And for your own keys: which parts of a text decide what is in its third block?",
           "forge: 97 more changes no rest. block_keys: begin with a strong hash of the salt; each block's key is a "
           "strong hash of the key before it and of its tokens, written so that 1, 23 and 12, 3 are different, and 1 "
           "and '1' too (repr helps).",
           "forge: [token + 97 for token in tokens]. block_keys: key = sha256(repr(salt).encode()).digest(); for each "
           "full block: key = sha256(key + repr(part).encode()).digest(), and append it."),
    rule="forge gives other token ids of the same number, from 0 to 999, with the same key for every block. block_keys "
         "gives a key for each full block; two keys are equal only when the salt and all tokens up to the end of the "
         "block are.",
    examples=({"block_size": 4, "victim": [1, 2, 3, 4, 5, 6, 7, 8],
               "prompts": [[[1, 2, 3, 4, 5, 6, 7, 8, 9], "alice"], [[1, 2, 3, 4, 5, 6, 8, 7], "alice"],
                           [[1, 2, 3, 4, 5, 6, 8, 7], "bob"]]},
              {"block_size": 2, "victim": [5, 5], "prompts": [[[9, 9, 1, 2], None], [[9, 8, 1, 2], None]]},
              {"block_size": 1, "victim": [0], "prompts": [[[1], None], [[1], "None"], [[1], 1], [[1], "1"]]},
              {"block_size": 1, "victim": [0], "prompts": [[[1], -1], [[1], -2]]},
              {"block_size": 1, "victim": [], "prompts": [[1200, None]]}),
    case=_case,
    drive=_drive,
    reference=lambda: from_source(KEYS),
    misconceptions=(
        _wrong("reversed-prompt", "you turn the whole prompt round: then the blocks change places, and so do their "
               "sums. Stay inside each block.", "[token + 97 for token in tokens]", "tokens[::-1]"),
        _wrong("only-swaps", "you change the order inside a block. That keeps the sum, but it changes nothing where "
               "all tokens are equal. What else keeps the rest of a division by 97?", "[token + 97 for token in "
               "tokens]",
               "[t for at in range(0, len(tokens), block_size) for t in tokens[at:at + block_size][::-1]]"),
        _wrong("unchained", "the key of a block knows nothing of the text before it: the second block gets the same "
               "key after any first block.", "        key = sha256(key + repr(part).encode()).digest()\n        "
               "keys.append(key)",
               "        keys.append(sha256(key + repr(part).encode()).digest())"),
        _wrong("no-salt", "two users with different salts get the same keys, so one can find out, by how fast the "
               "answer comes, what the other has asked.", "sha256(repr(salt).encode()).digest()", "b\"\""),
        _wrong("salt-as-text", "with str() None and 'None' become the same text, 1 and '1' too: different salts must "
               "stay different.", "repr(salt)", "str(salt)"),
        _wrong("no-separator", "you write the tokens without anything between them: 1, 23 and 12, 3 both become 123.",
               "repr(part)", "\"\".join(map(str, part))"),
        _wrong("order-lost", "your key does not see the order of the tokens in a block.", "repr(part)",
               "repr(sorted(part))"),
        _wrong("one-byte-tokens", "you keep one byte of a token; ids go far above 255, and 1 and 257 become the same.",
               "repr(part).encode()", "bytes(token % 256 for token in part)"),
        _wrong("short-keys", "you keep 2 bytes of the hash. There are 65,536 such keys: among 1,200 blocks some are "
               "equal by chance alone.", "keys.append(key)", "keys.append(key[:2])"),
        _wrong("python-hash", "Python's hash() is not made for this: hash(-1) == hash(-2), and whoever knows it can "
               "make two blocks collide. Use a cryptographic one, such as sha256.",
               "sha256(repr(salt).encode()).digest()", "hash(salt)", "sha256(key + repr(part).encode()).digest()",
               "hash((key, tuple(part)))"),
        _wrong("part-block", "the tokens behind the last full block get no key: the block is still being filled.",
               "len(tokens) - block_size + 1", "len(tokens)"),
    ),
)
