"""What a user can get wrong costs a clear error or the stated meaning, and nobody else anything."""
from __future__ import annotations

import numpy as np
import pytest
import torch

from minipaged import LLM, SamplingParams
from minipaged.core import RequestStatus
from minipaged.errors import RequestError

GREEDY = SamplingParams(temperature=0, max_tokens=8)
GOOD = [[5, 6, 7], [8, 9, 10, 11, 12], [5, 6, 7, 13]]


def make_llm(folder, **options) -> LLM:
    options = {"block_size": 4, "num_blocks": 14, "dtype": "float64", "check_invariants": True, **options}
    return LLM(folder, **options)


def all_blocks_are_back(llm: LLM) -> bool:
    kv = llm.engine.kv
    return kv.free_count == kv.num_blocks and not llm.engine.has_unfinished and not llm.engine.scheduler.requests


BAD = {
    "empty text": ("", "empty"),
    "no tokens": ({"prompt_token_ids": []}, "empty"),
    "id past the vocabulary": ([1, 300], "token id 300.*0 to 299"),
    "negative id": ([-1, 2], "ids are 0 to"),
    "huge id": ([2 ** 70], "not a token id"),
    "not integers": ({"prompt_token_ids": [1.5]}, "integer"),
    "nothing": (None, "integer token ids"),
    "a number": (7, "integer token ids"),
    "half a character": ("a\ud800", "ud800.*position 1"),
    "ids as text": ({"prompt_token_ids": "text"}, "integer token ids"),
    "text as ids": ({"prompt": [1, 2]}, "'prompt' is .*must be a text"),
    "bytes": (b"text", "integer token ids"),
    "truth values": ([True, 1], "integer token ids"),
    "unknown key": ({"promt": "x"}, "promt"),
    "two prompts in one": ({"prompt": "x", "prompt_token_ids": [1]}, "'prompt' or 'prompt_token_ids'"),
    "longer than the model": ([1] * 64, "64 prompt tokens.*takes 64"),
    "longer than the pool": ([1] * 57, "15 blocks of 4.*holds 14"),
    "a salt of no kind": ({"prompt": "x", "cache_salt": object()}, "salt"),
}


@pytest.mark.parametrize("name", BAD)
def test_generate_names_the_prompt_and_queues_none(folder, name):
    prompt, message = BAD[name]
    llm = make_llm(folder)
    with pytest.raises(RequestError, match=f"prompt 1: .*{message}"):
        llm.generate([GOOD[0], prompt, GOOD[1]], GREEDY)
    assert all_blocks_are_back(llm)
    assert len(llm.generate(GOOD, GREEDY)) == 3


@pytest.mark.parametrize("name", BAD)
def test_the_engine_refuses_one_and_serves_the_others(folder, solo, name):
    prompt, message = BAD[name]
    llm = make_llm(folder)
    llm.engine.add_request("a", GOOD[0], GREEDY)
    llm.engine.step()
    with pytest.raises(RequestError, match=message):
        llm.engine.add_request("bad", prompt, GREEDY)
    llm.engine.add_request("b", GOOD[1], GREEDY)
    final = serve(llm)
    assert final == {"a": solo(GOOD[0], GREEDY), "b": solo(GOOD[1], GREEDY)}
    assert all_blocks_are_back(llm)


def serve(llm: LLM) -> dict[str, list[int]]:
    final = {}
    for _ in range(500):
        for output in llm.engine.step():
            if output.finished:
                final[output.request_id] = output.outputs[0].token_ids
        if not llm.engine.has_unfinished:
            return final
    raise AssertionError("500 steps and not done")


@pytest.mark.parametrize(("params", "message"), [
    (SamplingParams(stop_token_ids=[300]), "stop_token_ids has 300.*0 to 299"),
    ({"temperature": 0}, "SamplingParams"),
])
def test_bad_sampling_parameters(folder, params, message):
    llm = make_llm(folder)
    with pytest.raises(RequestError, match=f"prompt 0: .*{message}"):
        llm.generate([GOOD[0]], [params])
    assert all_blocks_are_back(llm)


def test_one_params_for_each_prompt(folder):
    with pytest.raises(RequestError, match="3 prompts and 2 sampling parameters"):
        make_llm(folder).generate(GOOD, [GREEDY, GREEDY])


