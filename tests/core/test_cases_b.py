"""Public bug reports, part B: the prefix cache never serves anything but what was asked.

Adapters, images and versions are salts here (`cache_salt`): whoever serves them puts id and version, or shape, dtype
and a strong hash, into it. B2's position inside an image is part of the token chain.
"""
from __future__ import annotations

from random import Random

import pytest

from minipaged.core import EventLog, KVCacheManager, PrefixCache, Request
from minipaged.core.block_hash import encode, root_key
from minipaged.errors import RequestError

from .helpers import add, admit, finish_all, make, play, request, tables
from .shadow import ShadowExecutor

WEAK = {"sum": lambda parent, tokens: sum(tokens) % 256, "constant": lambda parent, tokens: 0,
        "builtin": lambda parent, tokens: hash((parent, tuple(tokens)))}


def serve(scheduler, *prompts, max_tokens: int = 3, executor: ShadowExecutor | None = None) -> list[int]:
    """Serve prompts one after the other, contents checked; their cached tokens."""
    executor, cached = executor or ShadowExecutor(scheduler), []
    for number, prompt in enumerate(prompts):
        one = add(scheduler, f"r{number}", prompt, max_tokens)
        finish_all(scheduler, one, executor=executor)
        cached.append(one.num_cached_tokens)
    return cached


@pytest.mark.parametrize("weak", WEAK)
def test_B1_a_weak_hash_never_serves_another_prompt(weak: str) -> None:
    scheduler = make(16, hash_fn=WEAK[weak])
    assert serve(scheduler, [1, 2, 3, 4, 9], [4, 3, 2, 1, 9], [1, 2, 3, 4, 9], [4, 3, 2, 1, 9]) == [0, 0, 4, 4]


@pytest.mark.parametrize("weak", WEAK)
def test_B1_the_parent_is_verified_too(weak: str) -> None:
    """With [X, W] and [Z, Y] known, the prompt [X, Y] must not find the Y that was computed after Z."""
    x, y, z, w = ([token] * 4 for token in (1, 2, 3, 4))
    scheduler = make(16, hash_fn=WEAK[weak])
    assert serve(scheduler, x + w + [0], z + y + [0], x + y + [0], x + y + [0]) == [0, 0, 4, 8]


def test_B1_equal_in_python_is_not_equal_here() -> None:
    values = [None, 0, 0.0, False, "", b"", (), "0", b"0", (0,), ((0,),), -1, -2, 1, True, 1.0]
    assert len({encode(value) for value in values}) == len(values)
    assert len({root_key(value) for value in values}) == len(values)
    assert encode([1, "a"]) == encode((1, "a"))  # a list from JSON is a tuple


def test_B2_salts_are_not_cut() -> None:
    random = Random(0)
    salts = [0x10001, 0x00001, *(random.getrandbits(64) for _ in range(318))]
    assert len({root_key(salt) for salt in salts}) == len(set(salts)) == 320
    kv = KVCacheManager(8, 4)
    admit(kv, Request("a", [7] * 8, cache_salt=0x10001))
    assert kv.match(Request("b", [7] * 8, cache_salt=0x00001)).num_tokens == 0
    assert kv.match(Request("c", [7] * 8, cache_salt=0x10001)).num_tokens == 7


@pytest.mark.parametrize(("one", "two"), [
    (((30, 150), b"pixels"), ((150, 30), b"pixels")),
    (((1, 2), (3, 4, 5)), ((1, 2, 3), (4, 5))),
    (("float32", b"\0\0\0\0"), ("int32", b"\0\0\0\0")),
    (("ab", "c"), ("a", "bc")), (("a",), "a"), (1, "1"), ((), None),
])
def test_B3_shape_dtype_and_boundaries_are_part_of_a_salt(one: object, two: object) -> None:
    assert root_key(one) != root_key(two)


def test_B3_a_salt_that_cannot_be_written_is_refused_before_anything_happens() -> None:
    scheduler = make(8)
    for salt in ({"a": 1}, object(), {1}, ("ok", [object()])):
        with pytest.raises(RequestError, match="request a: a cache salt can't hold a .*; use None, numbers, text"):
            add(scheduler, "a", 4, cache_salt=salt)
    assert not scheduler.has_unfinished


