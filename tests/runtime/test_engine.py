"""The engine's face: outputs, streams, metrics, stopping, the size of the pool."""
from __future__ import annotations

import json

import pytest

from minipaged import LLM, SamplingParams
from minipaged.errors import RequestError
from minipaged.event_file import load_events, save_events
from minipaged.runtime.engine import LLMEngine
from minipaged.runtime.kv_pool import block_bytes
from minipaged.runtime.paging_report import paging_report

GREEDY = SamplingParams(temperature=0, max_tokens=8)


def test_prompts_in_every_form(folder):
    llm = LLM(folder)
    text = "the cat"
    ids = llm.tokenizer.encode(text)
    outputs = [llm.generate(prompt, GREEDY)[0] for prompt in (
        text, [text], ids, {"prompt": text}, {"prompt_token_ids": ids}, [{"prompt_token_ids": tuple(ids)}])]
    assert len({tuple(output.outputs[0].token_ids) for output in outputs}) == 1
    assert [output.prompt for output in outputs] == [text, text, None, text, None, None]
    assert all(output.prompt_token_ids == ids and output.finished for output in outputs)


def test_text_is_the_decoded_tokens(folder):
    llm = LLM(folder)
    output = llm.generate("the cat", SamplingParams(temperature=1.0, seed=1, max_tokens=30))[0].outputs[0]
    assert output.text == llm.tokenizer.decode(output.token_ids)
    assert (output.finish_reason, output.stop_reason, len(output.token_ids)) == ("length", None, 30)


def test_the_stop_token_is_no_text(folder, make_model):
    prompt = [5, 6, 7]
    free = LLM(folder).generate([prompt], GREEDY)[0].outputs[0].token_ids
    stop = free[3]
    first = free.index(stop)
    asked = LLM(folder).generate([prompt], SamplingParams(temperature=0, max_tokens=8, stop_token_ids=[stop]))
    by_model = LLM(make_model(eos_token_id=[299, stop])).generate([prompt], GREEDY)
    for outputs, reason in ((asked, stop), (by_model, None)):
        output = outputs[0].outputs[0]
        assert output.token_ids == free[:first + 1] and output.finish_reason == "stop"
        assert output.stop_reason == reason
        assert output.text == LLM(folder).tokenizer.decode(free[:first])
    ignored = LLM(make_model(eos_token_id=stop)).generate([prompt], SamplingParams(temperature=0, max_tokens=8,
                                                                                  ignore_eos=True))
    assert ignored[0].outputs[0].token_ids == free


def test_max_model_len_ends_a_request(folder):
    output = LLM(folder, max_model_len=10).generate([[1] * 7], GREEDY)[0].outputs[0]
    assert (len(output.token_ids), output.finish_reason) == (3, "length")


def test_a_stream_gives_every_token_and_ends_finished(folder, solo):
    llm = LLM(folder, dtype="float64", check_invariants=True)
    params = SamplingParams(temperature=1.2, seed=3, max_tokens=20)
    outputs = list(llm.engine.stream([9, 8, 7], params))
    assert [len(output.outputs[0].token_ids) for output in outputs] == [*range(1, 21)]
    assert [output.finished for output in outputs] == [False] * 19 + [True]
    texts = [output.outputs[0].text for output in outputs]
    assert all(longer.startswith(shorter) for shorter, longer in zip(texts, texts[1:]))
    assert outputs[-1].outputs[0].token_ids == solo([9, 8, 7], params)


def test_streams_and_generate_share_the_engine(folder, solo):
    llm = LLM(folder, dtype="float64", check_invariants=True)
    one, two = llm.engine.stream([1, 2], GREEDY), llm.engine.stream([3, 4, 5], GREEDY)
    next(one)
    assert llm.generate([[6]], GREEDY)[0].outputs[0].token_ids == solo([6], GREEDY)
    assert [*two][-1].outputs[0].token_ids == solo([3, 4, 5], GREEDY)
    assert [*one][-1].outputs[0].token_ids == solo([1, 2], GREEDY)


def test_leaving_a_stream_frees_its_blocks(folder):
    llm = LLM(folder)
    stream = llm.engine.stream([1, 2], GREEDY)
    next(stream)
    assert llm.engine.kv.free_count < llm.engine.kv.num_blocks
    stream.close()
    assert llm.engine.kv.free_count == llm.engine.kv.num_blocks and not llm.engine.has_unfinished


def test_an_aborted_stream_ends_and_says_so(folder):
    llm = LLM(folder)
    stream = llm.engine.stream([1, 2], GREEDY, request_id="s")
    next(stream)
    assert llm.engine.abort("s")
    last = [*stream][-1]
    assert last.finished and last.outputs[0].finish_reason == "abort" and len(last.outputs[0].token_ids) == 1


def test_a_finished_stream_leaves_another_request_of_its_name_alone(folder):
    llm = LLM(folder)
    stream = llm.engine.stream([1, 2], SamplingParams(temperature=0, max_tokens=1), request_id="s")
    assert next(stream).finished is True
    llm.engine.add_request("s", [3], GREEDY)
    stream.close()
    assert llm.engine.has_unfinished


def test_a_stream_refuses_at_once(folder):
    with pytest.raises(RequestError, match="empty"):
        LLM(folder).engine.stream([], GREEDY)


