"""Stop texts inside a token and across tokens (situation E12), streaming and not."""
from __future__ import annotations

import pytest

from minipaged import LLM, SamplingParams
from minipaged.errors import RequestError
from minipaged.runtime.text_output import TextOutput

WORDS = ["ABC", "DEF", "G", "HI", "J", "\N{REPLACEMENT CHARACTER}"]


class Words:
    """A tokenizer whose token i is WORDS[i]."""

    def decode(self, token_ids):
        return "".join(WORDS[token] for token in token_ids)


def run(stop, token_ids=(0, 1, 2, 3, 4), **params) -> tuple[list[str], TextOutput]:
    """(what is shown after each token and at the end, the output)."""
    output = TextOutput(Words(), [], SamplingParams(stop=stop, **params))
    shown = []
    for token in token_ids:
        ended = output.append([token])
        shown.append(output.text)
        if ended:
            return shown, output
    output.finish()
    return [*shown, output.text], output


@pytest.mark.parametrize(("stop", "tokens"), [("DE", 2), ("DEFGHIJ", 5), ("EFG", 3), (["HI", "DE"], 2)])
def test_e12_stop_texts_are_found_wherever_they_begin(stop, tokens):
    shown, output = run(stop)
    assert output.num_tokens == tokens
    assert output.stop in ("DE", "DEFGHIJ", "EFG")
    assert shown[-1] == ("ABCD" if stop == "EFG" else "ABC")
    assert all("ABCD".startswith(text) or text == "" for text in shown)  # nothing leaked on the way
    assert shown == sorted(shown, key=len)


def test_e12_kept_text_comes_when_the_match_fails():
    shown, output = run("DEFX")
    assert shown == ["ABC", "ABC", "ABCDEFG", "ABCDEFGHI", "ABCDEFGHIJ", "ABCDEFGHIJ"]
    assert output.stop is None
    assert run("J!")[0][-2:] == ["ABCDEFGHI", "ABCDEFGHIJ"]  # kept to the end


@pytest.mark.parametrize(("stop", "text"), [("DE", "ABCDE"), ("DEFGHIJ", "ABCDEFGHIJ")])
def test_e12_the_stop_text_can_be_included(stop, text):
    shown, _ = run(stop, include_stop_str_in_output=True)
    assert shown[-1] == text


def test_all_tokens_at_once_is_the_same():
    for stop in ("DE", "DEFGHIJ", "EFG", "HIX"):
        output = TextOutput(Words(), [], SamplingParams(stop=stop))
        output.append([0, 1, 2, 3, 4])
        output.finish()
        assert (output.text, output.stop) == (run(stop)[0][-1], run(stop)[1].stop)


def test_the_first_of_two_wins():
    assert run(["F", "DEF"])[1].stop == "DEF"
    assert run(["DEF", "D"])[1].stop == "DEF"  # at one place, the one named first


def test_min_tokens_comes_before_stop_texts():
    assert run("DE", min_tokens=2)[1].stop is None  # it ended within the first two
    assert run("DEF", token_ids=(0, 1, 1), min_tokens=2)[1].num_tokens == 3
    assert run("FG", min_tokens=2)[1].num_tokens == 3  # begins before, ends after


def test_repeated_beginnings():
    assert run("DEFDEFG", token_ids=(1, 1, 1, 2))[0] == ["", "", "DEF", "DEF"]


# ---- in the engine ----

def free_text(folder, tokens=24):
    llm = LLM(folder, dtype="float64")
    params = SamplingParams(temperature=1.0, seed=5, max_tokens=tokens)
    return llm.generate([[1, 2, 3]], params)[0].outputs[0]


def test_the_engine_stops_and_frees(folder):
    whole = free_text(folder)
    place = len(whole.text) // 2
    stop = whole.text[place:place + 3]
    llm = LLM(folder, dtype="float64", check_invariants=True)
    params = SamplingParams(temperature=1.0, seed=5, max_tokens=24, stop=stop)
    texts = [output.outputs[0] for output in llm.engine.stream([1, 2, 3], params)]
    last = texts[-1]
    assert last.text == whole.text[:whole.text.index(stop)]
    assert (last.finish_reason, last.stop_reason) == ("stop", stop)
    assert last.token_ids == whole.token_ids[:len(last.token_ids)] and len(last.token_ids) < 24
    assert all(last.text.startswith(one.text) for one in texts)
    assert llm.engine.kv.free_count == llm.engine.kv.num_blocks
    assert llm.generate([[1, 2, 3]], params)[0].outputs[0] == last


def test_a_stop_text_in_the_last_token_counts(folder):
    whole = free_text(folder, 6)
    llm = LLM(folder, dtype="float64")
    stop = whole.text[-2:]
    params = SamplingParams(temperature=1.0, seed=5, max_tokens=6, stop=stop)
    output = llm.generate([[1, 2, 3]], params)[0].outputs[0]
    assert (output.finish_reason, output.stop_reason) == ("stop", stop)
    assert stop not in output.text


def test_e11_e12_one_of_several_outputs_stops(folder):
    llm = LLM(folder, dtype="float64", check_invariants=True)
    params = dict(n=3, temperature=1.0, seed=5, max_tokens=10)
    free = llm.generate([[1, 2, 3]], SamplingParams(**params))[0].outputs
    stop = free[1].text[1:3]
    found = llm.generate([[1, 2, 3]], SamplingParams(stop=[stop], **params))[0].outputs
    for one, other in zip(free, found):
        cut = one.text.find(stop)
        assert other.text == (one.text if cut < 0 else one.text[:cut])
        assert other.finish_reason == ("length" if cut < 0 else "stop")
    assert {one.finish_reason for one in found} >= {"stop"}
    assert llm.engine.kv.free_count == llm.engine.kv.num_blocks


def test_stop_texts_need_a_tokenizer(make_model):
    with pytest.raises(RequestError, match="stop is .*stop_token_ids"):
        LLM(make_model(tokenizer=False)).generate([[1]], SamplingParams(stop="x"))
