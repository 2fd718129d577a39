"""Measured tables: interpolation, gaps, and what a step looks up."""
from __future__ import annotations

import csv

import pytest

from minipaged.errors import TraceFormatError
from minipaged.sim.cost_model import Moves, StepWork
from minipaged.sim.profile import AttentionTable, Profiled
from minipaged.sim.traces import VLLM_RUN


def write(folder, dense=None, per_sequence=None, attention=None, model="meta-llama/Llama-3.1-8B"):
    """A small profile: layer times 1 us a token, head 10 us a request, attention chunk + kv/10 + n * length / 100."""
    tables = {
        "dense": ("layer,tokens,time_us", dense or [f"{layer},{tokens},{tokens}" for layer in (
            "qkv_proj", "layernorm", "embedding") for tokens in (1, 100)]),
        "per_sequence": ("layer,sequences,time_us", per_sequence or ["lm_head,1,10", "lm_head,100,1000"]),
        "attention": ("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", attention or [
            f"{chunk},{kv},{n},{length},{chunk + (kv / 10 if chunk else 0) + n * length / 100}"
            for chunk in (0, 100, 200) for kv in (0, 100) for n in (0, 10, 20) for length in (100, 200)]),
    }
    for name, (head, rows) in tables.items():
        (folder / f"prof_{name}.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    (folder / "prof_meta.yaml").write_text(f"model: {model}\nhardware: X1\nattention_grid:\n  model: no\n",
                                           encoding="utf-8")
    return folder


def micros(costs: Profiled, **work) -> float:
    return 1e6 * costs.step_seconds(StepWork(**work))


def test_a_step_is_the_sum_of_its_operators(tmp_path):
    costs = Profiled(write(tmp_path), num_layers=3)
    # 3 layers of qkv_proj and twice layernorm, embedding once, the head for the requests, 3 times attention
    one = micros(costs, chunks=[(100, 50)])
    assert one == pytest.approx(3 * (100 + 2 * 100) + 100 + 10 + 3 * (100 + 5))
    decodes = micros(costs, num_decodes=10, decode_kv=1500)
    assert decodes == pytest.approx(3 * (10 + 20) + 10 + 100 + 3 * (10 * 150 / 100))


def test_decodes_go_with_the_first_chunk_and_further_chunks_alone(tmp_path):
    costs = Profiled(write(tmp_path, attention=[  # a fused kernel: max, not sum, of its two halves
        f"{chunk},{kv},{n},100,{max(chunk, 5 * n)}" for chunk in (0, 100) for kv in (0, 100) for n in (0, 10)]),
        num_layers=1)
    both = micros(costs, chunks=[(100, 0), (100, 0)], num_decodes=10, decode_kv=1000)
    rest = 210 * 3 + 210 + 120
    assert both - rest == pytest.approx(100 + 100)  # 50 us of decodes hide behind the first chunk only


def test_between_points_linear_beyond_them_the_same_line(tmp_path):
    costs = Profiled(write(tmp_path), num_layers=1)
    attention = costs._attention
    assert attention(150, 50, 15, 150) == pytest.approx(150 + 5 + 15 * 150 / 100)
    assert attention(400, 300, 0, 0) == pytest.approx(400 + 30)
    assert attention(0, 0, 40, 300) == pytest.approx(40 * 3)
    assert attention(0, 999, 0, 999) == 0
    assert attention(0, 0, 10, 3) == attention(0, 0, 10, 100)  # below the first point: flat


def test_missing_rows_continue_the_line_of_their_neighbours():
    full = {(chunk, kv, n, length): float(chunk + n * length) for chunk in (0, 16, 32) for kv in (0, 16)
            for n in (0, 1, 2, 4) for length in (16, 32) if chunk or n}
    gaps = {key: value for key, value in full.items() if not (key[0] and key[2] == 4) and key != (16, 16, 2, 32)}
    table = AttentionTable(gaps)
    for key, value in full.items():
        assert table(*key) == pytest.approx(value), key


