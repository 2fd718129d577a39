"""Public bug reports, part C: scheduler, preemption, life of a request. Every run is bounded in steps, memory
contents are checked at each, and every request's tokens are those it gets alone."""
from __future__ import annotations

import pytest

from minipaged.core import FinishReason
from minipaged.errors import RequestError

from .helpers import add, answer, finish_all, idle, make, play, queues, tables
from .shadow import ShadowExecutor

MODES = pytest.mark.parametrize("mode", [{}, {"preemption_mode": "swap", "num_cpu_blocks": 6},
                                         {"enable_prefix_caching": False}, {"victim": "most_generated"}], ids=str)


def test_C1_what_can_never_fit_is_refused_at_once_and_the_next_is_served() -> None:
    scheduler = make(8, max_model_len=128)
    with pytest.raises(RequestError) as refused:
        add(scheduler, "big", 40)
    assert str(refused.value) == ("request big needs 40 tokens = 10 blocks of 4; the pool holds 8 blocks (32 tokens). "
                                  "Raise num_blocks or shorten the prompt")
    small = add(scheduler, "small", 4)
    finish_all(scheduler, small, limit=4)


@pytest.mark.parametrize("prompt", [8, 7])
def test_C2_a_lone_request_that_outgrows_the_pool_ends_and_the_engine_goes_on(prompt: int) -> None:
    scheduler = make(2)
    one = add(scheduler, "a", prompt, max_tokens=4)
    finish_all(scheduler, one, limit=4)
    assert (one.finish_reason, one.num_output_tokens) == (FinishReason.CAPACITY, 9 - prompt)
    following = add(scheduler, "b", 4, max_tokens=4)
    finish_all(scheduler, following, limit=4)
    assert following.finish_reason is FinishReason.LENGTH


def test_C2_max_tokens_that_end_where_the_pool_ends_are_no_capacity_end() -> None:
    scheduler = make(2)
    one = add(scheduler, "a", 8, max_tokens=1)
    finish_all(scheduler, one)
    assert one.finish_reason is FinishReason.LENGTH


def test_C3_more_prompts_than_can_decode_all_finish() -> None:
    scheduler = make(3, 16, max_num_seqs=8)
    requests = [add(scheduler, str(index), 16, max_tokens=3) for index in range(8)]
    plans = finish_all(scheduler, *requests, limit=40)
    assert all(plan.total_tokens for plan in plans)


def test_C4_a_chunk_that_does_not_fit_waits_without_error() -> None:
    scheduler = make(4, max_num_batched_tokens=16)
    holder = add(scheduler, "a", 7, max_tokens=2)
    executor = ShadowExecutor(scheduler)
    play(scheduler, run=executor.run)
    late = add(scheduler, "b", 16, max_tokens=1)
    plans = finish_all(scheduler, holder, late, executor=executor)
    assert [plan.num_scheduled_tokens for plan in plans] == [{"a": 1}, {"b": 16}]


def test_C5_no_thrash_between_a_long_prompt_and_a_running_request() -> None:
    scheduler = make(20, 16, max_num_batched_tokens=32)
    a = add(scheduler, "a", 200, max_tokens=40)
    executor = ShadowExecutor(scheduler)
    play(scheduler, 7, run=executor.run)
    b = add(scheduler, "b", 240, max_tokens=4)
    plans = finish_all(scheduler, a, b, executor=executor)
    assert b.num_preemptions <= 1
    assert sum(plan.total_tokens for plan in plans) <= 2 * (240 + 244)


def test_C6_a_prompt_that_starts_can_be_finished() -> None:
    """Admission asks for all of a prompt's blocks, so no two chunked prompts hold what the other needs."""
    scheduler = make(20, 1, max_num_batched_tokens=6, enable_prefix_caching=False)
    a, b = add(scheduler, "a", 16, max_tokens=1), add(scheduler, "b", 12, max_tokens=1)
    plans = finish_all(scheduler, a, b, limit=6)
    assert [plan.num_scheduled_tokens for plan in plans] == [{"a": 6}, {"a": 6}, {"a": 4}, {"b": 6}, {"b": 6}]
    assert a.num_preemptions == b.num_preemptions == 0


