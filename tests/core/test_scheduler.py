"""Life of a request and of a plan: bad input, aborts in every state, plans that are used out of turn, determinism."""
from __future__ import annotations

import math

import pytest

from minipaged.core import (
    Admission,
    ContinuousBatchingScheduler,
    EventLog,
    FinishReason,
    Request,
    RequestStatus,
    SamplingParams,
    ScheduledRequest,
    StepPlan,
    check_invariants,
)
from minipaged.errors import RequestError
from minipaged.event_file import to_json

from .helpers import add, answer, finish_all, idle, make, play, queues, request, tables
from .shadow import ShadowExecutor

# ---- bad input ----


@pytest.mark.parametrize(("prompt", "message"), [
    ([], "request a: the prompt is empty; give at least 1 token"),
    ([1, -1], "request a: -1 is not a token id; ids are 0 to 2^63 - 1"),
    ([2**63], f"request a: {2**63} is not a token id; ids are 0 to 2^63 - 1"),
    ([1, 2.0], "request a: a prompt is a list of integer token ids; got [1, 2.0]"),
    (["x"], "request a: a prompt is a list of integer token ids; got ['x']"),
    (7, "request a: a prompt is a list of integer token ids; got 7"),
    (["long text"] * 20, "request a: a prompt is a list of integer token ids; got "
                         "['long text', 'long text', 'long text', 'long text', 'long t"),
])
def test_bad_prompts_are_refused(prompt: object, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        Request("a", prompt)
    assert str(refused.value) == message


def test_the_largest_token_id_is_taken() -> None:
    assert Request("a", [2**63 - 1, 0]).prompt_token_ids == [2**63 - 1, 0]


def test_a_very_high_temperature_is_a_number_too() -> None:
    assert SamplingParams(temperature=1e299).temperature == 1e299


@pytest.mark.parametrize(("options", "message"), [
    ({"n": 0}, "n is 0; it must be a whole number of at least 1"),
    ({"n": 1.5}, "n is 1.5; it must be a whole number of at least 1"),
    ({"n": True}, "n is True; it must be a whole number of at least 1"),
    ({"max_tokens": 0}, "max_tokens is 0; it must be a whole number of at least 1"),
    ({"max_tokens": None}, "max_tokens is None; it must be a whole number of at least 1"),
    ({"min_tokens": 17}, "min_tokens is 17; max_tokens is only 16"),
    ({"min_tokens": -1}, "min_tokens is -1; it must be a whole number of at least 0"),
    ({"temperature": -0.1}, "temperature is -0.1; it must be a number of at least 0 (0 is greedy)"),
    ({"temperature": math.nan}, "temperature is nan; it must be a number of at least 0 (0 is greedy)"),
    ({"temperature": math.inf}, "temperature is inf; it must be a number of at least 0 (0 is greedy)"),
    ({"temperature": 10 ** 400},
     "temperature is 1" + 39 * "0" + "; it must be a number of at least 0 (0 is greedy)"),
    ({"temperature": "hot"}, "temperature is 'hot'; it must be a number of at least 0 (0 is greedy)"),
    ({"top_p": 0}, "top_p is 0; it must be a number above 0 and at most 1 (1 is off)"),
    ({"top_p": 1.1}, "top_p is 1.1; it must be a number above 0 and at most 1 (1 is off)"),
    ({"top_k": -2}, "top_k is -2; it must be a whole number of at least -1 (0 and -1 are off)"),
    ({"min_p": 1.5}, "min_p is 1.5; it must be a number between 0 (off) and 1"),
    ({"presence_penalty": math.inf}, "presence_penalty is inf; it must be a finite number"),
    ({"frequency_penalty": -math.inf}, "frequency_penalty is -inf; it must be a finite number"),
    ({"repetition_penalty": 0}, "repetition_penalty is 0; it must be a number above 0 (1 is off)"),
    ({"seed": "x"}, "seed is 'x'; it must be a whole number or None"),
    ({"logprobs": -1}, "logprobs is -1; it must be a whole number of at least 0, or None"),
    ({"logprobs": 1.5}, "logprobs is 1.5; it must be a whole number of at least 0, or None"),
    ({"stop": ""}, "stop is ''; it must be text that is not empty, or a list of it"),
    ({"stop": 5}, "stop is 5; it must be text that is not empty, or a list of it"),
    ({"stop": ["a", 3]}, "stop is ['a', 3]; it must be text that is not empty, or a list of it"),
    ({"ignore_eos": "no"}, "ignore_eos is 'no'; it must be True or False"),
    ({"stop_token_ids": [3, -1]}, "stop_token_ids is [3, -1]; it must be a list of token ids of at least 0"),
])
def test_bad_sampling_params_name_the_field(options: dict, message: str) -> None:
    with pytest.raises(RequestError) as refused:
        SamplingParams(**options)
    assert str(refused.value) == message


def test_sampling_params_at_their_limits_are_taken() -> None:
    params = SamplingParams(temperature=0, top_p=1, top_k=-1, min_p=1, max_tokens=1, min_tokens=1, logprobs=0,
                            stop="end", stop_token_ids=[0])
    assert (params.stop, params.stop_token_ids) == (("end",), (0,))
    assert SamplingParams().stop == () and SamplingParams(min_p=0, min_tokens=0).max_tokens == 16


@pytest.mark.parametrize("value", ["high", None, math.nan])
@pytest.mark.parametrize("field", ["priority", "arrival"])
def test_a_rank_that_cannot_be_ordered_is_refused(field: str, value: object) -> None:
    if (field, value) == ("arrival", None):
        assert Request("a", [1], arrival=None).arrival is None  # the scheduler numbers it
        return
    with pytest.raises(RequestError, match=f"request a: {field} is {value!r}; it must be a number"):
        Request("a", [1], **{field: value})


def refusals() -> dict[str, tuple]:
    """name -> (scheduler options, request, message)"""
    return {
        "too long for the pool": (
            {}, request("b", 33), "request b needs 33 tokens = 9 blocks of 4; the pool holds 8 blocks (32 tokens). "
                                  "Raise num_blocks or shorten the prompt"),
        "too long for the model": (
            {"max_model_len": 16}, request("b", 16), "request b has 16 prompt tokens; the model takes 16 tokens, "
                                                     "prompt and at least 1 new one together. Shorten the prompt"),
        "duplicate id": ({}, request("a", 3), "request id 'a' is in use; give each request its own id"),
        "too long for a step": (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 8}, request("b", 9),
            "request b has 9 prompt tokens; a step takes 8 and chunked prefill is off. Raise "
            "max_num_batched_tokens or turn it on"),
        "salt": ({}, request("b", 3, cache_salt={}),
                 "request b: a cache salt can't hold a dict; use None, numbers, text, bytes or tuples of these"),
    }


