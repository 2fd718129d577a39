"""A class from beginning to end: read, judge on every core or a cluster, keep each result the moment it is there.

`submissions/NAME.json` in the results folder is the journal: one file a learner, written at once and complete. A
grader that was killed finds there what is done and goes on with the rest; what is not there yet counts as
"incomplete" with 0 points. All other files are made from these, so they are the same bytes however often it stopped.
"""
from __future__ import annotations

import hashlib
import hmac
import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from minipaged.lab import exercises as registry
from minipaged.lab.exercise import Exercise
from minipaged.lab.grader.folders import WORK, as_json, check_places, only_grader, slug, sweep, write_atomically
from minipaged.lab.grader.judging import Verdict, judge
from minipaged.lab.grader.keeper import Keeper
from minipaged.lab.grader.submission import Submission, read, submissions

VERSION = 1
_keepers: dict[tuple, Keeper] = {}


def labs_of(found: Sequence[Submission]) -> list[str]:
    """The labs that at least half of those who answered anything have answered, in the order of the course."""
    chapter_of = {exercise.id: exercise.chapter for exercise in registry.all()}
    answered = Counter(chapter for one in found for chapter in {chapter_of[name] for name in one.cells})
    most = max(answered.values(), default=0)
    return sorted(chapter for chapter, count in answered.items() if 2 * count >= most)


def exercises_of(labs: Sequence[str]) -> tuple[Exercise, ...]:
    """All exercises of these labs. Errors: ValueError that lists the labs there are."""
    known = list(dict.fromkeys(exercise.chapter for exercise in registry.all()))
    if unknown := [lab for lab in labs if lab not in known]:
        raise ValueError(f"there is no lab {unknown[0]!r}; there are: {', '.join(known)}")
    return tuple(exercise for exercise in registry.all() if exercise.chapter in labs)


def fingerprint(submission: Submission, exercises: Sequence[Exercise], key: bytes) -> str:
    """Changes with the submission, the exercises and the key: a result with the same one needs no second run."""
    digest = hmac.new(key, f"{VERSION} {submission.digest}".encode(), hashlib.sha256)
    for exercise in exercises:
        digest.update(exercise.id.encode())
        for module in dict.fromkeys(part.__module__ for part in (exercise.case, exercise.drive, exercise.reference)):
            digest.update(Path(sys.modules[module].__file__).read_bytes())
    return digest.hexdigest()


def grade_class(folder: Path, results: Path, *, labs: Sequence[str] = (), key: bytes, jobs: int = 1,
                backend: str | None = None, again: bool = False,
                progress: Callable[[int, int], None] | None = None) -> list[dict]:
    """Grade every submission in `folder` and return a row for each, in order. Ctrl-C keeps what is done.

    Errors: ValueError for a class without notebooks, folders in each other, or a second grader in `results`.
    """
    check_places(folder, results)
    results.mkdir(parents=True, exist_ok=True)
    with only_grader(results):
        return _grade_class(folder, results, labs, key, jobs, backend, again, progress)


def _grade_class(folder: Path, results: Path, labs: Sequence[str], key: bytes, jobs: int, backend: str | None,
                 again: bool, progress: Callable[[int, int], None] | None) -> list[dict]:
    from minipaged.lab.grader.results import write_all

    exercises, found = _read_class(folder, labs)
    journal, work = results / "submissions", results / WORK
    journal.mkdir(parents=True, exist_ok=True)
    sweep(results)
    work.mkdir()
    rows, tasks = {}, []
    for submission in found:
        row = None if again else _kept(journal / f"{slug(submission.learner)}.json",
                                       fingerprint(submission, exercises, key))
        rows[submission.learner] = row or incomplete(submission, exercises)
        if row is None:
            tasks.append(task(submission, exercises, key, hidden=[folder, results], work=work))
    write_all(results, list(rows.values()), exercises)
    done = len(rows) - len(tasks)
    try:
        for row in [] if not tasks else _run(tasks, jobs, backend):
            write_atomically(journal / f"{slug(row['learner'])}.json", as_json(row))
            rows[row["learner"]] = row
            done += 1
            if progress is not None:
                progress(done, len(rows))
    finally:
        close_keepers()
        sweep(results)
        write_all(results, list(rows.values()), exercises)
    return list(rows.values())


def task(submission: Submission, exercises: Sequence[Exercise], key: bytes, hidden: Sequence[Path], work: Path) -> dict:
    """What a worker needs to judge a submission, as plain data. `work`: where it may make an empty folder."""
    return {**asdict(submission), "fingerprint": fingerprint(submission, exercises, key), "key": key.hex(),
            "work": str(work.resolve()), "hidden": [str(path.resolve()) for path in hidden],
            "exercises": [one.id for one in exercises], "grader": os.getpid()}


