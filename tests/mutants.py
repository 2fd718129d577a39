"""Do the checks of the labs reject wrong answers, and only these?

    python -m tests.mutants                 the table
    python -m tests.mutants --json          one object: mutants, killed, equivalent, false_rejects, ...
    python -m tests.mutants --only blocks   one topic, or one exercise (blocks.slot); every survivor in full

Wrong answers are the misconceptions of the exercises, each of which must get its own message, and changes of one
place in the solutions, made from their syntax trees. Right ones are the solutions and tests/labs/right/*.py; none
may be rejected. A changed solution that is still right is explained in tests/labs/equivalent.json. All run in
worker processes, which are killed when they take too long.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

from minipaged.lab import exercises
from minipaged.lab.answer import from_source
from minipaged.lab.checks import judge
from minipaged.lab.interface import problem
from minipaged.lab.search import attempt, seeded_cases
from tests.labs import answers
from tests.labs.answers import GENERATED, MADE, SOUND, WRITTEN, Candidate

ROOT = Path(__file__).resolve().parents[1]
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]  # kernels/ is no package

EQUIVALENT = ROOT / "tests" / "labs" / "equivalent.json"
SECONDS = 30  # for one answer; more is a rejection


class Verdict(NamedTuple):
    candidate: Candidate
    rejected: bool
    misconception: str | None  # the one whose message was shown
    text: str


# ---- trying them

def try_one(candidate: Candidate) -> Verdict:
    """What the exercise's check says of an answer."""
    exercise = exercises.find(candidate.exercise)
    try:
        objects = vars(from_source(candidate.source))
    except Exception as error:
        return Verdict(candidate, True, None, f"{type(error).__name__}: {error}")
    if candidate.kind == MADE:  # no message is wanted: the first failing case will do
        answer, sentence = exercise.answer(objects), problem(exercise, objects)
        if sentence is not None:
            return Verdict(candidate, True, None, sentence)
        for case in [*exercise.examples, *seeded_cases(exercise, exercise.trials)]:
            if attempt(exercise, answer, case) is not None:
                return Verdict(candidate, True, None, "a case fails")
    result = judge(exercise, objects)
    return Verdict(candidate, not result.passed, result.misconception and result.misconception.id, result.message)


def serve() -> None:
    """A worker: candidates as JSON lines in, verdicts out."""
    channel, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
    for line in sys.stdin:
        verdict = try_one(Candidate(*json.loads(line)))
        channel.write(json.dumps([verdict.rejected, verdict.misconception, verdict.text]) + "\n")
        channel.flush()


class Worker:
    """A process that tries answers; it is replaced when one takes too long."""

    def __init__(self) -> None:
        self._process: subprocess.Popen | None = None

    def try_one(self, candidate: Candidate) -> Verdict:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.mutants", "--worker"], cwd=ROOT, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
                env={**os.environ, "OMP_NUM_THREADS": "1"})
        process = self._process
        alarm = threading.Timer(SECONDS, process.kill)
        alarm.start()
        try:
            process.stdin.write(json.dumps(candidate) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            alarm.cancel()
        if not line:
            self.close()
            return Verdict(candidate, True, None, "the worker died or took too long")
        return Verdict(candidate, *json.loads(line))

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()
            self._process.stdout.close()
            self._process = None


def try_all(wanted: Sequence[Candidate], workers: int) -> list[Verdict]:
    """The verdicts, in order."""
    free: Queue[Worker] = Queue()
    for _ in range(workers):
        free.put(Worker())

    def one(candidate: Candidate) -> Verdict:
        worker = free.get()
        try:
            return worker.try_one(candidate)
        finally:
            free.put(worker)

    try:
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(one, wanted))
    finally:
        while not free.empty():
            free.get().close()


# ---- the table

def known_equivalents() -> dict[str, dict[str, str]]:
    """exercise id -> {name of a generated change: why it is still right}."""
    return json.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else {}


def summary(verdicts: Sequence[Verdict]) -> dict:
    """The numbers, and in lists what does not hold."""
    equivalent = known_equivalents()
    wrong = [one for one in verdicts if one.candidate.kind != SOUND]
    alive = [one for one in wrong if not one.rejected]
    explained = [one for one in alive if one.candidate.name in equivalent.get(one.candidate.exercise, {})]
    written = [one for one in wrong if one.candidate.kind == WRITTEN]
    right = [one for one in verdicts if one.candidate.kind == SOUND]
    return {
        "mutants": len(wrong), "killed": len(wrong) - len(alive), "equivalent": len(explained),
        "false_rejects": sum(one.rejected for one in right), "written": len(written),
        "generated": len(wrong) - len(written), "right": len(right),
        "exercises": len({one.candidate.exercise for one in verdicts}),
        "named": sum(one.misconception == one.candidate.name for one in written),
        "survivors": [_name(one) for one in alive if one not in explained],
        "not_named": [f"{_name(one)} (shown: {one.misconception})" for one in written
                      if one.misconception != one.candidate.name],
        "rejected_right": [_name(one) for one in right if one.rejected],
    }


def _name(verdict: Verdict) -> str:
    return f"{verdict.candidate.exercise} | {verdict.candidate.name}"


def table(verdicts: Sequence[Verdict], numbers: dict) -> str:
    lines = [f"{'exercise':<34} {'written':>8} {'named':>6} {'generated':>10} {'killed':>7} {'right':>6} "
             f"{'rejected':>9}"]
    for name in dict.fromkeys(one.candidate.exercise for one in verdicts):
        row = summary([one for one in verdicts if one.candidate.exercise == name])
        lines.append(f"{name:<34} {row['written']:>8} {row['named']:>6} {row['generated']:>10} {row['killed']:>7} "
                     f"{row['right']:>6} {row['false_rejects']:>9}")
    for what in ("survivors", "not_named", "rejected_right"):
        lines += [f"{what.replace('_', ' ')}: {text}" for text in numbers[what]]
    judged = numbers["mutants"] - numbers["equivalent"]
    lines.append(f"{numbers['killed']} of {judged} wrong answers rejected ({numbers['killed'] / max(judged, 1):.1%}; "
                 f"{numbers['equivalent']} more are equivalent), {numbers['named']} of {numbers['written']} "
                 f"misconceptions named, {numbers['false_rejects']} of {numbers['right']} right answers rejected")
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0],
                                     epilog="example: python -m tests.mutants --only blocks.slot")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--only", default="", help="a topic or an exercise, such as blocks or blocks.slot")
    parser.add_argument("--generated", type=int, default=GENERATED, help="changed solutions an exercise")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        serve()
        return 0
    wanted = answers.candidates(args.only, args.generated)
    if not wanted:
        parser.error(f"no exercise begins with {args.only!r}")
    verdicts = try_all(wanted, args.workers)
    numbers = summary(verdicts)
    print(json.dumps(numbers, ensure_ascii=False) if args.json else table(verdicts, numbers))
    return 1 if numbers["survivors"] or numbers["not_named"] or numbers["rejected_right"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