@pytest.mark.parametrize("case", refusals())
def test_a_refused_request_changes_nothing_and_the_others_are_served(case: str) -> None:
    options, refused, message = refusals()[case]
    log = EventLog()
    scheduler = make(8, events=log, **options)
    first = add(scheduler, "a", 5)
    before = (len(log), queues(scheduler), list(scheduler.requests))
    with pytest.raises(RequestError) as error:
        scheduler.add_request(refused)
    assert str(error.value) == message
    assert before == (len(log), queues(scheduler), list(scheduler.requests))
    finish_all(scheduler, first)


@pytest.mark.parametrize("tokens", [32, 15, 8])
def test_a_prompt_that_just_fits_is_served(tokens: int) -> None:
    options = {15: {"max_model_len": 16}, 8: {"enable_chunked_prefill": False, "max_num_batched_tokens": 8}}
    scheduler = make(8, **options.get(tokens, {}))
    finish_all(scheduler, add(scheduler, "a", tokens, max_tokens=1))


def test_a_request_can_be_added_only_once() -> None:
    scheduler = make(8)
    one = add(scheduler, "a", 5, max_tokens=1)
    finish_all(scheduler, one)
    with pytest.raises(RequestError, match="request a is finished; a request can be added only once"):
        scheduler.add_request(one)
    add(scheduler, "a", 5, max_tokens=1)  # the id is free again
    play(scheduler)
    idle(scheduler)


