"""``minipaged calc`` as a user meets it, and the frame of the command: one line for every error."""

from __future__ import annotations

import json
import subprocess
import sys
import types

import pytest

from minipaged import cli
from minipaged.cli import COMMANDS, Command, main
from minipaged.errors import BlockError, OutOfBlocks, RequestError
from minipaged.models import model_path

GIB = 2**30


def run_calc(capsys, *argv: str) -> str:
    assert main(["calc", *argv]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def figures(capsys, *argv: str) -> dict:
    return json.loads(run_calc(capsys, *argv, "--json"))


def error_line(capsys, *argv: str, code: int = 2) -> str:
    """Run a command that must fail: nothing on stdout, exactly one line on stderr, the right exit code."""
    assert main(list(argv)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1 and captured.err.endswith("\n")
    return captured.err


def rows(text: str) -> dict[str, str]:
    """The table as label -> value; labels and values are two spaces apart at least."""
    pairs = (line.strip().split("  ", 1) for line in text.splitlines() if line.strip())
    return {label: value.strip() for label, value in pairs}


# ---------------------------------------------------------------- figures


def test_the_example_of_the_help(capsys):
    table = rows(
        run_calc(capsys, "llama-2-13b", "--seq-len", "4096", "--requests", "10", "--memory", "80GiB")
    )
    assert table["one token"] == "819,200 B = 800.000 KiB = 819.200 kB"
    assert table["one block of 16"] == "13,107,200 B = 12.500 MiB = 13.107 MB"
    assert table["one request of 4,096"] == "3,355,443,200 B = 3.125 GiB = 3.355 GB"
    assert table["10 requests"] == "33,554,432,000 B = 31.250 GiB = 33.554 GB"
    assert table["requests take"] == "39.1% of it"
    assert table["weights"] == "26,031,728,640 B = 24.244 GiB = 26.032 GB"
    # (80 GiB - weights) / 12.5 MiB = 4567.5 blocks, 256 a request
    assert table["blocks that fit"] == "4,567  (73,072 tokens)"
    assert table["requests that fit"] == "17"


def test_json_holds_the_same_numbers_as_integers(capsys):
    f = figures(capsys, "llama-2-13b", "--requests", "10", "--memory", "80GiB")
    assert f["requests_bytes"] == 33_554_432_000
    assert f["memory"]["num_blocks"] == (80 * GIB - f["weights_bytes"]) // f["block_bytes"] == 4567
    assert f["memory"]["left_for_kv_bytes"] == 59_867_617_280
    assert all(
        isinstance(value, int) for key, value in f.items() if key.endswith("bytes") and value is not None
    )


def test_gib_and_gb_are_not_the_same(capsys):
    assert figures(capsys, "gpt2", "--memory", "80GB")["memory"]["memory_bytes"] == 80 * 10**9
    assert figures(capsys, "gpt2", "--memory", "80GiB")["memory"]["memory_bytes"] == 80 * GIB
    assert figures(capsys, "gpt2", "--memory", "987654321")["memory"]["memory_bytes"] == 987_654_321


def test_a_shared_prefix_with_and_without_a_tail(capsys):
    even = figures(capsys, "llama-2-13b", "--seq-len", "2100", "--requests", "10", "--shared-prefix", "2000")
    sharing = even["sharing"]
    assert sharing["prefix_bytes_apart"] - sharing["prefix_bytes_once"] == 9 * 2000 * 819_200  # 13.73 GiB
    assert (sharing["tail_tokens"], sharing["blocks_copied_on_write"]) == (0, 0)
    assert (sharing["blocks_apart"], sharing["blocks_shared"]) == (10 * 132, 125 + 10 * 7)
    odd = figures(capsys, "llama-2-13b", "--seq-len", "2100", "--requests", "10", "--shared-prefix", "2005")
    assert (odd["sharing"]["tail_tokens"], odd["sharing"]["blocks_copied_on_write"]) == (5, 9)
    assert "9 copies on write" in run_calc(capsys, "gpt2", "--requests", "10", "--shared-prefix", "2005")


def test_sharing_makes_room_for_more_requests(capsys):
    memory = figures(
        capsys,
        "gpt2",
        "--weights",
        "none",
        "--seq-len",
        "64",
        "--shared-prefix",
        "48",
        "--memory",
        str(10 * 16 * 36_864),
    )["memory"]
    assert memory["num_blocks"] == 10
    assert memory["max_requests"] == 2  # 4 blocks each
    assert memory["max_requests_shared"] == 7  # 3 once, then 1 each


def test_kv_dtype_scales_and_ranks(capsys):
    plain = figures(capsys, "llama-3-70b")
    assert plain["kv_dtype"] == "bf16" and plain["bytes_per_token"] == 327_680
    assert figures(capsys, "llama-3-70b", "--kv-dtype", "fp8")["bytes_per_token"] == 163_840
    scaled = figures(capsys, "llama-3-70b", "--kv-dtype", "fp8", "--kv-scale-bytes", "4")
    assert scaled["bytes_per_token"] == 163_840 + 80 * 8 * 2 * 4
    assert figures(capsys, "llama-3-70b", "--tp", "8")["bytes_per_token"] == 327_680 // 8
    assert figures(capsys, "llama-3-70b", "--tp", "16")["bytes_per_token"] == 327_680 // 8  # replicated
    assert figures(capsys, "llama-3-70b", "--tp", "8")["weights_bytes"] == 70_553_706_496 * 2 // 8


def test_latent_attention_states_the_expanded_figure_too(capsys):
    assert figures(capsys, "deepseek-v3")["expanded_bytes_per_token"] == 4_997_120
    table = rows(run_calc(capsys, "deepseek-v3"))
    assert table["one token"].startswith("70,272 B")
    assert table["if K and V are expanded"].startswith("4,997,120 B")


def test_sliding_layers_state_both_figures(capsys):
    f = figures(capsys, "gpt-oss-120b", "--seq-len", "131072", "--memory", "32GiB", "--weights", "none")
    assert f["sequence_bytes"] == 4_836_556_800 and f["sequence_bytes_all_full"] == 9 * GIB
    assert (f["memory"]["max_requests"], f["memory"]["max_requests_windowed"]) == (3, 7)


def test_utilization_and_given_weights(capsys):
    memory = figures(
        capsys, "gpt2", "--memory", "1000000000", "--gpu-memory-utilization", "0.9", "--weights", "100MB"
    )["memory"]
    assert (memory["usable_bytes"], memory["left_for_kv_bytes"]) == (900_000_000, 800_000_000)


def test_weights_that_fill_the_memory_leave_no_block(capsys):
    memory = figures(capsys, "gpt2", "--memory", "1GB", "--weights", "1GB")["memory"]
    assert (memory["left_for_kv_bytes"], memory["num_blocks"], memory["max_requests"]) == (0, 0, 0)


def test_a_config_by_file_or_folder(capsys, tmp_path):
    config = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64, "torch_dtype": "float32"}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for place in (tmp_path, tmp_path / "config.json"):
        f = figures(capsys, str(place))
        assert f["bytes_per_token"] == 2 * 2 * 64 * 4 and f["weights_bytes"] is None


def test_the_bundled_model_has_a_name(capsys, tmp_path, monkeypatch):
    (tmp_path / "tiny").mkdir()  # a folder of the same name does not hide it
    monkeypatch.chdir(tmp_path)
    f = figures(capsys, "tiny")
    assert f["bytes_per_token"] == 4 * 2 * 2 * 32 * 4 and f["max_model_len"] == 512
    assert figures(capsys, str(model_path("tiny")))["bytes_per_token"] == f["bytes_per_token"]
    assert "tiny" in [line.split()[0] for line in run_calc(capsys, "--list").splitlines()]


def test_a_memory_without_a_unit_is_bytes_and_says_so(capsys):
    memory = figures(capsys, "gpt2", "--weights", "none", "--memory", "80")["memory"]
    assert memory["memory_bytes"] == 80 and "80GiB" in memory["note"]
    assert "80GiB" in rows(run_calc(capsys, "gpt2", "--weights", "none", "--memory", "80"))["note"]
    assert "--memory 80 has no unit" in error_line(capsys, "calc", "gpt2", "--memory", "80")
    for meant in ("80KiB", "80 B", "1048576"):
        assert figures(capsys, "gpt2", "--weights", "none", "--memory", meant)["memory"]["note"] is None


def test_more_tokens_than_the_model_is_made_for_is_said(capsys):
    assert "own limit of 1,024" in run_calc(capsys, "gpt2", "--seq-len", "1025")
    assert "own limit" not in run_calc(capsys, "gpt2", "--seq-len", "1024")
    assert "own limit" not in run_calc(capsys, "falcon-7b")  # the config states no limit


def test_the_list_names_every_model_once(capsys):
    lines = run_calc(capsys, "--list").splitlines()[1:]
    listed = json.loads(run_calc(capsys, "--list", "--json"))
    assert [line.split()[0] for line in lines] == [model["model"] for model in listed]
    assert len(set(line.split()[0] for line in lines)) == len(lines) > 40


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["calc"], "--list"),
        (["calc", "llama2-13b"], "did you mean llama-2-13b"),
        (["calc", "no/such/config.json"], "no model config"),
        (["calc", "gpt2", "--memory", "80G"], "GiB"),
        (["calc", "gpt2", "--memory", "much"], "80GiB"),
        (["calc", "gpt2", "--memory", "9" * 400], "80GiB"),
        (["calc", "gpt2", "--memory", "0", "--weights", "none"], "no memory at all"),
        (["calc", "gpt2", "--seq-len", "9" * 400], "--seq-len"),
        (["calc", "gpt2", "--seq-len", "0"], "--seq-len"),
        (["calc", "gpt2", "--requests", "ten"], "--requests"),
        (["calc", "gpt2", "--gpu-memory-utilization", "1.5"], "at most 1"),
        (["calc", "gpt2", "--kv-dtype", "fp17"], "fp17"),
        (["calc", "gpt2", "--weights-dtype", "fp17"], "fp17"),
        (["calc", "gpt2", "--weights", "80G"], "GiB"),
        (["calc", "qwen2.5-7b", "--tp", "8"], "28 query heads"),
        (["calc", "gpt2", "--seq-len", "10", "--shared-prefix", "11"], "--shared-prefix 11"),
        (["calc", "llama-2-13b", "--memory", "24GiB"], "weights take"),
        (["calc", "gpt2", "more"], "unrecognized arguments: more"),
        (["calc", "gpt2", "--seq", "8"], "--seq"),
        (["clac"], "did you mean `minipaged calc`"),
        (["zzzzz"], "there are: "),
        (["--json"], "--json"),
        (["--json", "calc"], "write the command first"),
    ],
)
def test_every_error_is_one_line_with_code_2(capsys, argv, says):
    assert says in error_line(capsys, *argv)