@MODES
def test_C7_a_preempted_request_gets_exactly_its_tokens(mode: dict) -> None:
    scheduler = make(6, **mode)
    requests = [add(scheduler, name, 6, max_tokens=10) for name in "abc"]
    finish_all(scheduler, *requests)
    assert [one.num_output_tokens for one in requests] == [10, 10, 10]
    assert max(one.num_preemptions for one in requests) >= 1


@MODES
def test_C7_two_preemptions_of_one_request(mode: dict) -> None:
    scheduler = make(7, 2, **mode)
    requests = [add(scheduler, name, 2, max_tokens=10) for name in "abcd"]
    finish_all(scheduler, *requests)
    newest = mode.get("victim") is None
    assert [one.num_preemptions for one in requests] == ([0, 1, 2, 2] if newest else [0, 3, 1, 1])


def test_C7_tokens_of_a_resumed_request_are_not_sampled_again() -> None:
    """What it has said is computed in chunks like a prompt, and only the last chunk gives a token."""
    scheduler = make(5, max_num_batched_tokens=4, enable_prefix_caching=False)
    requests = [add(scheduler, name, 3, max_tokens=10) for name in "ab"]
    plans = finish_all(scheduler, *requests)
    chunks = [item for plan in plans for item in plan.scheduled if item.num_tokens > 1 and item.start >= 3]
    assert [(item.start, item.context_len, item.sample) for item in chunks] == [(4, 8, False)]
    assert [one.num_output_tokens for one in requests] == [10, 10]


def test_C8_scheduled_then_preempted_in_the_same_step() -> None:
    scheduler = make(3, scheduling_policy="priority", max_num_batched_tokens=5)
    a = add(scheduler, "a", 4, max_tokens=6, priority=1)
    executor = ShadowExecutor(scheduler)
    play(scheduler, run=executor.run)  # a: block 0
    b = add(scheduler, "b", 4, max_tokens=6, priority=0)
    play(scheduler, run=executor.run)  # a: blocks 0, 1; b: block 2
    assert tables(scheduler) == {"a": [0, 1], "b": [2]} and queues(scheduler) == (["a", "b"], [])
    plan = play(scheduler, run=executor.run)[0]
    assert plan.num_scheduled_tokens == {"b": 1} and plan.preempted == ["a"]
    assert queues(scheduler) == (["b"], ["a"]) and a.num_computed_tokens == 0
    assert len(tables(scheduler)["b"]) == 2 and list(tables(scheduler)) == ["b"]
    finish_all(scheduler, a, b, executor=executor)


def test_C8_the_tokens_of_the_unscheduled_victim_are_free_for_others() -> None:
    scheduler = make(4, scheduling_policy="priority", max_num_batched_tokens=4)
    add(scheduler, "a", 4, max_tokens=9, priority=1)
    play(scheduler)
    add(scheduler, "b", 8, max_tokens=6, priority=0)
    plans = play(scheduler, 4)
    assert [plan.num_scheduled_tokens for plan in plans] == [{"a": 1, "b": 3}, {"a": 1, "b": 3}, {"a": 1, "b": 2},
                                                            {"b": 1}]
    assert [plan.preempted for plan in plans] == [[], [], [], ["a"]]


def test_C9_seats_are_not_taken_away_by_priority_only_memory_is() -> None:
    scheduler = make(30, max_num_seqs=2, scheduling_policy="priority")
    for name, priority in (("a", 10), ("b", 10)):
        add(scheduler, name, 5, max_tokens=6, priority=priority)
    play(scheduler)
    add(scheduler, "equal", 5, max_tokens=2, priority=10)
    add(scheduler, "high", 5, max_tokens=2, priority=0)
    plans = play(scheduler, 4)
    assert [plan.preempted for plan in plans] == [[]] * 4
    assert queues(scheduler) == (["a", "b"], ["high", "equal"])
    play(scheduler, 2)
    assert queues(scheduler)[0] == ["high", "equal"]


