"""The contest and its board: the same scores twice, and nothing edited gets in."""
from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest

from minipaged import cli
from minipaged.lab import contest
from minipaged.lab.contest import AXES, REFERENCES, ContestError, Policy, play, points, references
from minipaged.lab.leaderboard import Leaderboard, check_entry, make_entry

SCRIPTED = "QUANTUM = 200\n\ndef rank(row):\n    return row['prompt_tokens'] + 200 * row['arrival']\n"


@pytest.fixture(scope="module")
def quick() -> str:
    """The name of a contest of 100 requests, for what does not depend on the traffic."""
    short = contest.CONTESTS["short"]
    contest.CONTESTS["quick"] = replace(short, name="quick", scenario=replace(short.scenario, first=100))
    yield "quick"
    del contest.CONTESTS["quick"]


@pytest.fixture(scope="module")
def entry(quick) -> dict:
    return make_entry("scripted", SCRIPTED, quick)


@pytest.fixture
def edited(entry) -> dict:
    return copy.deepcopy(entry)


@pytest.mark.parametrize("source", [*REFERENCES.values(), SCRIPTED], ids=[*REFERENCES, "scripted"])
def test_the_same_policy_gives_the_same_scores_and_log_twice(source):
    one, two = play(source), play(source)
    assert one == two and one.digest == two.digest and list(one.scores) == list(AXES)


def test_policies_differ_in_what_they_are_good_at():
    scores = {name: played.scores for name, played in references().items()}
    assert scores["round robin"]["fairness"] > scores["first come"]["fairness"] > scores["shortest prompt"]["fairness"]
    assert scores["round robin"]["tokens_per_s"] < scores["first come"]["tokens_per_s"]
    assert scores["shortest prompt"]["ttft_p99_s"] > scores["first come"]["ttft_p99_s"]
    assert all(0 < points(one) <= 100 for one in scores.values())  # nobody is the best on every axis


@pytest.mark.full
def test_the_hour_turns_the_order_of_the_references_round():
    """Chapter 14 says so."""
    orders = [sorted(REFERENCES, key=lambda name: points(references(arena)[name].scores, arena))
              for arena in ("short", "hour")]
    assert orders[0] == orders[1][::-1] == ["shortest prompt", "first come", "round robin"]
    hour = {name: played.scores for name, played in references("hour").items()}
    assert min(hour, key=lambda name: hour[name]["fairness"]) == "round robin"
    assert hour["first come"]["ttft_p99_s"] == pytest.approx(4.2, abs=0.05)


def test_first_come_is_the_schedulers_own_fcfs(quick):
    records = contest.contest(quick).scenario.simulate(sample_every=0).records
    assert [row[0] for row in references(quick)["first come"].log] == [round(1e6 * one.first_token) for one in records]


def test_an_honest_entry_is_accepted_and_the_board_replays(entry, tmp_path):
    board = Leaderboard(tmp_path / "board.json")
    row = board.submit(entry)
    assert row["points"] == points(entry["scores"], entry["contest"])
    again = Leaderboard(board.path)
    assert [one["name"] for one in again.rows] == ["scripted"] and again.verify() == []
    with pytest.raises(ContestError, match="already has"):
        again.submit(entry)


def test_an_edited_score_is_refused(edited, tmp_path):
    edited["scores"]["fairness"] = 0.99
    with pytest.raises(ContestError, match="the entry says fairness 0.99, the replay gives 0"):
        Leaderboard(tmp_path / "board.json").submit(edited)
    assert not (tmp_path / "board.json").exists()


@pytest.mark.parametrize("edit, said", [
    (lambda log: log[17].__setitem__(0, log[17][0] - 1), "first token of request 17"),
    (lambda log: log[3].__setitem__(2, 9), "number of preemptions of request 3"),
    (lambda log: log.pop(), "the log has 99 requests, the replay 100"),
    (lambda log: log.__setitem__(5, "x"), "request 5")])
def test_an_edited_log_is_refused_and_the_request_is_named(edited, edit, said):
    edit(edited["log"])
    with pytest.raises(ContestError, match=said):
        check_entry(edited)


