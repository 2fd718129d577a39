"""Item statistics of a graded class: how hard each exercise was, whom it told apart, and what people believed.

Difficulty is the share of learners who were right (1: easy). Discrimination is the correlation of being right here
with the score in all other exercises, from -1 to 1: near 0, the exercise says nothing about the rest; below 0, look at
its text.
"""
from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


def load(results: Path) -> dict:
    """The table that `minipaged grade` wrote. Errors: ValueError naming the file and what to do."""
    path = results / "grades.json" if results.is_dir() else results
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"{path} is not there; run `minipaged grade FOLDER -o {results}` first") from None
    except (ValueError, RecursionError):
        table = None
    if not isinstance(table, dict) or table.get("version") != 1:
        raise ValueError(f"{path} is no file of `minipaged grade`")
    return table


def items(table: dict) -> list[dict]:
    """One entry an exercise: id, learners, difficulty, discrimination (None if all did alike), statuses,
    misconceptions. Learners who were not graded yet do not count."""
    found = []
    rows = [row for row in table["rows"] if any(one["status"] != "incomplete" for one in row["verdicts"])]
    for at, exercise in enumerate(table["exercises"]):
        verdicts = [row["verdicts"][at] for row in rows]
        right = [one["points"] / one["max_points"] for one in verdicts]
        rest = [row["score"] - one["points"] for row, one in zip(rows, verdicts)]
        believed = Counter(one["misconception"] for one in verdicts if one["misconception"])
        found.append({"id": exercise["id"], "learners": len(rows),
                      "difficulty": round(sum(right) / len(right), 4) if right else None,
                      "discrimination": correlation(right, rest),
                      "statuses": dict(sorted(Counter(one["status"] for one in verdicts).items())),
                      "misconceptions": dict(sorted(believed.items(), key=lambda entry: (-entry[1], entry[0])))})
    return found


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's r to four digits; None when one of them does not vary."""
    count = len(first)
    if count < 2:
        return None
    means = sum(first) / count, sum(second) / count
    pairs = [(a - means[0], b - means[1]) for a, b in zip(first, second)]
    spread = math.sqrt(sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs))
    return round(sum(a * b for a, b in pairs) / spread, 4) if spread > 1e-12 else None


def as_text(found: Sequence[dict]) -> str:
    """A table, and below it what people believed."""
    width = max([len("exercise"), *(len(item["id"]) for item in found)])
    lines = [f"{'exercise':<{width}}  right  discrimination  not right because"]
    for item in found:
        why = ", ".join(f"{count} {status}" for status, count in item["statuses"].items() if status != "right")
        lines.append(f"{item['id']:<{width}}  {_number(item['difficulty'], '5.0%')}  "
                     f"{_number(item['discrimination'], '14.2f')}  {why}".rstrip())
    beliefs = [(item["id"], name, count) for item in found for name, count in item["misconceptions"].items()]
    if beliefs:
        lines += ["", "misconceptions (the wrong answer behaves like a known one):",
                  *(f"  {count:>3} x {exercise}: {name}" for exercise, name, count in beliefs)]
    return "\n".join(lines)


def _number(value: float | None, form: str) -> str:
    return "-".rjust(int(form.partition(".")[0])) if value is None else format(value, form)