def test_a_broken_config_is_one_line(capsys, tmp_path):
    (tmp_path / "config.json").write_text('{"num_hidden_layers": "two"}', encoding="utf-8")
    assert "num_hidden_layers" in error_line(capsys, "calc", str(tmp_path))
    (tmp_path / "config.json").write_text("{\n\n", encoding="utf-8")
    assert "JSON" in error_line(capsys, "calc", str(tmp_path))


@pytest.fixture
def fake_command(monkeypatch):
    """A command ``fake`` whose ``run`` does what the test asks."""

    def install(run, add_arguments=lambda parser: None) -> None:
        module = types.ModuleType("minipaged_fake_command")
        module.run, module.add_arguments = run, add_arguments
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setitem(COMMANDS, "fake", Command(module.__name__, "for a test", "minipaged fake"))

    return install


def raises(error: BaseException):
    def run(args) -> int:
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (OutOfBlocks("need 10 blocks, 8 free"), 2, "need 10 blocks, 8 free"),
        (BlockError("block 3 is free"), 2, "block 3 is free"),
        (RequestError("line one\nline two"), 2, "line one line two"),
        (FileNotFoundError(2, "No such file or directory", "x.txt"), 2, "x.txt: No such file or directory"),
        (ModuleNotFoundError("no", name="triton"), 2, "the module 'triton' is not installed"),
        (TypeError("a slip of ours"), 1, "internal error, TypeError: a slip of ours"),
        (RuntimeError("a slip of ours"), 1, "internal error, RuntimeError: a slip of ours"),
        (ValueError(), 2, "ValueError (set MINIPAGED_TRACEBACK=1"),
    ],
)
def test_errors_of_commands_become_one_line(capsys, fake_command, error, code, says):
    fake_command(raises(error))
    assert f"minipaged fake: {says}" in error_line(capsys, "fake", code=code)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 7.28 TiB for an array"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: out"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4096 bytes."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes."),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ],
)
def test_a_machine_without_memory_left_says_what_to_do(capsys, fake_command, error):
    fake_command(raises(error))
    line = error_line(capsys, "fake")
    assert "memory of this machine is too small" in line and "--num-blocks" in line
    assert ("4,096 B" in line) == ("4096" in str(error))