def _read_class(folder: Path, labs: Sequence[str]) -> tuple[tuple[Exercise, ...], list[Submission]]:
    every = submissions(folder)
    if not labs:
        labs = labs_of([read(learner, path, registry.all()) for learner, path in every])
        if not labs:
            raise ValueError(f"no notebook in {folder} answers an exercise of a lab that is known here; name the lab "
                             "with --lab to grade it all the same")
    exercises = exercises_of(labs)
    return exercises, [read(learner, path, exercises) for learner, path in every]


def _run(tasks: list[dict], jobs: int, backend: str | None) -> Iterator[dict]:
    if jobs == 1 and backend is None:
        yield from map(grade_one, tasks)
        return
    import joblib

    waiting = {task["learner"]: task for task in tasks}
    with joblib.parallel_config(backend, n_jobs=jobs) if backend else joblib.parallel_config(n_jobs=jobs):
        try:
            for row in joblib.Parallel(return_as="generator_unordered", batch_size=1)(
                    joblib.delayed(grade_one)(task) for task in tasks):
                del waiting[row["learner"]]
                yield row
        except (OSError, RuntimeError) as error:  # a worker was killed, or a machine of the cluster left
            print(f"minipaged grade: a worker was lost ({type(error).__name__}); the rest is graded here",
                  file=sys.stderr)
    yield from map(grade_one, list(waiting.values()))


def grade_one(task: dict) -> dict:
    """Judge one submission; a row in any case. Runs in a worker: everything that comes and goes is plain data."""
    if os.getppid() == task["grader"]:
        _be_a_worker(task["grader"])
    exercises = [registry.find(name) for name in task["exercises"]]
    needs = tuple(sorted({need for exercise in exercises for need in exercise.needs}))
    verdicts = []
    for exercise in exercises:
        notes = [text for name, text in task["notes"] if name == exercise.id]
        for _ in range(2):  # once more with a new keeper: the system may have ended the old one
            try:
                keeper = _keeper(needs, tuple(map(Path, task["hidden"])), Path(task["work"]))
                verdict = judge(exercise, task["cells"].get(exercise.id), task["shared"], notes,
                                bytes.fromhex(task["key"]), keeper)
                break
            except Exception as error:  # a fault of ours must not cost the class its grades
                close_keepers()
                verdict = Verdict(exercise.id, "incomplete", notes=notes, message="The grader itself failed here: "
                                  f"{type(error).__name__}: {str(error)[:300]}. Please tell your teacher.")
        verdicts.append(verdict)
    return _row(task["learner"], task["fingerprint"], task["notes"], verdicts)


def _be_a_worker(parent: int) -> None:
    """Leave Ctrl-C to the one who asked, and end with it: joblib's workers would outlive a grader that was killed."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if not any(thread.name == "watch the grader" for thread in threading.enumerate()):
        threading.Thread(target=_end_with, args=(parent,), name="watch the grader", daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)  # the keepers and what they hold see the end of their pipes


def _row(learner: str, mark: str, notes: Sequence, verdicts: Sequence[Verdict]) -> dict:
    levels = sorted({verdict.isolation["level"] for verdict in verdicts if verdict.isolation}) or ["nothing was run"]
    return {"learner": learner, "fingerprint": mark, "score": sum(one.points for one in verdicts),
            "max_score": sum(one.max_points for one in verdicts), "isolation": "; ".join(levels),
            "notes": [text for name, text in notes if not name], "verdicts": [one.as_dict() for one in verdicts]}


def incomplete(submission: Submission, exercises: Sequence[Exercise]) -> dict:
    """The row of a submission that nobody has judged yet."""
    return _row(submission.learner, "", submission.notes,
                [Verdict(one.id, "incomplete", message="Not graded yet.") for one in exercises])


def _kept(path: Path, mark: str) -> dict | None:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
        judged = all(one["status"] != "incomplete" for one in row["verdicts"])
        return row if row["fingerprint"] == mark and judged else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # not there, or not ours


def _keeper(needs: tuple[str, ...], hidden: tuple[Path, ...], work: Path) -> Keeper:
    """One for each kind of lab in each thread; torch is loaded once for all submissions."""
    name = (needs, work, threading.get_ident())
    if name not in _keepers:
        _keepers[name] = Keeper(needs, hidden, base=work)
    return _keepers[name]


def close_keepers() -> None:
    while _keepers:
        _keepers.popitem()[1].close()
