"""Predictions: recorded on this machine only, the first answer counts, and an answer is right by measurement."""
from __future__ import annotations

import json

import pytest

from minipaged import cli
from minipaged.lesson import predict, predictions, questions, reveal, store
from minipaged.lesson.questions import Prediction

ASKED = {"w": Prediction("How many of {all}?", choices={5: "that is the first second", 25: "", 90: ""}),
         "n": Prediction("How much?", number="MiB"),
         "t": Prediction("What grows?", choices={"weights": "", "cache": ""}),
         "bad": Prediction("?")}


@pytest.fixture(autouse=True)
def progress(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(tmp_path / "progress" / "labs.json"))
    monkeypatch.setattr(predictions, "_revealed", set())
    monkeypatch.setattr(predictions, "_asked", {})
    monkeypatch.setattr(questions, "predictions", lambda: ASKED)
    return tmp_path / "progress"


def ask(**options) -> None:
    predict("w", all=100, **options)


def test_without_an_answer_nothing_is_written_and_the_text_is_always_the_same(progress, capsys):
    texts = set()
    for _ in range(2):
        ask()
        reveal("w", 24.1, "{:.1f} slots")
        texts.add(capsys.readouterr().out)
    (text,) = texts
    assert "   - 5\n   - 25\n   - 90\n" in text and "Measured: 24.1 slots. (No prediction was recorded.)" in text
    assert not progress.exists()


@pytest.mark.parametrize("answer, words", [
    (25, "You predicted 25: that is right."),
    (5, "You predicted 5: not this time. that is the first second."),
    (90, "You predicted 90: 3.7 times too high."),
])
def test_the_choice_nearest_to_the_measurement_is_right(answer, words, capsys):
    ask(answer=answer)
    reveal("w", 24.1)
    assert words in capsys.readouterr().out


def test_a_free_number_is_right_within_a_tenth(capsys):
    for answer, words in [("1,050", "right"), (2000, "2.0 times too high"), (500, "2.0 times too low")]:
        predictions._revealed.clear()
        store.save({})
        predict("n", answer=answer)
        reveal("n", 1000, "{} MiB")
        assert words in capsys.readouterr().out


def test_the_answer_may_change_until_the_reveal_and_not_after(capsys):
    ask(answer=5)
    ask(answer=90)
    reveal("w", 24.1)
    assert "stays" in predictions.record("w", 25)
    reveal("w", 24.1)
    assert "You predicted 90" in capsys.readouterr().out.splitlines()[-1]
    store.save({})
    assert "no answer is kept" in predictions.record("w", 25)
    assert store.load() == {}


def test_mistakes_of_an_author_are_named():
    with pytest.raises(ValueError, match="either choices"):
        predict("bad")
    with pytest.raises(ValueError, match="no prediction 'x'; there are: w, n, t, bad"):
        predict("x")
    with pytest.raises(ValueError, match="needs the number 'all'"):
        predict("w")
    with pytest.raises(ValueError, match="7 is no choice of 'w'; there are: 5, 25, 90"):
        ask(answer=7)
    with pytest.raises(ValueError, match="between the choices 25 and 5"):
        ask()
        reveal("w", 16)
    with pytest.raises(ValueError, match="no prediction 'never'"):
        reveal("never", 1)
    with pytest.raises(ValueError, match="is a number, in MiB; got 'lots'"):
        predict("n", answer="lots")


def test_text_choices(capsys):
    predict("t", answer="weights")
    with pytest.raises(ValueError, match="no choice of 't'"):
        reveal("t", "neither")
    reveal("t", "cache")
    assert "Measured: cache. You predicted weights: not this time." in capsys.readouterr().out


def test_a_damaged_file_is_named_and_kept(progress, capsys):
    progress.mkdir()
    (progress / "predictions.json").write_text('{"version": 1, "predictions": [', encoding="utf-8")
    with pytest.raises(ValueError, match="move it away to start again"):
        ask(answer=5)
    ask()
    reveal("w", 24.1)  # the chapter goes on
    assert "Measured: 24.1. (" in capsys.readouterr().out
    assert (progress / "predictions.json").read_text(encoding="utf-8").endswith("[")


def test_a_write_that_fails_leaves_the_old_file(progress, monkeypatch):
    ask(answer=5)
    monkeypatch.setattr("os.replace", lambda *names: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError):
        ask(answer=25)
    assert [path.name for path in progress.iterdir()] == ["predictions.json"]
    assert store.load()["w"]["answer"] == 5


def test_a_learner_exports_and_a_teacher_counts(tmp_path, capsys):
    files = []
    for number, answer in enumerate([5, 5, 25]):
        predictions._revealed.clear()
        store.save({})
        ask(answer=answer)
        reveal("w", 24.1)
        files.append(str(tmp_path / f"{number}.csv"))
        assert cli.main(["predictions", "export", "-o", files[-1]]) == 0
    own = (tmp_path / "0.csv").read_text(encoding="utf-8").splitlines()
    assert own == ["prediction,question,answer,measured,right,overlooks",
                   "w,How many of 100?,5,24.1,no,that is the first second"]  # no name, no machine, no time
    capsys.readouterr()
    assert cli.main(["predictions", "class", *files, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["answer"], first["count"], first["share"], first["overlooks"]) == \
        ("5", 2, "67%", "that is the first second")
    assert (second["answer"], second["count"], second["right"]) == ("25", 1, "yes")
    assert cli.main(["predictions", "class", *files]) == 0
    assert "  2 (67%) 5: not right. that is the first second" in capsys.readouterr().out
    assert cli.main(["predictions", "forget", "w"]) == 0 and store.load() == {}


@pytest.mark.parametrize("arguments, complaint", [
    (["class"], "name the CSV files"), (["forget", "x"], "there are: none"), (["list", "x"], "takes no names"),
])
def test_wrong_commands_end_in_one_line(arguments, complaint, capsys):
    assert cli.main(["predictions", *arguments]) == 2
    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


def test_a_csv_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert cli.main(["predictions", "class", str(tmp_path / "x.csv")]) == 2
    assert "is no export of predictions" in capsys.readouterr().err


def test_buttons_and_the_number_box_record(capsys):
    ask()
    _, buttons, said, _ = predictions._widget("w").children
    buttons.children[0].click()
    assert "Kept: 5" in said.value and store.load()["w"]["answer"] == 5
    predict("n")
    _, box, said, _ = predictions._widget("n").children
    box.value = "lots"
    assert "is a number" in said.value
    box.value = "12"
    assert store.load()["n"]["answer"] == 12
