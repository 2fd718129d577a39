"""`minipaged demo` and `minipaged generate`, from the command line's own entry."""
from __future__ import annotations

import io
import json
import sys

import pytest

from minipaged.cli import main
from minipaged.event_file import load_events
from minipaged.runtime.demo import half_of_what_all_need


@pytest.fixture(scope="module")
def story_model(make_model):
    """Long enough for the demo's prompts in a byte-level vocabulary."""
    return str(make_model(max_position_embeddings=1024))


def test_demo_prints_stories_and_numbers(story_model, capsys, tmp_path):
    assert main(["demo", "-m", story_model, "--max-tokens", "12", "--events", str(tmp_path / "log.json")]) == 0
    printed = capsys.readouterr().out
    log = load_events(tmp_path / "log.json")
    assert "12. " in printed and "What paging did" in printed
    assert f"│ {len(log.select('preempt'))} │" in printed.replace("  ", " ").replace("  ", " ").replace("  ", " ")


def test_demo_json_agrees_with_its_log(story_model, capsys, tmp_path):
    assert main(["demo", "-m", story_model, "--max-tokens", "20", "--json", "--events", str(tmp_path / "l.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    log, paging = load_events(tmp_path / "l.json"), found["paging"]
    assert len(found["stories"]) == 12 and all(story["text"] for story in found["stories"])
    assert paging["preemptions"] == len(log.select("preempt")) > 0
    assert paging["blocks_copied"] == len(log.select("copy"))
    assert paging["blocks_shared"] == len(log.select("share")) > 0
    assert paging["tokens_reused"] > paging["tokens_computed"] > 0
    assert paging["blocks_used"] <= paging["num_blocks"]
    assert paging["paged_waste"] < 0.2 < paging["contiguous_waste"]


def test_generate_prints_the_same_each_time(story_model, capsys):
    texts = []
    for _ in range(2):
        assert main(["generate", "-m", story_model, "the cat", "--max-tokens", "9", "--echo"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] and texts[0].startswith("the cat") and texts[0].endswith("\n")


def test_generate_reads_a_file_and_standard_input(story_model, capsys, tmp_path, monkeypatch):
    path = tmp_path / "prompt.txt"
    path.write_bytes("the cat 块\r\n".encode())
    common = ["generate", "-m", story_model, "--max-tokens", "5", "--temperature", "0", "--echo"]
    assert main([*common, "the cat 块"]) == 0
    expected = capsys.readouterr().out
    assert main([*common, "-f", str(path)]) == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("the cat 块\n".encode())))
    assert main(common) == 0
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(("arguments", "message"), [
    (["x", "-f", "also.txt"], "give one of them"),
    (["-f", "not-there.txt"], "not-there.txt"),
    ([""], "empty"),
    (["x", "--temperature", "-1"], "temperature is -1"),
    (["x", "--max-tokens", "0"], "max_tokens is 0"),
    (["x", "--num-blocks", "0"], "num_blocks is 0"),
    (["x" * 2000], "takes 1024"),
])
def test_generate_explains_mistakes(story_model, capsys, arguments, message):
    assert main(["generate", "-m", story_model, *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and "Traceback" not in captured.err


def test_generate_refuses_bytes_that_are_no_text(story_model, capsys, tmp_path):
    (tmp_path / "bad").write_bytes(b"\xff\xfe\x00")
    assert main(["generate", "-m", story_model, "-f", str(tmp_path / "bad")]) == 2
    assert "not UTF-8" in capsys.readouterr().err


def test_generate_asks_for_a_prompt_when_nothing_is_piped_in(story_model, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert main(["generate", "-m", story_model]) == 2
    assert "standard input is empty" in capsys.readouterr().err


def test_ctrl_c_keeps_what_was_printed(story_model, capsys, monkeypatch):
    from minipaged.runtime.llm_engine import LLMEngine

    advance, steps = LLMEngine._advance, []

    def interrupted(self):
        steps.append(1)
        if len(steps) == 6:
            raise KeyboardInterrupt
        return advance(self)

    assert main(["generate", "-m", story_model, "the cat", "--temperature", "0", "--max-tokens", "5"]) == 0
    whole = capsys.readouterr().out
    monkeypatch.setattr(LLMEngine, "_advance", interrupted)
    assert main(["generate", "-m", story_model, "the cat", "--temperature", "0"]) == 130
    captured = capsys.readouterr()
    assert captured.out.endswith("\n") and "interrupted" in captured.err
    # Half a character may have been waiting for its end.
    assert len(captured.out) > 3 and whole.startswith(captured.out[:-1])


def test_demo_tells_mistakes_before_the_work(story_model, capsys, tmp_path):
    for arguments, message in ((["--block-size", "0"], "--block-size is 0"),
                               (["--events", str(tmp_path / "gone" / "x")], "No such file")):
        assert main(["demo", "-m", story_model, *arguments]) == 2
        out, err = capsys.readouterr()
        assert message in err and out == "" and len(err.splitlines()) == 1


def test_the_pool_of_the_demo_knows_the_longest_request():
    assert half_of_what_all_need([[1] * 8, [2] * 8], 10 ** 6, 4, 32) == 8


def test_generate_says_when_the_pool_was_full(story_model, capsys):
    assert main(["generate", "-m", story_model, "the cat", "--num-blocks", "1", "--block-size", "8",
                 "--ignore-eos"]) == 0
    err = capsys.readouterr().err
    assert "the pool is full after" in err and "--num-blocks" in err