def test_a_table_by_mean_context_reads_the_same(tmp_path):
    """The form of newer profiles: `prefill_key`, one more column for speculative decoding, only possible keys."""
    def time(chunk, kv, n, length):
        return chunk * (1 + kv / 50) + n * length / 100
    rows = [f"attention,{chunk},{float(key)},{n},{length if n else 0},{q},{q * time(chunk, key - chunk / 2, n, length)}"
            for chunk in (0, 100, 200) for key in ((0,) if chunk == 0 else (50, 100, 200, 400)) if key >= chunk / 2
            for n in (0, 10, 20) for length in (100, 200) for q in (1, 4) if chunk or n]
    folder = write(tmp_path)
    head = "layer,prefill_chunk,prefill_key,n_decode,kv_decode,decode_q_len,time_us"
    (folder / "prof_attention.csv").write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    table = Profiled(folder, num_layers=1)._attention
    for query in ((100, 0, 0, 0), (100, 50, 10, 100), (200, 0, 20, 200), (100, 250, 0, 0), (0, 0, 20, 150)):
        assert table(*query) == pytest.approx(time(*query)), query


def test_the_whole_measured_table_is_returned_at_its_points():
    table = Profiled(VLLM_RUN)._attention
    with (VLLM_RUN / "prof_attention.csv").open(encoding="utf-8", newline="") as lines:
        for row in list(csv.DictReader(lines))[::97]:
            key = [int(row[name]) for name in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")]
            assert table(*key) == pytest.approx(float(row["time_us"]))


def test_layers_come_from_the_profiled_model(tmp_path):
    assert Profiled(write(tmp_path, model="Qwen/Qwen3-32B")).num_layers == 64
    with pytest.raises(ValueError, match="nobody/none.*--layers"):
        Profiled(write(tmp_path, model="nobody/none"))
    assert Profiled(write(tmp_path, model="nobody/none"), num_layers=7).num_layers == 7


def test_host_overhead_is_added_and_stated(tmp_path):
    plain, late = (Profiled(write(tmp_path), num_layers=1, host_overhead_us=us) for us in (0, 250))
    work = {"num_decodes": 10, "decode_kv": 1000}
    assert micros(late, **work) - micros(plain, **work) == pytest.approx(250)
    assert late.describe()["host_overhead_us"] == 250
    with (tmp_path / "prof_meta.yaml").open("a", encoding="utf-8") as meta:
        meta.write("host_overhead_us: 40\n")
    assert Profiled(tmp_path, num_layers=1).host_overhead_us == 40
    assert Profiled(tmp_path, num_layers=1, host_overhead_us=0).host_overhead_us == 0
    with pytest.raises(ValueError, match="at least 0"):
        Profiled(tmp_path, num_layers=1, host_overhead_us=-1)


def test_swaps_need_a_link(tmp_path):
    with pytest.raises(ValueError, match="--gpu"):
        micros(Profiled(write(tmp_path), num_layers=1), swap_blocks=1)
    linked = Profiled(write(tmp_path), num_layers=1, moves=Moves(1000, 1e9, 1e10))
    assert micros(linked, swap_blocks=3) == pytest.approx(3.0)
    assert micros(linked, copied_blocks=5) == pytest.approx(1.0)


@pytest.mark.parametrize("table, rows, message", [
    ("dense", ["a,1,x"], "prof_dense.csv, line 2"),
    ("dense", ["a,1,-3"], "no complete row"),
    ("attention", ["0,0,1,16,"], "no complete row"),
    ("attention", ["16,0,1,16,3", "32,0,0,0,1"], "grid"),
])
def test_a_bad_table_is_named(tmp_path, table, rows, message):
    with pytest.raises(TraceFormatError, match=message):
        Profiled(write(tmp_path, **{table: rows}), num_layers=1)


def test_a_folder_without_tables_is_named(tmp_path):
    (tmp_path / "prof_meta.yaml").write_text("model: llama-3.1-8b\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no prof_dense.csv"):
        Profiled(tmp_path)
