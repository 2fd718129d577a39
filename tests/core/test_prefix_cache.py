"""The prefix cache: tails of partly filled blocks, what a write or an eviction withdraws, what a step publishes."""
from __future__ import annotations

import pytest

from minipaged.core import EventLog, KVCacheManager, PrefixCache, Request, check_invariants
from minipaged.core.block_hash import encode, show_key

from .helpers import add, admit, append, done, finish_all, make, play, request, tables
from .shadow import ShadowExecutor


def found(kv: KVCacheManager, tokens, **options) -> tuple[list[int], int | None, int]:
    match = kv.match(Request("x", tokens, **options))
    return match.blocks, match.tail, match.num_tokens


# ---- tails ----

def test_a_tail_is_published_by_commit_not_by_the_plan() -> None:
    scheduler = make(8)
    add(scheduler, "a", range(6))
    plan = scheduler.schedule()
    assert found(scheduler.kv, range(9)) == ([0], None, 4)  # the full block already, for a step writes, then attends
    scheduler.commit(plan, {"a": 99})
    assert found(scheduler.kv, range(9)) == ([0], 1, 6)


@pytest.mark.parametrize(("tokens", "result"), [
    (range(7), ([0], 1, 6)),  # the tail covers 2 tokens, 1 is left
    (range(6), ([0], 1, 5)),  # 2 tokens would leave nothing
    ([0, 1, 2, 3, 4, 9, 9], ([0], 1, 5)),  # the second token of the tail differs
    ([0, 1, 2, 3, 9, 5, 9], ([0], None, 4)),  # the first one does
    ([0, 1, 2, 9, 4, 5, 6], ([], None, 0)),  # another parent
    ([9], ([], None, 0)),
])
def test_a_tail_is_found_under_its_parent_token_by_token(tokens, result: tuple) -> None:
    kv = KVCacheManager(8, 4)
    admit(kv, Request("a", range(6)))
    assert found(kv, tokens) == result


def test_a_tail_grows_and_serves_whoever_starts_with_the_same_tokens() -> None:
    kv = KVCacheManager(8, 8)
    one = Request("a", [0, 1])
    admit(kv, one)
    append(kv, one, [2, 3])
    append(kv, one, [4])
    lengths = [found(kv, [*range(count), 99, 98])[2] for count in range(1, 7)]
    assert lengths == [1, 2, 3, 4, 5, 5]
    assert found(kv, [0, 1, 2, 3])[1:] == (0, 3)  # one token must be left
    assert kv.prefix_cache.covered[0] == 5


def test_the_longest_tail_wins_and_of_equals_the_first_published() -> None:
    kv = KVCacheManager(8, 4)
    admit(kv, Request("a", [1, 2]))
    blind = Request("b", [1, 2, 3], skip_reading_prefix_cache=True)
    admit(kv, blind)
    again = Request("c", [1, 2, 3], skip_reading_prefix_cache=True)
    admit(kv, again)
    assert tables(kv) == {"a": [0], "b": [1], "c": [2]}
    assert found(kv, [1, 2, 3, 4]) == ([], 1, 3)
    assert found(kv, [1, 2, 9]) == ([], 0, 2)


def test_a_prompt_that_ends_where_a_full_block_ends_uses_all_of_it_but_one_token() -> None:
    kv = KVCacheManager(8, 4)
    admit(kv, Request("a", range(9)))
    assert found(kv, range(8)) == ([0], 1, 7)
    assert found(kv, range(4)) == ([], 0, 3)
    assert found(kv, [0, 1, 2, 9]) == ([], None, 0)
    off = KVCacheManager(8, 4, share_partial_blocks=False)
    admit(off, Request("a", range(9)))
    assert found(off, range(8)) == ([0], None, 4)


def test_a_block_that_this_step_fills_is_shared_whole_but_not_in_part() -> None:
    scheduler = make(8)
    a, b = add(scheduler, "a", range(8)), add(scheduler, "b", range(8))
    plan = scheduler.schedule()
    assert plan.num_scheduled_tokens == {"a": 8, "b": 4} and plan.copies == []
    scheduler.cancel(plan)
    finish_all(scheduler, a, b)


def test_blocks_of_two_tokens_can_be_used_by_half() -> None:
    kv = KVCacheManager(8, 2)
    admit(kv, Request("a", range(4)))
    assert found(kv, range(4)) == ([0], 1, 3) and found(kv, range(2)) == ([], 0, 1)


def test_blocks_of_one_token_have_no_tail() -> None:
    kv = KVCacheManager(8, 1)
    admit(kv, Request("a", range(4)))
    assert found(kv, range(4)) == ([0, 1, 2], None, 3)
    assert found(kv, range(6)) == ([0, 1, 2, 3], None, 4)