def test_another_policy_under_good_scores_is_refused(edited):
    edited["policy"] = REFERENCES["shortest prompt"]
    with pytest.raises(ContestError, match="refused"):
        check_entry(edited)


def test_an_edited_board_is_found_by_verify(entry, tmp_path):
    board = Leaderboard(tmp_path / "board.json")
    board.submit(entry)
    text = board.path.read_text(encoding="utf-8")
    board.path.write_text(text.replace(f'"points": {board.rows[0]["points"]}', '"points": 99.9'), encoding="utf-8")
    assert Leaderboard(board.path).verify() == [f"scripted: the board says points 99.9, the replay gives "
                                                f"{board.rows[0]['points']}"]


@pytest.mark.parametrize("source, said", [
    ("import os\ndef rank(row):\n    return 0\n", "Import"),
    ("def rank(row):\n    return open('x')\n", "NameError"),
    ("def rank(row):\n    return row.__class__\n", "__class__"),
    ("def rank(row):\n    return '{0.a}'.format(row)\n", "format"),
    ("g = (g.gi_frame for _ in [0])\ndef rank(row):\n    return 0\n", "gi_frame|'_'"),
    ("def rank(row):\n    return row['max_num_tokens']\n", "KeyError"),
    ("def rank(row):\n    return float('nan')\n", "nan"),
    ("def rank(row):\n    return (row['arrival'],) if row['arrival'] % 2 else 0\n", "compared"),
    ("QUANTUM = 0\ndef rank(row):\n    return 0\n", "QUANTUM"),
    ("def other(row):\n    return 0\n", "no function rank"),
    ("def rank(row):\n", "can't read"),
    ("TABLE = [" + "1, " * 1000 + "]\ndef rank(row):\n    return TABLE[row['arrival']]\n", "characters")])
def test_a_policy_that_reaches_out_or_is_none_is_refused_in_one_sentence(source, said, quick):
    with pytest.raises(ContestError, match=said):
        play(source, quick)


def test_a_policy_that_never_returns_is_ended(monkeypatch):
    arena = contest.CONTESTS["short"]
    monkeypatch.setitem(contest.CONTESTS, "short", type(arena)("short", "", arena.scenario, 0.3))
    with pytest.raises(ContestError, match="more than 0.3 s"):
        play("def rank(row):\n    while True:\n        pass\n")


def test_a_policy_may_use_math_and_keep_state():
    assert Policy("import math\nseen = []\n\ndef rank(row):\n    seen.append(row['arrival'])\n"
                  "    return math.log(len(seen))\n")


def test_the_command_runs_submits_shows_and_verifies(quick, tmp_path, capsys):
    policy, board = tmp_path / "mine.py", str(tmp_path / "board.json")
    policy.write_text(SCRIPTED, encoding="utf-8")
    assert cli.main(["leaderboard", "run", str(policy), "--contest", quick, "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert ran["name"] == "mine" and ran["entry"] == str(tmp_path / "mine.json")
    assert cli.main(["leaderboard", "submit", ran["entry"], "--board", board]) == 0
    assert cli.main(["leaderboard", "show", "--contest", quick, "--board", board]) == 0
    assert "mine" in capsys.readouterr().out
    assert cli.main(["leaderboard", "verify", "--board", board, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"entries": 1, "wrong": []}


def test_the_command_refuses_a_cheat_in_one_line(edited, tmp_path, capsys):
    path = tmp_path / "cheat.json"
    edited["scores"]["tokens_per_s"] *= 2
    path.write_text(json.dumps(edited), encoding="utf-8")
    assert cli.main(["leaderboard", "submit", str(path), "--board", str(tmp_path / "board.json")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "refused" in error


@pytest.mark.parametrize("arguments, said", [(["run"], "which file"), (["submit", "nowhere.json"], "nowhere.json"),
                                             (["dance"], "dance")])
def test_wrong_use_is_one_line(arguments, said, capsys):
    assert cli.main(["leaderboard", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and said in error
