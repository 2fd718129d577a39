"""A lookup finds exactly what a plain model of the prefix cache says: no token less, none that is not there.

The model remembers whole token prefixes in a set, so it needs neither hashes nor blocks. Nobody leaves and the
pool is ample: nothing that was computed is ever forgotten.
"""
from __future__ import annotations

from random import Random

import pytest

from minipaged.core import KVCacheManager, Request

from .helpers import admit, append, done


class Model:
    """What is known: prefixes that fill blocks, and tokens after these in a block that a step left part full."""

    def __init__(self, block_size: int, share_partial_blocks: bool) -> None:
        self.size, self.partial = block_size, share_partial_blocks
        self.full: set[tuple[int, ...]] = {()}
        self.parts: set[tuple[int, ...]] = set()

    def computed(self, tokens: list[int]) -> None:
        """A step of a request with these tokens is over."""
        self.full |= {tuple(tokens[:end]) for end in range(self.size, len(tokens) + 1, self.size)}
        full = len(tokens) // self.size * self.size
        self.parts |= {tuple(tokens[:end]) for end in range(full + 1, len(tokens) + 1)}

    def match(self, tokens: list[int]) -> int:
        """How many tokens of a prompt are known, of which at least one is to be computed."""
        limit = len(tokens) - 1
        start = max(end for end in range(0, limit + 1, self.size) if tuple(tokens[:end]) in self.full)
        if not self.partial:
            return start
        if limit == start + self.size - 1 and tuple(tokens) in self.full:
            return limit
        return max((end for end in range(start + 1, min(limit, start + self.size - 1) + 1)
                    if tuple(tokens[:end]) in self.parts), default=start)


@pytest.mark.parametrize("share_partial_blocks", [True, False])
@pytest.mark.parametrize("block_size", [1, 2, 3, 4, 5])
def test_a_lookup_finds_exactly_what_is_known(block_size: int, share_partial_blocks: bool) -> None:
    random = Random(block_size)
    for seed in range(12):
        weak = (None, 1, 3)[seed % 3]
        options = {"hash_fn": lambda parent, tokens, weak=weak: sum(tokens) % weak} if weak else {}
        kv = KVCacheManager(300, block_size, share_partial_blocks=share_partial_blocks, **options)
        model = Model(block_size, share_partial_blocks)
        requests: list[Request] = []
        for number in range(12):
            start = random.choice(requests).token_ids if requests and random.random() < 0.7 else []
            prompt = start[:random.randrange(len(start) + 1)]
            prompt = prompt + [random.randrange(2) for _ in range(random.randrange(0 if prompt else 1, 7))]
            expected = model.match(prompt)
            one = Request(f"r{number}", prompt)
            assert kv.match(one).num_tokens == expected, f"{prompt} with {sorted(model.parts)}"
            assert admit(kv, one)[0] == expected
            model.computed(prompt)
            requests.append(one)
            for _ in range(random.randrange(4)):
                grown = random.choice(requests)
                append(kv, grown, [random.randrange(2) for _ in range(random.randrange(1, 4))])
                model.computed(grown.token_ids)


def test_of_equal_tails_the_one_published_first_is_taken() -> None:
    kv = KVCacheManager(8, 4)
    first, second = Request("first", [1, 2]), Request("second", [1, 2])
    matches = [kv.match(first), kv.match(second)]  # both before anything is known: each computes its own
    for one, match in zip((first, second), matches):
        assert match.num_tokens == 0 and kv.admit(one, match, 2) is not None
    done(kv, first, second)
    assert (kv.blocks_of("first"), kv.blocks_of("second")) == ((0,), (1,))
    found = kv.match(Request("third", [1, 2, 9, 9]))
    assert (found.blocks, found.tail, found.num_tokens) == ([], 0, 2)
