"""Run one answer outside Jupyter and check it: `python -m minipaged.lab.run_answer ID FILE` (used by `learn`).

FILE is a JSON list of cells: the setup, last the answer.

Exit code 0: passed, 1: not. What stands on stdout is for the learner.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path

from minipaged.lab import exercises
from minipaged.lab.checks import judge
from minipaged.lab.report import not_ready
from minipaged.lab.search import has_film


def main(exercise_id: str, file: str) -> int:
    exercise = exercises.find(exercise_id)
    names: dict[str, object] = {"__name__": "answer"}
    for source in json.loads(Path(file).read_text(encoding="utf-8")):  # one cell after the other: lines count from 1
        if sentence := _run(source, names):
            print(not_ready(exercise, sentence))
            return 1
    result = judge(exercise, names)
    print(result.message)
    if result.failure is not None and has_film(result.failure):
        from minipaged.lab.picture import as_text

        print("\n" + as_text(result.failure))
    return 0 if result.passed else 1


def _run(source: str, names: dict[str, object]) -> str | None:
    """Run a cell; a sentence if that goes wrong."""
    try:
        exec(compile(source, "<your notebook>", "exec", dont_inherit=True), names)
    except SyntaxError as error:
        lines = source.splitlines()
        line = lines[error.lineno - 1].strip() if error.lineno and error.lineno <= len(lines) else ""
        return f"Python can't read line {error.lineno}, {line!r}: {error.msg}."
    except (Exception, SystemExit) as error:
        return f"running its cell raises {type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return None


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