@pytest.mark.parametrize(("prompts", "params", "message"), [
    (None, None, "prompts is None"), (5, None, "prompts is 5"), (b"ab", None, "prompts is b'ab'"),
    ([True, 1], None, "integer token ids"),
    (["a"], 5, "sampling_params is 5"), (["a"], {"n": 1}, "sampling_params is")])
def test_arguments_of_another_kind(folder, prompts, params, message):
    llm = make_llm(folder)
    with pytest.raises(RequestError, match=message):
        llm.generate(prompts, params)
    assert all_blocks_are_back(llm)


@pytest.mark.parametrize("prompt", [np.array([5, 6, 7]), torch.tensor([5, 6, 7]), [np.int64(5), np.int32(6), 7]])
def test_arrays_are_token_ids(folder, solo, prompt):
    output, = make_llm(folder).generate(prompt, GREEDY)
    assert output.prompt_token_ids == [5, 6, 7] and output.outputs[0].token_ids == solo([5, 6, 7], GREEDY)


def test_rows_of_an_array_are_prompts(folder, solo):
    outputs = make_llm(folder).generate(np.array([[5, 6], [7, 8]]), GREEDY)
    assert [output.outputs[0].token_ids for output in outputs] == [solo([5, 6], GREEDY), solo([7, 8], GREEDY)]


@pytest.mark.parametrize("params", [GREEDY, SamplingParams(seed=1), SamplingParams(n=2, seed=1)])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_logits_that_are_not_finite_name_their_request(folder, solo, params, value):
    llm = make_llm(folder)
    run = llm.engine.executor.run

    def damaged(plan):
        logits = run(plan).clone()
        logits[-1, 7] = value
        return logits

    llm.engine.executor.run = damaged
    with pytest.raises(RequestError, match="logits of request 1 are not finite"):
        llm.generate([GOOD[0], GOOD[1]], params)
    assert all_blocks_are_back(llm)
    llm.engine.executor.run = run
    assert llm.generate([GOOD[0]], GREEDY)[0].outputs[0].token_ids == solo(GOOD[0], GREEDY)


def test_some_tokens_may_be_impossible_but_not_all(folder):
    llm = make_llm(folder)
    run, allowed = llm.engine.executor.run, 5

    def masked(plan):
        logits = run(plan).clone()
        logits[:, allowed:] = float("-inf")
        return logits

    llm.engine.executor.run = masked
    for params in (GREEDY, SamplingParams(seed=1)):
        assert max(llm.generate([GOOD[0]], params)[0].outputs[0].token_ids) < 5
    allowed = 0
    with pytest.raises(RequestError, match="not finite"):
        llm.generate([GOOD[0]], GREEDY)


def test_a_stream_that_nobody_reads_is_aborted(folder):
    llm = make_llm(folder)
    stream = llm.engine.stream(GOOD[0], GREEDY)
    assert llm.engine.has_unfinished
    stream.close()
    assert all_blocks_are_back(llm) and list(stream) == []
    stream = llm.engine.stream(GOOD[0], GREEDY)
    del stream
    assert all_blocks_are_back(llm)


def test_a_stream_dropped_in_the_middle_of_a_step_waits_for_its_end(folder, solo):
    llm = make_llm(folder)
    held = [llm.engine.stream(GOOD[1], GREEDY)]
    run = llm.engine.executor.run

    def dropping(plan):
        held.clear()
        return run(plan)

    llm.engine.executor.run = dropping
    assert llm.generate([GOOD[0]], GREEDY)[0].outputs[0].token_ids == solo(GOOD[0], GREEDY)
    assert all_blocks_are_back(llm)


def test_no_prompts_is_no_outputs(folder):
    assert make_llm(folder).generate([], GREEDY) == []


def test_text_needs_a_tokenizer(make_model):
    llm = LLM(make_model(tokenizer=False))
    with pytest.raises(RequestError, match="prompt 0: .*no tokenizer.json; give prompt_token_ids"):
        llm.generate("hello", GREEDY)
    output = llm.generate([[1, 2]], GREEDY)[0].outputs[0]
    assert len(output.token_ids) == 8 and output.text == ""