def test_C9_an_equal_priority_newcomer_preempts_nobody() -> None:
    scheduler = make(2, scheduling_policy="priority")
    add(scheduler, "a", 6, max_tokens=2, priority=1)
    play(scheduler)
    add(scheduler, "b", 4, max_tokens=1, priority=1)
    assert play(scheduler)[0].num_scheduled_tokens == {"a": 1}
    assert queues(scheduler) == ([], ["b"])


@pytest.mark.parametrize(("policy", "front"), [("fcfs", "a"), ("priority", "b"), ("round_robin", "a")])
def test_C10_where_a_preempted_request_queues(policy: str, front: str) -> None:
    """FCFS and round-robin: in front of all. Priority: by its rank, so an earlier arrival stays before it."""
    scheduler = make(3, scheduling_policy=policy, enable_prefix_caching=False)
    add(scheduler, "x", 4, max_tokens=9, arrival=0)
    add(scheduler, "a", 4, max_tokens=9, arrival=2)
    play(scheduler)
    add(scheduler, "b", 12, max_tokens=1, arrival=1)
    plan = play(scheduler)[0]
    while not plan.preempted:
        plan = play(scheduler)[0]
    assert plan.preempted == ["a"]
    assert queues(scheduler) == (["x"], sorted("ab", key=lambda name: name != front))


def test_C11_decoders_get_a_token_each_step_while_a_long_prompt_is_chunked() -> None:
    scheduler = make(100, max_num_batched_tokens=16)
    decoders = [add(scheduler, name, 4, max_tokens=20) for name in "ab"]
    executor = ShadowExecutor(scheduler)
    play(scheduler, run=executor.run)
    long = add(scheduler, "long", 160, max_tokens=1)
    play(scheduler, run=executor.run)
    short = add(scheduler, "short", 5, max_tokens=1)
    plans = finish_all(scheduler, *decoders, long, short, executor=executor)
    for plan in plans[:10]:
        assert plan.total_tokens <= 16
        assert [plan.num_scheduled_tokens.get(name) for name in "ab"] == [1, 1]
    first = next(number for number, plan in enumerate(plans) if "short" in plan.num_scheduled_tokens)
    assert plans[first].num_scheduled_tokens == {"a": 1, "b": 1, "long": 6, "short": 5}
    assert first == 10  # ceil(160 / 14) steps for the long prompt, one of them before `short` came


def test_C12_all_seats_are_used_as_soon_as_the_chunks_are_done() -> None:
    scheduler = make(40, max_num_seqs=4, max_num_batched_tokens=8)
    requests = [add(scheduler, str(index), 24, max_tokens=40) for index in range(4)]
    executor = ShadowExecutor(scheduler)
    used = [len(play(scheduler, run=executor.run)[0].scheduled) for _ in range(20)]
    assert used == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3] + [4] * 10
    finish_all(scheduler, *requests, executor=executor)


# ---- requests that end in a way of their own ----

@pytest.mark.parametrize(("tokens", "params", "reason", "count"), [
    ([7], {"stop_token_ids": [7]}, FinishReason.STOP, 1),
    ([5, 7], {"stop_token_ids": [7]}, FinishReason.STOP, 2),
    ([2], {}, FinishReason.STOP, 1),
    ([2, 2, 2, 2], {"ignore_eos": True}, FinishReason.LENGTH, 4),
    ([2, 2, 2], {"min_tokens": 3}, FinishReason.STOP, 3),
    ([5, 5, 5, 2], {}, FinishReason.STOP, 4),
    ([5, 5, 5, 5], {}, FinishReason.LENGTH, 4),
])
def test_finish_reasons(tokens: list[int], params: dict, reason: FinishReason, count: int) -> None:
    scheduler = make(8, eos_token_ids=[2])
    one = add(scheduler, "a", 3, max_tokens=4, params=params)
    for token in tokens:
        assert not one.is_finished
        play(scheduler, run=lambda plan, token=token: answer(plan, token))
    assert (one.finish_reason, one.num_output_tokens, one.output_token_ids) == (reason, count, tokens)
    idle(scheduler)


def test_max_model_len_ends_a_request() -> None:
    scheduler = make(8, max_model_len=10)
    one = add(scheduler, "a", 7, max_tokens=9)
    finish_all(scheduler, one)
    assert (one.num_tokens, one.finish_reason) == (10, FinishReason.LENGTH)