# ---- writing into a block that can be found ----

def test_a_write_in_place_withdraws_the_keys_that_cover_more() -> None:
    log = EventLog()
    kv = KVCacheManager(8, 4, events=log)
    one = Request("a", [0, 1])
    admit(kv, one)
    append(kv, one, [2])  # keys of 2 and 3 tokens
    kv.free(one)
    other = Request("b", [0, 1, 9])
    assert admit(kv, other) == (2, [0])  # writes its 9 where a had its 2
    assert [(event.block, event.num_tokens, event.reason) for event in log.select("withdraw")] == [(0, 3, "overwrite")]
    assert found(kv, [0, 1, 2, 3]) == ([], 0, 2)
    assert found(kv, [0, 1, 9, 3]) == ([], 0, 3)


def test_a_write_into_a_full_block_withdraws_it() -> None:
    log = EventLog()
    kv = KVCacheManager(8, 4, events=log)
    one = Request("a", range(4))
    admit(kv, one)
    kv.free(one)
    again = Request("b", range(4))
    assert admit(kv, again) == (3, [0])
    assert [(event.block, event.num_tokens, event.reason) for event in log.select("withdraw")] == [(0, 4, "overwrite")]
    assert found(kv, range(5)) == ([0], None, 4)  # and publishes it again


def test_a_full_block_keeps_its_tail_keys_beside_its_own() -> None:
    kv = KVCacheManager(8, 4)
    one = Request("a", [0, 1])
    admit(kv, one)
    append(kv, one, [2, 3])
    assert kv.prefix_cache.covered[0] == 4
    assert found(kv, [0, 1, 9]) == ([], 0, 2)
    kv.free(one)
    assert admit(kv, Request("b", [0, 1, 9])) == (2, [0])  # the full key goes, the tail key of 2 stays
    assert kv.prefix_cache.covered[0] == 3
    assert found(kv, [0, 1, 2, 3, 4]) == ([], 0, 2)


def test_a_shared_tail_is_copied_and_keeps_its_keys() -> None:
    kv = KVCacheManager(8, 4)
    admit(kv, Request("a", [0, 1]))
    assert admit(kv, Request("b", [0, 1, 9])) == (2, [1])
    assert tables(kv) == {"a": [0], "b": [1]} and kv.prefix_cache.covered[:2] == [2, 3]
    assert found(kv, [0, 1, 7]) == ([], 0, 2) and found(kv, [0, 1, 9, 7]) == ([], 1, 3)


def test_allocation_withdraws_every_key_and_drops_what_nothing_hangs_on() -> None:
    log = EventLog()
    kv = KVCacheManager(2, 4, events=log)
    one = Request("a", range(6))
    admit(kv, one)
    kv.free(one)
    assert kv.allocator.free_blocks() == [1, 0]
    admit(kv, Request("b", [9]))  # takes block 1, the tail
    assert [(event.block, event.num_tokens, event.reason) for event in log.select("withdraw")] == [(1, 2, "evict")]
    assert found(kv, range(9)) == ([0], None, 4)
    admit(kv, Request("c", [8]))
    assert len(kv.prefix_cache) == 0 and found(kv, range(9)) == ([], None, 0)


def test_a_child_outlives_its_parent_and_is_found_again_with_it() -> None:
    kv = KVCacheManager(3, 4, free_order="append")
    one = Request("a", range(8))
    admit(kv, one)
    kv.prefix_cache.withdraw(0)  # the first block can't be found any more, the second one keeps its place
    assert len(kv.prefix_cache) == 1 and found(kv, range(9)) == ([], None, 0)
    kv.prefix_cache.withdraw(1)
    assert len(kv.prefix_cache) == 0
    kv = KVCacheManager(4, 4)
    admit(kv, Request("a", range(8)))
    kv.prefix_cache.withdraw(0)
    blind = Request("b", range(4), skip_reading_prefix_cache=True)
    admit(kv, blind)
    assert found(kv, range(9)) == ([2, 1], None, 8)


def test_a_hit_takes_the_duplicates_of_the_first_publisher() -> None:
    kv = KVCacheManager(8, 4)
    first, second = Request("a", range(4)), Request("b", range(4), skip_reading_prefix_cache=True)
    admit(kv, first), admit(kv, second)
    kv.free(first)
    assert found(kv, range(5)) == ([0], None, 4)
    filler = request("f", 28)
    admit(kv, filler)  # takes every free block, block 0 too
    assert kv.free_count == 0 and found(kv, range(5)) == ([1], None, 4)


