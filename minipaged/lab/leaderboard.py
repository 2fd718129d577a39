"""A leaderboard that believes nothing: it accepts an entry when it can replay it (chapter 14).

An entry is a JSON file with the text of a policy, its scores and its log. To submit it is to run the policy again:
whoever edits a score or a line of the log is told which number the replay gives. The board keeps the text of each
policy too, so that anybody can run all of it again (`verify`).
"""
from __future__ import annotations

import json
from pathlib import Path

from minipaged.lab.contest import ContestError, Played, contest, play, points

FORMAT = 1
_FIELDS = {"format": int, "contest": str, "name": str, "policy": str, "scores": dict, "log": list}
COLUMNS = ("first token", "last token", "number of preemptions")


def make_entry(name: str, policy: str, contest_name: str = "short") -> dict:
    """Run a policy and write down what came out. Raises ContestError."""
    if not name.strip() or len(name) > 40 or not name.isprintable():
        raise ContestError(f"the name is {name!r:.60}; it must be 1 to 40 printable characters")
    played = play(policy, contest_name)
    return {"format": FORMAT, "contest": contest_name, "name": name.strip(), "policy": policy, "scores": played.scores,
            "log": played.log}


def check_entry(entry: object) -> Played:
    """Replay an entry. Raises ContestError that names the first number that is not what the replay gives."""
    if not isinstance(entry, dict):
        raise ContestError("an entry is a JSON object with the fields " + ", ".join(_FIELDS))
    for field, kind in _FIELDS.items():
        if not isinstance(entry.get(field), kind):
            raise ContestError(f"the entry's field {field!r} is missing or of the wrong kind")
    if entry["format"] != FORMAT:
        raise ContestError(f"the entry has format {entry['format']}; this version reads {FORMAT}")
    contest(entry["contest"])
    played = play(entry["policy"], entry["contest"])
    if len(entry["log"]) != len(played.log):
        raise ContestError(f"refused: the log has {len(entry['log'])} requests, the replay {len(played.log)}")
    for number, (told, found) in enumerate(zip(entry["log"], played.log)):
        if told != found:
            told = told if isinstance(told, list) and len(told) == len(found) else [None] * len(found)
            at = next(at for at in range(len(found)) if told[at] != found[at])
            raise ContestError(f"refused: in the log the {COLUMNS[at]} of request {number} is {told[at]}, in the "
                               f"replay {found[at]}")
    for axis, value in played.scores.items():
        if entry["scores"].get(axis) != value:
            raise ContestError(f"refused: the entry says {axis} {entry['scores'].get(axis)}, the replay gives {value}")
    return played


class Leaderboard:
    """A file with the accepted entries of all contests, the best first; one entry a name and contest."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows: list[dict] = []
        if self.path.exists():
            try:
                self.rows = json.loads(self.path.read_text(encoding="utf-8"))["entries"]
            except (ValueError, KeyError, TypeError):
                raise ContestError(f"{self.path} is no leaderboard; name another file with --board") from None

    def submit(self, entry: dict) -> dict:
        """Replay an entry and keep it; it takes the place of a worse one of the same name. Raises ContestError."""
        played = check_entry(entry)
        row = {"name": entry["name"], "contest": entry["contest"], "points": points(played.scores, entry["contest"]),
               **played.scores, "log_sha256": played.digest, "policy": entry["policy"]}
        same = [one for one in self.rows if (one["name"], one["contest"]) == (row["name"], row["contest"])]
        if same and same[0]["points"] >= row["points"]:
            raise ContestError(f"{row['name']} already has {same[0]['points']} points on this board; this entry has "
                               f"{row['points']}")
        self.rows = sorted([one for one in self.rows if one not in same] + [row],
                           key=lambda one: (one["contest"], -one["points"], one["name"]))
        self.path.write_text(json.dumps({"entries": self.rows}, indent=1, ensure_ascii=False) + "\n", encoding="utf-8",
                             newline="\n")
        return row

    def verify(self) -> list[str]:
        """Replay every row; a sentence for each that is not what its policy gives. [] for an honest board."""
        wrong = []
        for row in self.rows:
            try:
                played = play(row["policy"], row["contest"])
                found = {**played.scores, "points": points(played.scores, row["contest"]), "log_sha256": played.digest}
            except ContestError as error:
                wrong.append(f"{row['name']}: {error}")
                continue
            wrong += [f"{row['name']}: the board says {key} {row.get(key)}, the replay gives {value}"
                      for key, value in found.items() if row.get(key) != value]
        return wrong