@pytest.mark.parametrize(("salts", "hits"), [
    pytest.param([None, 1, 2, 1], [0, 0, 0, 7], id="B4-adapters"),
    pytest.param([("a", 1), ("a", 2), ("a", 1)], [0, 0, 7], id="B5-same-name-other-id"),
    pytest.param([("a", 1, "v1"), ("a", 1, "v2")], [0, 0], id="B6-reloaded"),
])
def test_B4_B5_B6_another_salt_is_a_miss(salts: list, hits: list[int]) -> None:
    scheduler, found = make(32), []
    for number, salt in enumerate(salts):
        one = add(scheduler, f"r{number}", range(8), 2, cache_salt=salt)
        play(scheduler, 2)
        found.append(one.num_cached_tokens)
    assert found == hits


def test_B7_new_weights_need_a_reset_and_it_waits_for_live_requests() -> None:
    scheduler = make(16)
    executor = ShadowExecutor(scheduler)
    one = add(scheduler, "a", range(16), 4)
    play(scheduler, run=executor.run)
    assert scheduler.kv.reset_prefix_cache() is False
    finish_all(scheduler, one, executor=executor)
    assert scheduler.kv.reset_prefix_cache() is True
    executor.forget()
    again = add(scheduler, "again", range(16), 4)
    finish_all(scheduler, again, executor=executor)
    assert again.num_cached_tokens == 0


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize("length", [1, 4, 5, 7, 8, 9])
def test_B8_the_same_prompt_twice_computes_at_least_one_token(length: int, partial: bool) -> None:
    """Partial sharing computes the last token alone, sharing of full blocks the last block."""
    scheduler = make(8, share_partial_blocks=partial)
    kept = length - 1 if partial else (length - 1) // 4 * 4
    assert serve(scheduler, range(length), range(length), range(length)) == [0, kept, kept]


def test_B9_a_fully_cached_request_still_gets_its_tokens() -> None:
    scheduler = make(8)
    serve(scheduler, range(8), executor=(executor := ShadowExecutor(scheduler)))
    one = add(scheduler, "again", range(8), max_tokens=1)
    plan = finish_all(scheduler, one, executor=executor)[0]
    assert plan.num_scheduled_tokens == {"again": 1} and plan.scheduled[0].sample
    assert one.num_output_tokens == 1


@pytest.mark.parametrize("partial", [True, False])
def test_B10_recomputing_the_last_token_keeps_the_chain(partial: bool) -> None:
    scheduler = make(12, share_partial_blocks=partial)
    assert serve(scheduler, range(8), range(8), [*range(8), 50, 51, 52, 53])[2] == 8


def test_B11_a_reused_block_does_not_answer_for_its_old_contents() -> None:
    scheduler = make(2)
    x, y = range(1, 5), range(100, 108)
    assert serve(scheduler, x, y, x, max_tokens=1) == [0, 0, 0]
    assert len(scheduler.kv.prefix_cache) <= 2


def test_B12_freeing_keeps_the_keys_and_growth_is_bounded_by_the_pool() -> None:
    scheduler = make(4)
    executor = ShadowExecutor(scheduler)
    assert serve(scheduler, range(8), range(8), max_tokens=1, executor=executor) == [0, 7]
    for start in range(0, 200, 8):
        serve(scheduler, range(start, start + 8), executor=executor)
        assert len(scheduler.kv.prefix_cache) <= 4


@pytest.mark.parametrize("partial", [True, False])
@pytest.mark.parametrize(("length", "outputs"), [(12, 4), (5, 4), (9, 6)])
def test_B13_a_preempted_request_finds_its_own_blocks_before_tokens_are_counted(length: int, outputs: int,
                                                                                 partial: bool) -> None:
    scheduler = make(6, share_partial_blocks=partial)
    executor = ShadowExecutor(scheduler)
    rival = add(scheduler, "rival", 8, max_tokens=9)
    one = add(scheduler, "a", length, max_tokens=outputs)
    plans = []
    while scheduler.has_unfinished:
        plans += play(scheduler, run=executor.run)
        for item in plans[-1].scheduled:
            assert 0 <= item.start < item.context_len
    assert one.num_output_tokens == outputs and rival.num_output_tokens == 9
    if length == 12:
        assert one.num_preemptions >= 1
        resumed = next(plan for plan in plans if any(a.request_id == "a" and a.resumed for a in plan.admitted))
        admission = next(a for a in resumed.admitted if a.request_id == "a")
        item = next(item for item in resumed.scheduled if item.request_id == "a")
        assert item.start == admission.cached_tokens > 0
        assert item.num_tokens == item.context_len - admission.cached_tokens


