"""Traces: what readers take and refuse, and generators from seeds."""
from __future__ import annotations

import json

import pytest

from minipaged.core import KVCacheManager, Request
from minipaged.errors import TraceFormatError
from minipaged.sim.traces import BUNDLED, VLLM_RUN, load_trace, read_vllm
from minipaged.sim.workload import GENERATORS, TraceRequest, multi_turn, poisson, shared_prefix


def test_the_bundled_traces_have_the_published_numbers():
    azure, mooncake = load_trace("azure-conv"), load_trace("mooncake-conv")
    assert len(azure) == 19_366 and len(mooncake) == 12_031
    mean_in, mean_out = (sum(getattr(request, name) for request in azure.requests) / 19_366
                         for name in ("input_tokens", "output_tokens"))
    assert (round(mean_in, 1), round(mean_out, 1)) == (1154.7, 211.1)
    assert 19_366 / azure.requests[-1].arrival == pytest.approx(5.53, abs=0.005)
    assert azure.requests[0].arrival == 0
    assert round(sum(request.input_tokens for request in mooncake.requests) / 12_031) == 12_035
    assert len(load_trace("sharegpt-300")) == len(load_trace("vllm-rtx4090")) == 300
    for path in BUNDLED.values():
        assert path.is_file()


def test_equal_hash_ids_are_equal_prefixes():
    """A block hit in core's cache for each full block that two requests of a trace have in common."""
    requests = [TraceRequest(0, 1300, 5, (7, 8, 9), 512), TraceRequest(1, 1500, 5, (7, 8, 10), 512)]
    kv = KVCacheManager(300, 16, share_partial_blocks=False)
    first, second = (Request(f"r{at}", one.token_ids(at)) for at, one in enumerate(requests))
    kv.admit(first, kv.match(first), 1300)
    assert kv.match(second).num_tokens == 1024
    assert len(second.token_ids) == 1500


def test_prompts_without_identities_share_nothing_and_repeat_nothing():
    one, other = TraceRequest(0, 100, 5), TraceRequest(0, 100, 5)
    assert not set(one.token_ids(0)) & set(other.token_ids(1))
    assert one.output_token(0) not in one.token_ids(0)


@pytest.mark.parametrize("name, text, line, reason", [
    ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6,374,44\n2023-11-16 18:15:47,x,4\n", 3,
     "ContextTokens is 'x'"),
    ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6,374,44\nyesterday,3,4\n", 3,
     "not a date"),
    ("a.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6,374,44\n2023-11-16 18:15:47,3\n", 3,
     "3 fields"),
    ("a.csv", "arrival_s,input_tokens,output_tokens\n0.5,3,4\n1,0,4\n", 3, "input_tokens is '0'"),
    ("a.csv", "arrival_s,input_tokens,output_tokens\n0.5,3,4\n-1,2,4\n", 3, "arrival_s is '-1'"),
    ("a.csv", "arrival_s,input_tokens,output_tokens\n0.5,3,4\nnan,2,4\n", 3, "arrival_s is 'nan'"),
    ("m.jsonl", '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n{"timestamp": 5\n', 2,
     "not JSON"),
    ("m.jsonl", '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
     '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0]}\n', 2, "1 hash_ids"),
    ("m.jsonl", '{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n[1]\n', 2, "object"),
])
def test_a_bad_line_is_named_and_can_be_skipped(tmp_path, name, text, line, reason):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TraceFormatError, match=rf"{name}, line {line}: .*{reason}.*--skip-bad"):
        load_trace(path)
    trace = load_trace(path, skip_bad=True)
    assert len(trace) == 1
    assert [number for number, _ in trace.skipped] == [line]


def test_a_file_of_no_known_kind_and_one_without_requests(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(TraceFormatError, match="line 1: neither an Azure CSV"):
        load_trace(path)
    path.write_text("arrival_s,input_tokens,output_tokens\n", encoding="utf-8")
    with pytest.raises(TraceFormatError, match="no request"):
        load_trace(path)
    with pytest.raises(ValueError, match="none of azure-conv"):
        load_trace(tmp_path / "missing.csv")


def test_measured_times_start_with_the_first_arrival():
    trace, measured = read_vllm(VLLM_RUN / "requests.jsonl")
    assert measured[0].arrival == trace.requests[0].arrival == 0
    assert all(one.arrival <= one.scheduled < one.first_token < one.last_token for one in measured)


def test_vllm_lines_without_identities_are_read(tmp_path):
    row = {"input_toks": 20, "output_toks": 3, "queued_ts": 5.0, "scheduled_ts": 5.1, "first_token_ts": 5.2,
           "last_token_ts": 5.9}
    (tmp_path / "r.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    trace, _ = read_vllm(tmp_path / "r.jsonl")
    assert trace.requests[0].segments == ()


@pytest.mark.parametrize("name", GENERATORS)
def test_generators_give_the_same_trace_for_the_same_seed(name):
    assert load_trace(f"{name}:n=12,seed=3") == load_trace(f"{name}:n=12,seed=3")
    assert load_trace(f"{name}:n=12,seed=3") != load_trace(f"{name}:n=12,seed=4")
    arrivals = [request.arrival for request in load_trace(f"{name}:n=12").requests]
    assert arrivals == sorted(arrivals)


@pytest.mark.parametrize("text, reason", [("poisson:m=3", "no option 'm'; it has n, rate"),
                                          ("poisson:n=x", "n is 'x'"), ("poisson:rate=0", "rate is 0"),
                                          ("samples:spread=odd", "spread is 'odd'")])
def test_a_wrong_generator_option_is_named(text, reason):
    with pytest.raises(ValueError, match=reason):
        load_trace(text)


def test_means_and_bursts_are_as_asked():
    calm, wild = (load_trace(f"bursty:n=4000,rate=5,input=300,output=50,burst={burst}") for burst in (1, 4))
    for trace in (calm, wild):
        gaps = [b.arrival - a.arrival for a, b in zip(trace.requests, trace.requests[1:])]
        assert sum(gaps) / len(gaps) == pytest.approx(0.2, rel=0.25)
        assert sum(request.input_tokens for request in trace.requests) / 4000 == pytest.approx(300, rel=0.1)
    def spread(trace):
        gaps = [b.arrival - a.arrival for a, b in zip(trace.requests, trace.requests[1:])]
        mean = sum(gaps) / len(gaps)
        return (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5 / mean
    assert spread(calm) == pytest.approx(1, abs=0.1) and spread(wild) == pytest.approx(4, rel=0.25)


def test_a_turn_repeats_the_talk_so_far():
    trace = multi_turn(n=1, turns=3, input=40, output=30)
    kept = [request.token_ids(at) for at, request in enumerate(trace.requests)]
    answer = [trace.requests[0].output_token(0)] * trace.requests[0].output_tokens
    assert kept[1][:len(kept[0]) + len(answer)] == kept[0] + answer
    assert kept[2][:len(kept[1])] == kept[1]


def test_groups_share_their_prefix():
    trace = shared_prefix(n=30, prefix=50, groups=2)
    starts = {tuple(request.token_ids(at)[:50]) for at, request in enumerate(trace.requests)}
    assert len(starts) == 2


def test_thinning_and_stretching():
    trace = poisson(n=100, rate=2)
    assert len(trace.every(10)) == 10 and trace.every(10).requests[1] == trace.requests[10]
    assert 100 / trace.at_rate(8).requests[-1].arrival == pytest.approx(8)
    assert len(trace.repeated(3)) == 300
    assert trace.repeated(3).requests[100].arrival > trace.requests[-1].arrival