def test_what_torch_really_says_without_memory(capsys, fake_command):
    torch = pytest.importorskip("torch")
    fake_command(lambda args: torch.empty(10**15))
    assert "it asked for 4,000,000,000,000,000 B" in error_line(capsys, "fake")


def test_ctrl_c_is_130_without_a_traceback(capsys, fake_command):
    fake_command(raises(KeyboardInterrupt()))
    assert main(["fake"]) == 130
    assert capsys.readouterr().err == "minipaged fake: interrupted\n"


def test_the_traceback_can_be_asked_for(monkeypatch, fake_command):
    monkeypatch.setenv("MINIPAGED_TRACEBACK", "1")
    fake_command(raises(RequestError("no")))
    with pytest.raises(RequestError):
        main(["fake"])


def test_a_commands_exit_code_is_handed_on(fake_command):
    fake_command(lambda args: 1)
    assert main(["fake"]) == 1


# ---------------------------------------------------------------- help and start-up


def test_help_lists_every_command_with_an_example(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert name in text and command.help in text and command.example in text
        assert command.example.startswith(f"minipaged {name}")
    assert main([]) == 0
    assert capsys.readouterr().out == text


def test_help_of_a_command_has_an_example(capsys):
    assert main(["calc", "--help"]) == 0
    assert COMMANDS["calc"].example in capsys.readouterr().out


def test_version(capsys):
    from minipaged import __version__

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"minipaged {__version__}\n"


def test_the_examples_of_calc_run(capsys):
    assert main(COMMANDS["calc"].example.split()[1:]) == 0


@pytest.mark.parametrize("argv", [["--help"], ["calc", "llama-2-13b", "--memory", "80GiB"]])
def test_neither_help_nor_calc_loads_torch_or_numpy(argv):
    code = f"import sys; from minipaged.cli import main; main({argv!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy"} & set(done.stderr.split())


PRINTS_WITH_RICH = """
import sys, types
from minipaged.cli import COMMANDS, Command, main
from rich.console import Console
fake = types.ModuleType("fake")
fake.add_arguments = lambda parser: None
fake.run = lambda args: Console().print("twelve stories")
sys.modules["fake"] = fake
COMMANDS["fake"] = Command("fake", "for a test", "minipaged fake")
sys.exit(main(["fake"]))
"""


@pytest.mark.parametrize(
    "code",
    ["import sys; from minipaged.cli import main; sys.exit(main(['calc', '--list']))", PRINTS_WITH_RICH],
    ids=["print", "rich"],
)
def test_a_reader_that_stops_early_is_no_error(code):
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def test_only_the_named_command_is_imported(fake_command, monkeypatch):
    fake_command(lambda args: 0)
    loaded = []
    monkeypatch.setattr(cli.importlib, "import_module", lambda name: loaded.append(name) or sys.modules[name])
    assert main(["fake"]) == 0
    assert loaded == ["minipaged_fake_command"]