def test_B14_twins_in_one_step() -> None:
    scheduler = make(12)
    executor = ShadowExecutor(scheduler)
    a, b = add(scheduler, "a", range(8), 2), add(scheduler, "b", range(8), 5)
    play(scheduler, 2, run=executor.run)
    assert a.is_finished and not b.is_finished
    assert scheduler.kv.match(request("x", range(9))).num_tokens == 8  # a's end did not take b's entry away
    finish_all(scheduler, b, executor=executor)
    c = add(scheduler, "c", range(8), 2)
    finish_all(scheduler, c, executor=executor)
    assert c.num_cached_tokens == 7


# ---- the cache alone, by the source text's names ----

def test_match_prefix_and_store_with_a_partial_tail() -> None:
    cache = PrefixCache(8, 4)
    cache.store(range(10), [5, 3, 6])
    assert cache.match_prefix(range(20)) == ([5, 3, 6], 10)
    assert cache.match_prefix([*range(9), 77]) == ([5, 3, 6], 9)
    assert cache.match_prefix([*range(10), 77]) == ([5, 3, 6], 10)
    assert cache.match_prefix(range(10)) == ([5, 3, 6], 9)  # one token must be left
    assert cache.match_prefix(range(8)) == ([5, 3], 7)
    assert cache.match_prefix([1, 2]) == ([], 0)
    assert cache.match_prefix(range(20), cache_salt="x") == ([], 0)


def test_store_again_changes_nothing_and_other_contents_replace() -> None:
    cache = PrefixCache(4, 2, share_partial_blocks=False)
    cache.store([1, 2, 3, 4], [0, 1])
    cache.store([1, 2, 3, 4], [0, 1])
    assert len(cache) == 2 and cache.match_prefix([1, 2, 3, 4, 5]) == ([0, 1], 4)
    cache.store([1, 2, 7, 8], [0, 1])
    assert cache.match_prefix([1, 2, 3, 4, 5]) == ([0], 2)
    assert cache.match_prefix([1, 2, 7, 8, 5]) == ([0, 1], 4)
    assert cache.reset() == 2 and len(cache) == 0 and cache.match_prefix([1, 2, 3]) == ([], 0)


def test_store_of_what_is_stored_says_nothing_and_another_salt_takes_the_block() -> None:
    log = EventLog()
    cache = PrefixCache(4, 2, events=log)
    cache.store([1, 2, 3, 4], [0, 1])
    count = len(log)
    cache.store([1, 2, 3, 4], [0, 1])
    assert len(log) == count
    cache.store([1, 2], [0], cache_salt="x")
    assert cache.match_prefix([1, 2, 0]) == ([], 0) and cache.match_prefix([1, 2, 0], cache_salt="x") == ([0], 2)


def test_store_over_other_contents_forgets_them() -> None:
    cache = PrefixCache(2, 4)
    cache.store(range(4), [0])
    cache.store([9, 9], [0])  # a partly filled block now
    assert cache.match_prefix([0, 1, 2, 3, 4]) == ([], 0)
    assert cache.match_prefix([9, 9, 9]) == ([0], 2)
    cache.store([8, 8, 8], [0])
    assert cache.match_prefix([9, 9, 9]) == ([], 0)
    assert cache.match_prefix([8, 8, 8, 8]) == ([0], 3)
    assert cache.covered == [3, 0]


def test_tables_of_different_salts_share_nothing() -> None:
    scheduler = make(12)
    for name, salt in (("a", None), ("b", "x"), ("c", "x")):
        add(scheduler, name, range(8), cache_salt=salt)
    play(scheduler)
    assert tables(scheduler) == {"a": [0, 1], "b": [2, 3], "c": [2, 4]}
