"""Answers to the exercises, right and wrong, that their checks are tried with (see tests/mutants.py)."""
from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from minipaged.lab import cells, exercises
from minipaged.lab.exercise import Exercise

ROOT = Path(__file__).resolve().parents[2]
RIGHT = ROOT / "tests" / "labs" / "right"
GENERATED = 8  # changed solutions of one exercise
WRITTEN, MADE, SOUND = "written", "generated", "right"
_CELL = re.compile(r"^# %% *([^:\s]+) *: *(.*)$")


class Candidate(NamedTuple):
    """An answer to try. `kind`: WRITTEN, MADE or SOUND; `name` says which of its exercise."""

    exercise: str
    kind: str
    name: str
    source: str


def solutions(topics: Iterable[Exercise] | None = None) -> dict[str, tuple[str, str]]:
    """exercise id -> (the setup cells, the answer), as the solution notebooks have them."""
    found: dict[str, tuple[str, str]] = {}
    for exercise in topics or exercises.all():
        path = ROOT / "solutions" / f"{exercise.chapter}.ipynb"
        code = cells.code_cells(json.loads(path.read_text(encoding="utf-8")))
        setup = "\n".join(cells.source_of(cell) for cell in cells.setup(code))
        answer = "\n".join(cells.source_of(cell) for cell in cells.answers(code, exercise.id))
        found[exercise.id] = setup, cells.without_markers(answer)
    return found


def right_answers() -> list[Candidate]:
    """The cells of tests/labs/right, `# %% blocks.slot: by hand`, each a whole answer."""
    found = []
    for path in sorted(RIGHT.glob("*.py")):
        head, lines = None, []
        for line in [*path.read_text(encoding="utf-8").splitlines(), "# %% end: "]:
            if match := _CELL.match(line):
                if head is not None:
                    found.append(Candidate(head[0], SOUND, head[1], "\n".join(lines)))
                head, lines = (match[1], match[2]), []
            else:
                lines.append(line)
    return found


def changed_solutions(exercise_id: str, setup: str, answer: str, count: int) -> list[Candidate]:
    """`count` one-place changes of a solution, drawn so that an edit leaves the others in the draw."""
    from tests.core.mutants import faults_of, mutated

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answer"
        file.write_text(answer, encoding="utf-8", newline="\n")
        faults, source = faults_of(file), file.read_bytes()
    drawn = sorted(faults, key=lambda fault: hashlib.sha256(fault.name.encode()).digest())[:count]
    return [Candidate(exercise_id, MADE, fault.name.removeprefix("answer "),
                      f"{setup}\n{mutated(source, fault).decode()}") for fault in drawn]


def candidates(only: str = "", generated: int = GENERATED) -> list[Candidate]:
    """Every answer to try, exercise after exercise. `only`: the start of exercise ids."""
    wanted = [one for one in exercises.all() if one.id.startswith(only)]
    sources, right = solutions(wanted), right_answers()
    found = []
    for one in wanted:
        setup, answer = sources[one.id]
        found.append(Candidate(one.id, SOUND, "the solution", f"{setup}\n{answer}"))
        found += [candidate for candidate in right if candidate.exercise == one.id]
        found += [Candidate(one.id, WRITTEN, item.id, item.source) for item in one.misconceptions]
        found += changed_solutions(one.id, setup, answer, generated)
    return found
