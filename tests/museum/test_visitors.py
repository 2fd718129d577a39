"""What learners and teachers use of the museum: exhibits, films, `kills`, the command, the README."""
from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from minipaged import museum
from minipaged.cli import main
from minipaged.core import BlockAllocator
from minipaged.errors import BlockError
from minipaged.museum import catalog
from minipaged.museum.limit import TooLong, time_limit

IDS = [piece.name for piece in museum.PIECES]
SAME_EVENTS = {"double-free-in-silence", "unknown-block-in-silence", "slot-without-block-size"}


def second_free_raises(lib):
    allocator = lib.BlockAllocator(8, 4)
    block = allocator.allocate()
    allocator.free(block)
    try:
        allocator.free(block)
    except lib.BlockError:
        return
    raise AssertionError("freed twice")


# ---- switching ----

def test_a_bug_is_there_only_while_it_is_switched_on():
    before = BlockAllocator.free_many
    with museum.piece("double-free-in-silence").switched_on():
        allocator = BlockAllocator(2)
        allocator.free(allocator.allocate())
        allocator.free(0)
    assert BlockAllocator.free_many is before
    with pytest.raises(BlockError):
        allocator.free(0)


def test_a_bug_is_switched_off_when_the_block_fails():
    before = BlockAllocator.free_many
    with pytest.raises(RuntimeError), museum.piece("double-free-in-silence").switched_on():
        raise RuntimeError
    assert BlockAllocator.free_many is before


def test_the_environment_switches_a_bug_on_for_a_whole_test_run(root):
    test = "tests/core/test_allocator.py::test_A2_second_free_raises_and_changes_nothing"
    codes = {}
    for name in ("", "double-free-in-silence"):
        command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
        environment = {**os.environ, "MINIPAGED_MUSEUM": name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        codes[name] = subprocess.run(command, cwd=root, env=environment, capture_output=True).returncode
    assert codes == {"": 0, "double-free-in-silence": 1}


def test_an_unknown_name_shows_the_nearest():
    with pytest.raises(ValueError, match="there is no piece 'no-copy'; the nearest are no-copy-on-write"):
        museum.piece("no-copy")


# ---- exhibits ----

def test_an_exhibit_does_not_say_what_it_is():
    for piece in museum.PIECES:
        text = repr(museum.exhibit(museum.code(piece)))
        assert piece.name not in text and piece.symptom in text
        assert sum(line.strip().endswith(piece.title) for line in text.splitlines()) == 1


def test_every_number_is_another():
    assert len({museum.code(piece) for piece in museum.PIECES}) == len(museum.PIECES)
    assert museum.code(museum.piece("no-copy-on-write")) == 7893  # notebooks name it


def test_right_and_wrong_answers():
    exhibit = museum.exhibit("no-copy-on-write")
    verdicts = {letter: exhibit.answer(letter) for letter in exhibit.choices}
    assert len(exhibit.choices) == 4
    assert sorted(verdict.split(".")[0].split(",")[0] for verdict in verdicts.values()) == ["No", "No", "No", "Yes"]
    assert "Whoever writes into a block with more than one holder copies it first" in exhibit.answer(
        museum.piece("no-copy-on-write").title)
    with pytest.raises(ValueError, match="say one of a, b, c, d"):
        exhibit.answer("e")
    with pytest.raises(ValueError, match="there is no exhibit 3"):
        museum.exhibit(3)


def test_a_film_shows_both_runs_and_opens_on_their_difference():
    film = museum.piece("no-copy-on-write").film()
    assert film.labels == ("right", "with the bug")
    assert "They first differ" in film.alt
    data, _ = museum.exhibit("no-copy-on-write")._repr_mimebundle_()
    assert "Which bug is it?" in data["text/plain"] and "no-copy" not in json.dumps(data)


def test_every_run_with_events_has_a_film():
    """It opens where the runs part. SAME_EVENTS: what is wrong there is an answer to a call, and no event."""
    for piece in museum.PIECES:
        right = piece.right()
        if right.events is not None:
            film = piece.film()
            assert (film.start > 0) == (piece.name not in SAME_EVENTS), piece.name
            assert f"{len(right.events)} events" in film.alt and len(film.data) < 300_000


def test_a_formula_has_no_film():
    with pytest.raises(ValueError, match="no events to film"):
        museum.piece("query-heads-counted").film()
    data, _ = museum.exhibit("query-heads-counted")._repr_mimebundle_()
    assert list(data) == ["text/plain"]


# ---- a learner's own test ----

def test_kills_counts_the_bugs_that_a_test_notices():
    found = museum.kills(second_free_raises, ["double-free-in-silence", "no-copy-on-write"])
    assert (found.killed, found.survived) == (["double-free-in-silence"], ["no-copy-on-write"])
    assert repr(found).splitlines()[0] == "Your test kills 1 of 2 bugs."
    assert "AssertionError: freed twice" in repr(found)


def test_all_bugs_of_core_are_tried_in_a_moment():
    found = museum.kills(second_free_raises)
    assert len(found.how) >= 40 and found.trouble is None and 1 <= len(found.killed) < 10


@pytest.mark.parametrize(("test", "trouble"), [
    (lambda lib: [][1], "IndexError: list index out of range"),
    (lambda: None, "TypeError"),
    (lambda lib: sys.exit(0), "SystemExit: 0"),
    (lambda lib: [None for _ in iter(int, 1)], "it takes longer than 0.2 s"),
])
def test_a_test_that_fails_with_the_right_engine_counts_for_nothing(test, trouble):
    found = museum.kills(test, seconds=0.2)
    assert found.killed == [] and found.how == {}
    assert repr(found).startswith("Your test fails with the right engine: ") and trouble in repr(found)


def test_a_test_that_hangs_with_a_bug_has_noticed_it():
    def waits_for_both(lib):
        scheduler = lib.ContinuousBatchingScheduler(lib.KVCacheManager(2, 4))
        scheduler.add_request(lib.Request("a", range(8), lib.SamplingParams(max_tokens=1)))
        while scheduler.has_unfinished:
            scheduler.step(lib.ToyModel(scheduler).run)

    found = museum.kills(waits_for_both, ["full-last-block-counts-one-more", "no-copy-on-write"], seconds=0.3)
    assert found.how == {"full-last-block-counts-one-more": "it takes longer than 0.3 s", "no-copy-on-write": None}


def test_what_a_test_prints_is_not_shown(capsys):
    museum.kills(lambda lib: print("noise"), ["no-copy-on-write"])
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="a test is a function that takes `lib`; got 3"):
        museum.kills(3)