def test_ids_are_unique_among_live_requests(folder):
    llm = make_llm(folder)
    llm.engine.add_request("a", GOOD[0], GREEDY)
    with pytest.raises(RequestError, match="'a' is in use"):
        llm.engine.add_request("a", GOOD[1], GREEDY)
    assert set(serve(llm)) == {"a"}
    llm.engine.add_request("a", GOOD[1], GREEDY)  # free again
    assert set(serve(llm)) == {"a"} and all_blocks_are_back(llm)


def test_a_number_as_id_never_meets_the_automatic_ones(folder):
    llm = make_llm(folder)
    llm.engine.add_request("1", GOOD[0], GREEDY)
    assert len(llm.generate(GOOD, GREEDY)) == 3
    assert all_blocks_are_back(llm)


# ---- abort, in every state ----

LONG = SamplingParams(temperature=0, max_tokens=20)
STATES = {
    "waiting": dict(max_num_seqs=2),
    "mid-chunk": dict(max_num_batched_tokens=4),
    "running": {},
    "preempted": dict(num_blocks=9),
    "swapped": dict(num_blocks=9, preemption_mode="swap", num_cpu_blocks=20),
    "paused": dict(scheduling_policy="round_robin", quantum=2, max_num_seqs=2),
}


def is_in(llm: LLM, state: str) -> bool:
    request = llm.engine.scheduler.requests.get("victim")
    if request is None:
        return False
    status, computed = request.status, request.num_computed_tokens
    return {"waiting": status is RequestStatus.WAITING and request.num_preemptions == 0,
            "mid-chunk": status is RequestStatus.RUNNING and 0 < computed < request.num_prompt_tokens,
            "running": status is RequestStatus.RUNNING and request.num_output_tokens > 2,
            "preempted": status is RequestStatus.WAITING and request.num_preemptions > 0,
            "swapped": status is RequestStatus.SWAPPED, "paused": status is RequestStatus.PAUSED}[state]


@pytest.mark.parametrize("state", STATES)
def test_abort_in_every_state(folder, solo, state):
    llm = make_llm(folder, **STATES[state])
    prompts = {"a": [5, 6, 7, 8, 9], "b": [15, 16, 17], "victim": [5, 6, 7, 8, 30, 31, 32, 33, 34]}
    for name, prompt in prompts.items():
        llm.engine.add_request(name, prompt, LONG)
    final = {}
    for _ in range(60):
        if is_in(llm, state):
            break
        for output in llm.engine.step():
            if output.finished:
                final[output.request_id] = output.outputs[0].token_ids
    assert is_in(llm, state), f"the victim never was {state}"
    assert llm.engine.abort("victim") is True
    assert llm.engine.abort("victim") is False  # twice
    final |= serve(llm)
    assert final == {name: solo(prompts[name], LONG) for name in ("a", "b")}
    assert llm.engine.abort("a") is False  # finished
    assert llm.engine.abort("nobody") is False
    assert all_blocks_are_back(llm)


# ---- an executor that fails ----

@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_a_failing_step_is_cancelled_and_can_be_repeated(folder, solo, mode):
    llm = make_llm(folder, num_blocks=9, preemption_mode=mode, num_cpu_blocks=8, max_num_batched_tokens=8)
    llm.engine.pool.fill(float("nan"))
    run, calls = llm.engine.executor.run, 0

    def sometimes(plan):
        nonlocal calls
        calls += 1
        if calls % 3 == 0:
            raise MemoryError("no memory for this step")
        return run(plan)

    llm.engine.executor.run = sometimes
    for index, prompt in enumerate(GOOD):
        llm.engine.add_request(str(index), prompt, LONG)
    final, failures = {}, 0
    while llm.engine.has_unfinished:
        try:
            outputs = llm.engine.step()
        except MemoryError:
            failures += 1
            continue
        final |= {output.request_id: output.outputs[0].token_ids for output in outputs if output.finished}
    assert failures > 5
    assert final == {str(index): solo(prompt, LONG) for index, prompt in enumerate(GOOD)}
    assert all_blocks_are_back(llm)


