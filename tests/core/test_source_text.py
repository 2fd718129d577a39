"""The running examples of the source text, with the numbers that hold (its static batch is in test_static_batching,
its table of 50 tokens in test_block_table)."""
from __future__ import annotations

import pytest

from minipaged.core import KVCacheManager

from .helpers import add, admit, append, finish_all, make, play, queues, request, tables
from .shadow import ShadowExecutor

PROMPT = list(range(50, 60))  # the system prompt: 10 tokens, P0 and P1 full, P2 half full


def test_text3_50_tokens_take_4_blocks_of_16() -> None:
    kv = KVCacheManager(20, 16)
    assert admit(kv, request("a", 50)) == (0, [0, 1, 2, 3])
    assert admit(kv, request("b", 48)) == (0, [4, 5, 6])


@pytest.mark.parametrize("tokens", [17])
@pytest.mark.parametrize(("size", "blocks", "wasted"), [(64, 1, 47), (16, 2, 15)])
def test_text5_17_tokens_and_what_they_waste(tokens: int, size: int, blocks: int, wasted: int) -> None:
    kv = KVCacheManager(4, size)
    table = admit(kv, request("a", tokens))[1]
    assert len(table) == blocks and len(table) * size - tokens == wasted


def test_text6_the_writer_copies_P2_request_2_writes_first() -> None:
    scheduler = make(8)
    executor = ShadowExecutor(scheduler)
    one = add(scheduler, "1", PROMPT, max_tokens=9)
    play(scheduler, run=executor.run)  # computes P0, P1, P2 = 0, 1, 2 and commits the tail
    two = add(scheduler, "2", [*PROMPT, 7], max_tokens=9)
    plan = scheduler.schedule()
    # request 1 writes into P2 in this step too, but it runs first, when it still holds P2 alone
    assert plan.num_scheduled_tokens == {"1": 1, "2": 1}
    assert plan.copies == [(2, 3)] and tables(scheduler) == {"1": [0, 1, 2], "2": [0, 1, 3]}
    assert scheduler.kv.allocator.ref_count[:4] == [2, 2, 1, 1]  # P0, P1, P2, P2'
    scheduler.commit(plan, executor.run(plan))
    finish_all(scheduler, one, two, executor=executor)
    assert two.num_cached_tokens == 10


def test_text6_counts_before_and_after_the_copy() -> None:
    kv = KVCacheManager(8, 4)
    one, two = request("1", PROMPT), request("2", [*PROMPT, 7])
    admit(kv, one)
    match = kv.match(two)
    assert (match.blocks, match.tail, match.num_tokens) == ([0, 1], 2, 10)
    assert kv.allocator.ref_count[:4] == [1, 1, 1, 0]  # a lookup holds nothing
    assert kv.blocks_needed(two, match) == 1  # only P2'
    assert kv.admit(two, match, 1) == (0, 1, 3)
    assert kv.allocator.ref_count[:4] == [2, 2, 1, 1]


def test_text6_mirror_request_1_writes_first_and_copies() -> None:
    kv = KVCacheManager(8, 4)
    one = request("1", PROMPT)
    admit(kv, one)
    two = one.fork("2")
    kv.fork(one, two)
    assert kv.allocator.ref_count[:4] == [2, 2, 2, 0]
    assert append(kv, one, [7]).copies == [(2, 3)]
    assert tables(kv) == {"1": [0, 1, 3], "2": [0, 1, 2]}
    assert kv.allocator.ref_count[:4] == [2, 2, 1, 1]
    assert append(kv, two, [8]).copies == []  # alone in P2 now: written in place
    assert tables(kv) == {"1": [0, 1, 3], "2": [0, 1, 2]}


def test_text6_ten_requests_share_a_prefix_of_full_blocks_without_a_copy() -> None:
    kv = KVCacheManager(200, 16)
    prefix = list(range(2000))  # 125 full blocks: no tail to copy
    tables_of = [admit(kv, request(str(index), [*prefix, 9000 + index])) for index in range(10)]
    assert [cached for cached, _ in tables_of] == [0] + [2000] * 9
    assert kv.num_blocks - kv.free_count == 125 + 10
    assert kv.allocator.ref_count[:125] == [10] * 125


#: the source text's requests: name -> output tokens; one-step prefill, four seats
OUTPUTS = {"A": 100, "B": 50, "C": 200, "D": 30, "E": 120, "F": 80, "G": 60}


def test_text7_the_step_table_of_continuous_batching() -> None:
    scheduler = make(200, 16, max_num_seqs=4)
    requests = {name: add(scheduler, name, 1, max_tokens=count) for name, count in OUTPUTS.items()}
    executor, rows = ShadowExecutor(scheduler), {}
    for step in range(1, 102):
        plan = play(scheduler, run=executor.run)[0]
        rows[step] = {name: requests[name].num_output_tokens for name in plan.num_scheduled_tokens}
    assert [(step, rows[step]) for step in (1, 30, 31, 50, 51, 100, 101)] == [
        (1, {"A": 1, "B": 1, "C": 1, "D": 1}),
        (30, {"A": 30, "B": 30, "C": 30, "D": 30}),
        (31, {"A": 31, "B": 31, "C": 31, "E": 1}),
        (50, {"A": 50, "B": 50, "C": 50, "E": 20}),
        (51, {"A": 51, "C": 51, "E": 21, "F": 1}),
        (100, {"A": 100, "C": 100, "E": 70, "F": 50}),
        (101, {"C": 101, "E": 71, "F": 51, "G": 1})]
    assert queues(scheduler) == (["C", "E", "F", "G"], [])
    finish_all(scheduler, *requests.values(), executor=executor)


def test_text8_blocks_are_taken_when_they_are_needed_not_for_max_tokens() -> None:
    scheduler = make(100, 16)
    add(scheduler, "a", 20, max_tokens=1000)
    blocks = {}
    for step in range(1, 40):
        play(scheduler)
        blocks[step] = len(tables(scheduler)["a"])
    # step 1 computes the 20 prompt tokens, step n token 19 + n: block 3 is needed for position 32, in step 14
    assert (blocks[1], blocks[13], blocks[14], blocks[29], blocks[30]) == (2, 2, 3, 3, 4)


def test_text8_the_asker_may_be_the_victim_and_nobody_is_skipped() -> None:
    scheduler = make(3, enable_prefix_caching=False)
    requests = [add(scheduler, name, 4, max_tokens=6) for name in "abc"]
    plans = finish_all(scheduler, *requests)
    assert [(plan.num_scheduled_tokens, plan.preempted) for plan in plans[:3]] == [
        ({"a": 4, "b": 4, "c": 4}, []), ({"a": 1}, ["c", "b"]), ({"a": 1}, [])]


def test_text8_step_is_schedule_run_commit() -> None:
    scheduler = make(8)
    one = add(scheduler, "a", 5, max_tokens=1)
    seen = []

    def run(plan) -> dict[str, int]:
        seen.append(plan.num_scheduled_tokens)
        return {"a": 42}

    assert scheduler.step(run) == [one]
    assert seen == [{"a": 5}] and one.output_token_ids == [42]
