"""Several outputs of one prompt (situations E10, E11): texts, and what happens to the blocks."""
from __future__ import annotations

import pytest

from minipaged import LLM, SamplingParams
from minipaged.errors import RequestError

PROMPT = [1, 2, 3, 4, 5, 6]


def make_llm(folder, **options) -> LLM:
    return LLM(folder, **{"block_size": 4, "dtype": "float64", "check_invariants": True, **options})


def tokens_of(output) -> list[list[int]]:
    return [one.token_ids for one in output.outputs]


def everything_is_back(llm: LLM) -> bool:
    engine = llm.engine
    return (engine.kv.free_count == engine.kv.num_blocks and not engine.has_unfinished
            and not engine.scheduler.requests and not engine.core.owners)


SETTINGS = {
    "plenty": {}, "chunks": dict(max_num_batched_tokens=4), "few seats": dict(max_num_seqs=2),
    "preempting": dict(num_blocks=7), "swapping": dict(num_blocks=7, preemption_mode="swap", num_cpu_blocks=9),
    "no prefix cache": dict(enable_prefix_caching=False, num_blocks=7),
    "full blocks only": dict(share_partial_blocks=False), "round-robin": dict(scheduling_policy="round_robin",
                                                                              quantum=2, max_num_seqs=2),
    "no KV cache": dict(use_cache=False),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_e10_each_output_is_what_its_seed_gives_alone(folder, solo, setting):
    llm = make_llm(folder, **SETTINGS[setting])
    if llm.engine.pool is not None:
        llm.engine.pool.fill(float("nan"))
    params = SamplingParams(n=4, temperature=1.0, seed=20, max_tokens=7)
    output = llm.generate([PROMPT], params)[0]
    expected = [solo(PROMPT, SamplingParams(temperature=1.0, seed=20 + index, max_tokens=7)) for index in range(4)]
    assert tokens_of(output) == expected and len(set(map(tuple, expected))) == 4
    assert [one.index for one in output.outputs] == [0, 1, 2, 3]
    assert all(one.text == llm.tokenizer.decode(one.token_ids) for one in output.outputs)
    assert output.finished and everything_is_back(llm)
    if "preempting" == setting:
        assert output.metrics.num_preemptions > 0


def test_e10_without_a_seed_they_differ_and_follow_the_engines(folder):
    def run(seed):
        return tokens_of(make_llm(folder, seed=seed).generate([PROMPT], SamplingParams(n=4, max_tokens=6))[0])

    assert run(0) == run(0) != run(1)
    assert len(set(map(tuple, run(0)))) == 4


def test_the_prompt_is_computed_once_and_its_tail_copied_on_write(folder):
    """6 prompt tokens in blocks of 4: one full block for all, the tail copied by all but its last holder."""
    llm = make_llm(folder, num_blocks=20)
    params = SamplingParams(n=3, temperature=1.0, seed=20, max_tokens=2)
    output = llm.generate([PROMPT], params)[0]
    events = llm.engine.events
    assert output.metrics.num_computed_tokens == 6 + 3 * 1
    assert [event.num_tokens for event in events.select("fork")] == [6, 6]
    assert [(event.block, event.ref_count) for event in events.select("share")] == [(0, 2), (1, 2), (0, 3), (1, 3)]
    assert [event.src for event in events.select("copy")] == [1, 1]
    assert len(events.select("allocate")) == 2 + 2  # two for the prompt, two copies


def test_e11_one_output_ends_and_the_others_go_on(folder, solo):
    """Child 0 meets its stop token early; at its first token even, so that there is nothing to fork from."""
    def expected(index, **extra):
        return solo(PROMPT, SamplingParams(temperature=1.0, seed=20 + index, max_tokens=5, **extra))

    for index in range(3):
        for place in (0, 1):
            stop = [expected(index)[place]]
            llm = make_llm(folder)
            output = llm.generate([PROMPT], SamplingParams(n=3, temperature=1.0, seed=20, max_tokens=5,
                                                           stop_token_ids=stop))[0]
            assert tokens_of(output) == [expected(other, stop_token_ids=stop) for other in range(3)]
            assert output.outputs[index].finish_reason == "stop" and output.outputs[index].stop_reason == stop[0]
            assert "length" in [one.finish_reason for one in output.outputs]
            assert everything_is_back(llm)


def test_one_token_each_needs_no_fork(folder, solo):
    llm = make_llm(folder)
    output = llm.generate([PROMPT], SamplingParams(n=5, temperature=1.0, seed=3, max_tokens=1))[0]
    assert tokens_of(output) == [solo(PROMPT, SamplingParams(temperature=1.0, seed=3 + i, max_tokens=1))
                                 for i in range(5)]
    assert {one.finish_reason for one in output.outputs} == {"length"}
    assert not llm.engine.events.select("fork") and everything_is_back(llm)


def test_greedy_outputs_are_equal(folder, solo):
    params = SamplingParams(n=2, temperature=0, max_tokens=6)
    assert tokens_of(make_llm(folder).generate([PROMPT], params)[0]) == [
        solo(PROMPT, SamplingParams(temperature=0, max_tokens=6))] * 2


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_abort_gives_up_all_outputs(folder, solo, steps):
    llm = make_llm(folder, max_num_batched_tokens=8)
    llm.engine.add_request("group", PROMPT, SamplingParams(n=3, seed=1, max_tokens=9))
    llm.engine.add_request("other", [7, 8], SamplingParams(temperature=0, max_tokens=9))
    for _ in range(steps):
        llm.engine.step()
    assert llm.engine.abort("group") is True and llm.engine.abort("group") is False
    while llm.engine.has_unfinished:
        last = llm.engine.step()
    assert last[0].request_id == "other"
    assert last[0].outputs[0].token_ids == solo([7, 8], SamplingParams(temperature=0, max_tokens=9))
    assert everything_is_back(llm)


def test_a_stream_of_several_outputs(folder, solo):
    llm = make_llm(folder)
    params = SamplingParams(n=3, temperature=1.0, seed=20, max_tokens=5)
    outputs = list(llm.engine.stream(PROMPT, params))
    assert [[len(one.token_ids) for one in output.outputs] for output in outputs] == [[i] * 3 for i in range(1, 6)]
    assert [output.finished for output in outputs] == [False] * 4 + [True]
    assert tokens_of(outputs[-1]) == [solo(PROMPT, SamplingParams(temperature=1.0, seed=20 + i, max_tokens=5))
                                      for i in range(3)]


def test_an_aborted_stream_of_several_outputs(folder):
    llm = make_llm(folder)
    stream = llm.engine.stream(PROMPT, SamplingParams(n=3, seed=20, max_tokens=9), request_id="s")
    next(stream)
    assert llm.engine.abort("s")
    last = [*stream][-1]
    assert last.finished and {one.finish_reason for one in last.outputs} == {"abort"}


def test_names_of_outputs_are_taken(folder):
    llm = make_llm(folder)
    llm.engine.add_request("a", PROMPT, SamplingParams(n=2))
    for name in ("a", "a.1"):
        with pytest.raises(RequestError, match=f"'{name}' is in use"):
            llm.engine.add_request(name, PROMPT)
    llm.engine.add_request("b.1", PROMPT)
    with pytest.raises(RequestError, match="'b.1' is in use"):
        llm.engine.add_request("b", PROMPT, SamplingParams(n=2))


def test_static_batching_refuses(folder):
    with pytest.raises(RequestError, match="prompt 0: n is 2.*'static'"):
        make_llm(folder, scheduling_policy="static").generate([PROMPT], SamplingParams(n=2))


def test_a_pool_too_small_for_all_serves_them_in_turn(folder, solo):
    """3 blocks of 4: one output at a time."""
    llm = make_llm(folder, num_blocks=3)
    params = SamplingParams(n=5, temperature=1.0, seed=20, max_tokens=6)
    assert tokens_of(llm.generate([PROMPT], params)[0]) == [
        solo(PROMPT, SamplingParams(temperature=1.0, seed=20 + i, max_tokens=6)) for i in range(5)]
    assert everything_is_back(llm)


def test_an_output_that_outgrows_the_pool_says_so(folder):
    output = make_llm(folder, num_blocks=2).generate([PROMPT], SamplingParams(n=2, seed=1, max_tokens=9))[0]
    assert [(one.finish_reason, len(one.token_ids)) for one in output.outputs] == [("capacity", 3)] * 2