def test_generate_gives_up_its_prompts_when_a_step_fails(folder, solo):
    llm = make_llm(folder)
    run = llm.engine.executor.run

    def broken(plan):
        raise KeyboardInterrupt

    llm.engine.executor.run = broken
    with pytest.raises(KeyboardInterrupt):
        llm.generate(GOOD, GREEDY)
    assert all_blocks_are_back(llm)
    llm.engine.executor.run = run
    assert llm.generate(GOOD, GREEDY)[1].outputs[0].token_ids == solo(GOOD[1], GREEDY)


# ---- options of LLM ----

@pytest.mark.parametrize(("options", "message"), [
    (dict(num_blocks=0), "num_blocks is 0"),
    (dict(block_size=0), "block_size is 0|0 tokens"),
    (dict(kv_memory="1KiB", num_blocks=None), "one block of 4 tokens takes"),
    (dict(kv_memory="64MiB"), "give one of them"),
    (dict(max_num_seqs=0), "max_num_seqs is 0"),
    (dict(max_model_len=65), "max_model_len is 65.*1 to 64"),
    (dict(max_model_len=0), "max_model_len is 0"),
    (dict(dtype="float8"), "dtype is 'float8'"),
    (dict(device="gpu"), "device is 'gpu'"),
    (dict(attention_backend="flash"), "attention_backend is 'flash'.*'reference', 'torch'"),
    (dict(preemption_mode="drop"), "preemption_mode is 'drop'"),
    (dict(scheduling_policy="lottery"), "lottery"),
    (dict(victim="oldest"), "oldest"),
    (dict(free_order="random"), "random"),
    (dict(num_blocks=10 ** 9), "1,000,000,000 blocks.*lower num_blocks"),
    (dict(num_blocks=10 ** 30), "lower num_blocks"),
    (dict(num_blocks=None, kv_memory="100TiB"), "lower num_blocks or kv_memory"),
    (dict(num_cpu_blocks=10 ** 12), "lower num_cpu_blocks"),
    (dict(block_size=10 ** 15), "lower num_blocks"),
    (dict(num_blocks=10 ** 11, use_cache=False), "lower num_blocks"),
    (dict(block_size="16"), "block_size is '16'"),
    (dict(block_size=2.5), "block_size is 2.5"),
    (dict(block_size=None), "block_size is None"),
    (dict(num_blocks="5"), "num_blocks is '5'"),
    (dict(num_cpu_blocks="5"), "num_cpu_blocks is '5'"),
    (dict(max_num_seqs="5"), "max_num_seqs is '5'"),
    (dict(max_model_len=2.5), "max_model_len is 2.5"),
    (dict(device=None), "device is None"),
    (dict(device="meta"), "device is 'meta'"),
    (dict(device="mps"), "device is 'mps'"),
    (dict(dtype=["float32"]), "dtype is .'float32'"),
    (dict(attention_backend=["torch"]), "attention_backend is .'torch'"),
    (dict(scheduling_policy=["fcfs"]), "scheduling_policy is .'fcfs'"),
    (dict(scheduling_policy="lottery"), "fcfs, round_robin, priority, static"),
    (dict(scheduling_policy="static", victim="oldest"), "victim is 'oldest'"),
    (dict(scheduling_policy="static", preemption_mode="drop"), "preemption_mode is 'drop'"),
])
def test_bad_options(folder, options, message):
    with pytest.raises(ValueError, match=message):
        make_llm(folder, **options)


@pytest.mark.parametrize("model", [None, 5, ["tiny"]])
def test_a_model_that_is_no_name(model):
    with pytest.raises(ValueError, match="model is .*name or a path"):
        LLM(model)


def test_a_lone_request_that_outgrows_the_pool_ends_and_the_next_is_served(folder, solo):
    llm = make_llm(folder, num_blocks=2)
    output = llm.generate([[1, 2, 3, 4, 5, 6]], SamplingParams(temperature=0, max_tokens=20))[0].outputs[0]
    assert output.finish_reason == "capacity"
    assert output.token_ids == solo([1, 2, 3, 4, 5, 6], SamplingParams(temperature=0, max_tokens=20))[:3]
    assert llm.generate([[7]], GREEDY)[0].outputs[0].token_ids[:7] == solo([7], GREEDY)[:7]
    assert all_blocks_are_back(llm)