def test_metrics_are_logical(folder):
    llm = LLM(folder, block_size=4, max_num_batched_tokens=4, max_num_seqs=1)
    first, second = llm.generate([[1] * 10, [2]], SamplingParams(temperature=0, max_tokens=3))
    assert first.metrics.arrival_step == 0 and first.metrics.first_scheduled_step == 0
    assert first.metrics.first_token_step == 2  # chunks of 4, 4 and 2
    assert first.metrics.finished_step == 4
    assert second.metrics.first_scheduled_step == 5
    assert (first.metrics.num_computed_tokens, second.metrics.num_computed_tokens) == (12, 3)


def test_a_shared_prefix_is_computed_once(folder):
    llm = LLM(folder, block_size=4)
    llm.generate([[1, 2, 3, 4, 5, 6]], GREEDY)
    output = llm.generate([[1, 2, 3, 4, 5, 6, 7]], GREEDY)[0]
    assert output.num_cached_tokens == 6  # one full block and the partly filled one
    salted = llm.generate([{"prompt_token_ids": [1, 2, 3, 4, 5, 6, 7], "cache_salt": "tenant"}], GREEDY)[0]
    assert salted.num_cached_tokens == 0
    assert salted.outputs[0].token_ids == output.outputs[0].token_ids


@pytest.mark.parametrize("policy", ["fcfs", "round_robin", "priority", "static"])
def test_policies_change_the_order_not_the_words(folder, solo, policy):
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8, 9], [10], [11, 12]]
    llm = LLM(folder, dtype="float64", block_size=4, num_blocks=40, max_num_seqs=2, scheduling_policy=policy,
              quantum=2, check_invariants=True)
    llm.engine.pool.fill(float("nan"))
    outputs = llm.generate(prompts, GREEDY)
    assert [output.outputs[0].token_ids for output in outputs] == [solo(prompt, GREEDY) for prompt in prompts]


def test_the_pool_fits_its_memory(folder):
    llm = LLM(folder, block_size=4, kv_memory="1MiB")
    size = block_bytes(llm.model.config, 4, llm.model.dtype)
    assert llm.engine.kv.num_blocks == 2 ** 20 // size
    assert 2 ** 20 - size < llm.engine.pool.nbytes <= 2 ** 20


def test_the_default_pool_holds_what_all_seats_can_use(folder):
    llm = LLM(folder, block_size=4, max_num_seqs=3)
    assert llm.engine.kv.num_blocks == 3 * 64 // 4


def test_the_log_is_optional(folder):
    llm = LLM(folder)
    engine = LLMEngine(llm.model, llm.tokenizer, events=None)
    assert engine.events is None
    assert [*engine.stream([1, 2], GREEDY)][-1].finished


def test_a_progress_bar_goes_to_stderr(folder, capsys):
    LLM(folder).generate([[1], [2]], GREEDY, use_tqdm=True)
    captured = capsys.readouterr()
    assert captured.out == "" and "2/2" in captured.err


def test_the_report_counts_what_the_log_says(folder, tmp_path):
    """Two prompts of 10 tokens with 6 in common, blocks of 4, all numbers by hand."""
    llm = LLM(folder, block_size=4, num_blocks=12, max_num_seqs=2)
    common = [1, 2, 3, 4, 5, 6]
    llm.generate([common], SamplingParams(temperature=0, max_tokens=1))
    llm.generate([common + [7, 8, 9, 10], common + [11, 12, 13, 14]], SamplingParams(temperature=0, max_tokens=2))
    save_events(llm.engine.events, tmp_path / "log.json")
    report = paging_report(load_events(tmp_path / "log.json"), max_model_len=64)
    assert report.num_requests == 3 and report.num_steps == 3
    assert report.tokens_computed == 6 + 4 + 4 + 1 + 1 and report.tokens_reused == 6 + 6
    assert report.tokens_recomputed == 0 and report.preemptions == 0
    assert report.blocks_shared == 4  # each took the full block and the tail
    assert report.blocks_copied == 1  # the last holder of the tail writes in place
    assert report.blocks_used == 5  # one common, then two each
    # The fullest step is the last: contexts of 11 tokens, 4 of them in one place for both.
    assert (report.fullest_requests, report.fullest_tokens, report.fullest_slots) == (2, 22, 20)
    assert report.fullest_filled == 4 + 7 + 7
    assert report.contiguous_slots == 128 and report.contiguous_requests == 0
    json.dumps(report.to_dict())


def test_a_copy_is_as_full_as_its_source(folder):
    llm = LLM(folder, block_size=4)
    params = SamplingParams(temperature=0, max_tokens=1)
    llm.generate([[1, 2, 3, 4, 5]], params)
    llm.generate([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 7]], params)
    report = paging_report(llm.engine.events, llm.engine.max_model_len)
    assert (report.blocks_copied, report.fullest_slots, report.fullest_filled) == (1, 12, 4 + 2 + 2)


def test_the_report_counts_recomputed_tokens(folder):
    llm = LLM(folder, block_size=4, num_blocks=6, enable_prefix_caching=False)
    outputs = llm.generate([[1] * 9, [2] * 9], SamplingParams(temperature=0, max_tokens=8))
    report = paging_report(llm.engine.events, llm.engine.max_model_len)
    assert report.preemptions == sum(output.metrics.num_preemptions for output in outputs) > 0
    assert report.tokens_computed == sum(output.metrics.num_computed_tokens for output in outputs)
    assert report.tokens_computed - report.tokens_recomputed == 2 * 16