def test_reset_counts_blocks_with_keys_and_reports() -> None:
    log = EventLog()
    kv = KVCacheManager(8, 4, events=log)
    one = Request("a", range(6))
    admit(kv, one)
    assert kv.reset_prefix_cache() is False and log.select("reset") == []
    kv.free(one)
    assert kv.reset_prefix_cache() is True
    assert [event.num_keys for event in log.select("reset")] == [2]
    assert {event.reason for event in log.select("withdraw")} == {"reset"}
    check_invariants(kv)


def test_publishing_the_same_tail_again_says_nothing() -> None:
    log = EventLog()
    kv = KVCacheManager(8, 4, events=log)
    one = Request("a", range(6))
    admit(kv, one)
    count = len(log.select("publish"))
    kv.commit([one])
    assert len(log.select("publish")) == count


# ---- growth, keys, salts ----

def test_keys_are_computed_once_for_a_request() -> None:
    calls = []

    def counting(parent: object, tokens) -> object:
        calls.append(tuple(tokens))
        return (parent, tuple(tokens))

    kv = KVCacheManager(16, 4, hash_fn=counting)
    one = Request("a", range(16))
    kv.match(one)
    admit(kv, one)
    append(kv, one, [7] * 4)
    assert calls == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15), (7, 7, 7, 7)]
    child = one.fork("c")
    kv.fork(one, child)
    append(kv, child, [8] * 4)
    append(kv, one, [9] * 4)  # parent and child go apart
    assert calls[5:] == [(8, 8, 8, 8), (9, 9, 9, 9)]


def test_each_request_of_a_step_leaves_its_tail() -> None:
    scheduler = make(8)
    add(scheduler, "without", range(4))
    add(scheduler, "with", range(10, 16))
    play(scheduler)
    assert found(scheduler.kv, range(10, 17)) == ([1], 2, 6)


def test_a_cancelled_plan_withdraws_in_the_order_of_the_blocks() -> None:
    log = EventLog()
    scheduler = make(9, events=log)
    add(scheduler, "a", 32, max_tokens=1)
    play(scheduler)
    add(scheduler, "b", 8)
    plan = scheduler.schedule()
    assert plan.scheduled[0].block_table == (8, 7)
    scheduler.cancel(plan)
    assert [event.block for event in log.select("withdraw", reason="cancel")] == [7, 8]


def test_show_key_and_encode() -> None:
    assert show_key(b"\x01" * 32) == "010101010101" and show_key(None) is None and show_key(12) == "12"
    assert encode("é") == b"'\xc3\xa9'" and encode(None) == b"None"
    assert encode((1, b"x")) == b"(1,b'x',)" and encode("\ud800") == b"'\\ud800'"
    with pytest.raises(TypeError, match="a cache salt can't hold a set; use None, numbers, text, bytes or tuples"):
        encode({1})


def test_len_counts_full_blocks_only() -> None:
    cache = PrefixCache(4, 4)
    assert len(cache) == 0
    cache.store(range(6), [2, 3])
    assert len(cache) == 1 and cache.covered == [0, 0, 4, 2]
    assert cache.reset() == 2 and cache.covered == [0, 0, 0, 0]


@pytest.mark.parametrize("partial", [True, False])
def test_a_conversation_finds_all_of_its_past(partial: bool) -> None:
    """Each turn's prompt is the last one with its answer and a question: what was computed is not computed again."""
    scheduler = make(32, share_partial_blocks=partial)
    executor, history, known = ShadowExecutor(scheduler), [1, 2, 3, 4, 5], 0
    for turn in range(4):
        one = add(scheduler, str(turn), history, max_tokens=5)
        finish_all(scheduler, one, executor=executor)
        assert one.num_cached_tokens == (known if partial else known // 4 * 4)
        known = one.num_computed_tokens
        history = [*one.token_ids, 50 + turn, 60]


def test_caching_off_publishes_nothing_and_shares_nothing() -> None:
    log = EventLog()
    scheduler = make(8, enable_prefix_caching=False, events=log)
    requests = [add(scheduler, name, range(6)) for name in "ab"]
    play(scheduler)
    assert tables(scheduler) == {"a": [0, 1], "b": [2, 3]}
    play(scheduler, 3)
    assert all(one.is_finished for one in requests)
    assert log.select("publish", "withdraw", "share") == []


def test_no_match_is_served_to_a_reader_that_must_not_read() -> None:
    kv = KVCacheManager(8, 4)
    admit(kv, Request("a", range(8)))
    assert found(kv, range(9), skip_reading_prefix_cache=True) == ([], None, 0)
    done(kv)