def test_the_time_limit_ends_code_that_catches_exceptions_and_nothing_after_it():
    with pytest.raises(TooLong), time_limit(0.1):
        while True:
            try:
                while True:
                    sum(range(100))
            except Exception:
                raise AssertionError("caught inside") from None
    with time_limit(0.05):
        pass
    sum(range(3_000_000))  # longer than the limit that is over


# ---- command and README ----

def test_the_command_lists_shows_and_runs(capsys, tmp_path):
    assert main(["museum"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in IDS)
    assert main(["museum", "show", "no-copy-on-write"]) == 0
    assert "def writes_into_the_shared_block" in capsys.readouterr().out
    page = tmp_path / "film.html"
    assert main(["museum", "run", "no-copy-on-write", "--film", str(page)]) == 0
    text = capsys.readouterr().out
    assert "The first event that differs:" in text and "Noticed in step 1 by contents:" in text
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("name", IDS)
def test_every_piece_runs_on_the_command_line(capsys, name):
    assert main(["museum", "run", name, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["right"]["faults"] == []
    assert shown["caught_by"] in [fault["judge"] for fault in shown["wrong"]["faults"]]
    assert shown["right"] != shown["wrong"]


@pytest.mark.parametrize(("arguments", "sentence"), [
    (["run"], "run what? Give a name, as in"),
    (["show", "nothing-like-it"], "there is no piece 'nothing-like-it'"),
    (["list", "no-copy-on-write"], "list takes no name"),
    (["list", "--theme", "x"], "there is no theme 'x'; there are allocator"),
    (["run", "query-heads-counted", "--film", "x.html"], "no events to film"),
    (["sing"], "invalid choice: 'sing'"),
])
def test_mistakes_on_the_command_line_are_one_line(capsys, arguments, sentence):
    assert main(["museum", *arguments]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


def test_the_list_as_json(capsys):
    assert main(["museum", "list", "--theme", "copy_on_write", "--json"]) == 0
    pieces = json.loads(capsys.readouterr().out)["pieces"]
    assert {piece["theme"] for piece in pieces} == {"copy_on_write"} and len(pieces) >= 5


def test_the_readme_is_made_from_the_pieces():
    assert catalog.README.read_text(encoding="utf-8") == catalog.readme(), "run python -m minipaged.museum.catalog"


# ---- repairs ----

def place_of(change):
    right, _ = change._places()
    return right.fget if isinstance(right, property) else right


@pytest.mark.parametrize("piece", museum.PIECES, ids=IDS)
def test_the_right_lines_mend_and_the_wrong_ones_do_not(piece):
    right = [place_of(change) for change in piece.patch]
    assert museum.mend(piece.name, *right).is_right, museum.mend(piece.name, *right)
    wrong = [lambda *args, change=change, known=known, **names: change.wrong(known, *args, **names)
             for change, known in zip(piece.patch, right)]
    assert not museum.mend(piece.name, *wrong).is_right


def test_a_repair_says_what_is_still_wrong(monkeypatch):
    assert museum.signature(museum.piece("hit-stays-in-the-free-queue")) == "def touch(self, block)"
    assert repr(museum.mend("hit-stays-in-the-free-queue", lambda self, block: None)).startswith("Not yet. ")

    def waits(self, block):
        while True:
            pass

    with pytest.raises(ValueError, match="hit-stays-in-the-free-queue has 1 wrong function.*one for touch"):
        museum.mend("hit-stays-in-the-free-queue")
    monkeypatch.setattr("minipaged.museum.repair.SECONDS", 0.2)
    assert "does not end within 0.2 s" in repr(museum.mend("hit-stays-in-the-free-queue", waits))


def test_the_pieces_of_a_chapter():
    assert "no-copy-on-write" in museum.names("05") and set(museum.names("05_copy_on_write")) == set(museum.names("05"))
    chapters = {f"{number:02d}" for number in range(1, 14)}
    assert {piece.chapter[:2] for piece in museum.PIECES} == chapters