@pytest.mark.parametrize(("options", "message"), [
    ({"max_num_seqs": 2.5}, "max_num_seqs is 2.5; it must be a whole number of at least 1"),
    ({"max_model_len": 1}, "max_model_len is 1; it must be a whole number of at least 2"),
    ({"max_num_seqs": 0}, "max_num_seqs is 0; it must be a whole number of at least 1"),
    ({"max_num_batched_tokens": 0}, "max_num_batched_tokens is 0; it must be a whole number of at least 1"),
    ({"preemption_mode": "none"}, "preemption_mode is 'none'; it must be 'recompute' or 'swap'"),
    ({"watermark": 1}, "watermark is 1; it must be at least 0 and below 1"),
    ({"watermark": -0.1}, "watermark is -0.1; it must be at least 0 and below 1"),
    ({"long_prefill_token_threshold": -1},
     "long_prefill_token_threshold is -1; it must be a whole number of at least 0"),
    ({"victim": ["newest"]}, "victim is ['newest']; it must be one of newest, most_generated, lowest_priority"),
    ({"scheduling_policy": "lottery"},
     "scheduling_policy is 'lottery'; it must be one of fcfs, priority, round_robin"),
    ({"victim": "oldest"}, "victim is 'oldest'; it must be one of newest, most_generated, lowest_priority"),
    ({"scheduling_policy": "round_robin", "quantum": 0}, "quantum is 0; it must be a whole number of at least 1"),
])
def test_bad_settings_say_what_is_possible(options: dict, message: str) -> None:
    with pytest.raises(ValueError) as refused:
        make(8, **options)
    assert str(refused.value) == message


# ---- aborts ----

def in_state(state: str) -> tuple[ContinuousBatchingScheduler, Request, list[Request], ShadowExecutor]:
    """A scheduler with request "x" in some state, and others."""
    options = {"mid-chunk": {"max_num_batched_tokens": 6},
               "paused": {"scheduling_policy": "round_robin", "quantum": 1, "max_num_seqs": 1},
               "swapped": {"preemption_mode": "swap", "num_cpu_blocks": 8}}.get(state, {})
    scheduler = make(4, **options)
    executor = ShadowExecutor(scheduler)
    if state in ("preempted", "swapped"):
        others = [add(scheduler, "o", 7, max_tokens=6)]
        x = add(scheduler, "x", 7, max_tokens=6)
        play(scheduler, 3, run=executor.run)
    elif state == "waiting":
        others = [add(scheduler, "o", 14, max_tokens=2)]
        x = add(scheduler, "x", 7)
        play(scheduler, run=executor.run)
    elif state == "paused":
        x, others = add(scheduler, "x", 3), [add(scheduler, "o", 3)]
        play(scheduler, 2, run=executor.run)
    else:
        x, others = add(scheduler, "x", 8, max_tokens=3), []
        play(scheduler, run=executor.run)
    expected = {"waiting": "waiting", "preempted": "waiting", "mid-chunk": "running", "running": "running"}
    assert x.status == expected.get(state, state)
    assert (x.num_preemptions > 0) == (state in ("preempted", "swapped"))
    assert (0 < x.num_computed_tokens < x.num_prompt_tokens) == (state == "mid-chunk")
    return scheduler, x, others, executor


@pytest.mark.parametrize("state", ["waiting", "mid-chunk", "running", "preempted", "swapped", "paused"])
def test_abort_in_every_state(state: str) -> None:
    scheduler, x, others, executor = in_state(state)
    assert scheduler.abort("x") is True
    check_invariants(scheduler)
    assert (x.status, x.finish_reason, x.is_finished) == (RequestStatus.FINISHED, FinishReason.ABORT, True)
    assert "x" not in scheduler.requests and "x" not in scheduler.kv.tables() and "x" not in sum(queues(scheduler), [])
    assert scheduler.abort("x") is False  # twice
    check_invariants(scheduler)
    assert x.finish_reason is FinishReason.ABORT
    finish_all(scheduler, *others, executor=executor)


def test_abort_of_finished_and_unknown() -> None:
    scheduler = make(4)
    one = add(scheduler, "a", 3, max_tokens=1)
    play(scheduler)
    assert scheduler.abort("a") is False and one.finish_reason is FinishReason.LENGTH
    assert scheduler.abort("nobody") is False
    idle(scheduler)


def test_abort_while_a_plan_is_under_way() -> None:
    scheduler = make(8)
    add(scheduler, "a", 5), add(scheduler, "b", 5)
    plan = scheduler.schedule()
    assert scheduler.abort("a")
    assert scheduler.commit(plan, answer(plan)) == []
    check_invariants(scheduler)
    assert tables(scheduler) == {"b": [2, 3]} and scheduler.requests["b"].num_output_tokens == 1
    plan = scheduler.schedule()
    scheduler.abort("b")
    scheduler.cancel(plan)
    idle(scheduler)


def test_finish_by_the_engine_names_its_reason() -> None:
    log = EventLog()
    scheduler = make(8, events=log)
    one = add(scheduler, "a", 5)
    play(scheduler)
    assert scheduler.finish("a", FinishReason.STOP) and one.finish_reason is FinishReason.STOP
    assert [event.data for event in log.select("finish")] == [{"request": "a", "reason": "stop", "num_tokens": 6}]
    idle(scheduler)


# ---- plans ----

def test_a_plan_is_committed_or_cancelled_once_before_the_next() -> None:
    scheduler = make(8)
    add(scheduler, "a", 5)
    plan = scheduler.schedule()
    with pytest.raises(ValueError, match="can't schedule while the plan of step 0 is under way; commit or cancel it"):
        scheduler.schedule()
    with pytest.raises(ValueError, match="can't fork while the plan of step 0 is under way"):
        scheduler.fork("a", "b")
    scheduler.commit(plan, {"a": 1})
    for again in (lambda: scheduler.commit(plan, {"a": 1}), lambda: scheduler.cancel(plan)):
        with pytest.raises(ValueError, match="the plan of step 0 is not the one under way; each plan is committed or "
                                             "cancelled once, before the next is made"):
            again()
    assert scheduler.requests["a"].output_token_ids == [1]


def test_commit_without_a_token_says_whose_and_changes_nothing() -> None:
    scheduler = make(8)
    add(scheduler, "a", 5), add(scheduler, "b", 5)
    plan = scheduler.schedule()
    with pytest.raises(ValueError, match="no sampled token for request b; the plan asked for one"):
        scheduler.commit(plan, {"a": 1})
    assert [one.num_computed_tokens for one in scheduler.running] == [0, 0]
    scheduler.commit(plan, {"a": 1, "b": 2, "somebody": 3})
    assert [one.output_token_ids for one in scheduler.running] == [[1], [2]]


def test_commit_returns_who_finished_and_their_blocks_are_free_in_that_step() -> None:
    scheduler = make(8)
    a, b = add(scheduler, "a", 5, max_tokens=1), add(scheduler, "b", 5, max_tokens=2)
    plan = scheduler.schedule()
    assert scheduler.commit(plan, answer(plan)) == [a]
    assert tables(scheduler) == {"b": [2, 3]} and scheduler.kv.free_count == 6
    assert scheduler.step(answer) == [b]
    idle(scheduler)


def test_a_plan_is_plain_data() -> None:
    scheduler = make(8)
    add(scheduler, "a", [1, 2, 3, 4, 5])
    add(scheduler, "b", [1, 2, 3, 4, 6, 7])
    plan = scheduler.schedule()
    assert plan == StepPlan(
        step=0, block_size=4,
        scheduled=[ScheduledRequest("a", 0, (1, 2, 3, 4, 5), (0, 1), sample=True),
                   ScheduledRequest("b", 4, (6, 7), (0, 2), sample=True)],
        swap_outs=[], swap_ins=[], copies=[],
        admitted=[Admission("a", 0, resumed=False), Admission("b", 4, resumed=False)], preempted=[])
    assert plan.slot_mapping == [0, 1, 2, 3, 4, 8, 9]
    assert [(item.num_tokens, item.context_len) for item in plan.scheduled] == [(5, 5), (2, 6)]
    assert plan.num_scheduled_tokens == {"a": 5, "b": 2} and plan.total_tokens == 7 and not plan.is_empty
    scheduler.commit(plan, answer(plan))
    assert plan.scheduled[0].block_table == (0, 1)  # keeps the table of its moment


def test_an_empty_plan_says_so() -> None:
    scheduler = make(8)
    plan = scheduler.schedule()
    assert plan.is_empty and plan.total_tokens == 0 and plan.slot_mapping == []
    assert scheduler.commit(plan, {}) == []
    assert not StepPlan(0, 4, copies=[(0, 1)]).is_empty
    assert not StepPlan(0, 4, swap_outs=[(0, 1)]).is_empty
    assert not StepPlan(0, 4, swap_ins=[(0, 1)]).is_empty


def test_a_new_request_waits_its_turn_in_the_same_step_order() -> None:
    scheduler = make(20, max_num_seqs=2)
    requests = [add(scheduler, name, 5, max_tokens=2) for name in "abc"]
    assert [one.arrival for one in requests] == [0, 1, 2]
    assert queues(scheduler) == ([], ["a", "b", "c"])
    plans = play(scheduler, 3)
    assert [list(plan.num_scheduled_tokens) for plan in plans] == [["a", "b"], ["a", "b"], ["c"]]


@pytest.mark.parametrize("options", [{}, {"preemption_mode": "swap", "num_cpu_blocks": 4},
                                     {"scheduling_policy": "round_robin", "quantum": 2},
                                     {"scheduling_policy": "priority", "victim": "most_generated"}], ids=str)
def test_the_same_requests_give_the_same_log(options: dict) -> None:
    def log() -> str:
        events = EventLog()
        scheduler = make(7, max_num_seqs=3, max_num_batched_tokens=9, events=events, **options)
        requests = [add(scheduler, str(number), [number % 2] * (4 + number), max_tokens=7, priority=number % 3)
                    for number in range(6)]
        finish_all(scheduler, *requests)
        return to_json(events)

    assert log() == log()


def test_cached_tokens_are_those_of_the_first_admission() -> None:
    scheduler = make(4, share_partial_blocks=False)
    first, second = add(scheduler, "a", 7, max_tokens=9), add(scheduler, "b", 8, max_tokens=9)
    while second.num_preemptions == 0:
        play(scheduler)
    scheduler.abort("a")
    plan = play(scheduler)[0]
    assert [(one.request_id, one.cached_tokens > 0) for one in plan.admitted] == [("b", True)]
    assert second.num_cached_tokens == 0 and first.is_finished


def test_a_turn_does_not_count_as_a_hit() -> None:
    scheduler = make(8, max_num_seqs=1, scheduling_policy="round_robin", quantum=1)
    requests = [add(scheduler, name, 5) for name in "ab"]
    plans = play(scheduler, 4)
    assert [admission.request_id for plan in plans for admission in plan.admitted] == ["a", "b", "a", "b"]
    assert [one.num_cached_tokens for one in requests] == [0, 0]


def test_a_request_tells_its_state() -> None:
    one = Request("a", [1, 2, 3])
    assert repr(one) == "Request('a', waiting, 0 of 3 tokens computed)"
    one.token_ids.append(9)
    assert (one.num_tokens, one.num_output_tokens, one.prompt_token_ids, one.output_token_ids) == (4, 1, [1, 2, 3], [9])
    assert list(one.packed_tokens()) == [1, 2, 3, 9]
