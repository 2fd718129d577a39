"""`minipaged grade`: score a folder of notebooks that nobody has looked at."""
from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager
from pathlib import Path

from minipaged.lab.grader.batch import exercises_of, grade_class
from minipaged.lab.grader.folders import KEY_FILE, check_places, class_key
from minipaged.lab.grader.results import as_table

_MORE = """
  minipaged grade submitted -o results --lab 03_blocks --lab 04_paged_attention

A class of one, to try it: mkdir submitted && cp solutions/03_blocks.ipynb submitted/ben.ipynb"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"{parser.epilog or ''}{_MORE}"
    parser.add_argument("folder", type=Path, help="holds a folder or a notebook for each learner")
    parser.add_argument("-o", "--out", type=Path, default=Path("results"), metavar="FOLDER",
                        help="where the grades go (default results); graded again, only what is new is run")
    parser.add_argument("--lab", action="append", default=[], metavar="NAME",
                        help="a lab to grade, such as 03_blocks; again for more (default: those most have answered)")
    parser.add_argument("--key", type=Path, metavar="FILE",
                        help=f"the class key, from which the secret cases come (default {KEY_FILE} in the results; "
                             "made if it is not there)")
    parser.add_argument("-j", "--jobs", type=int, default=-1, metavar="N", help="processes (default -1: all cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="grade on the Dask cluster at this address")
    parser.add_argument("--again", action="store_true", help="run everything anew, also what has not changed")
    parser.add_argument("--json", action="store_true", help="print the grades as one JSON object")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    exercises_of(args.lab)  # a wrong name is told before a file is made
    if args.jobs == 0:
        raise ValueError("--jobs is 0; it must be a number of processes, or -1 for all cores")
    check_places(args.folder, args.out)
    args.out.mkdir(parents=True, exist_ok=True)
    key = class_key(args.key or args.out / KEY_FILE)
    with _cluster(args.dask) as backend, _bar(not args.no_progress and sys.stderr.isatty()) as progress:
        rows = grade_class(args.folder, args.out, labs=args.lab, key=key, jobs=args.jobs, backend=backend,
                           again=args.again, progress=progress)
    labs = list(dict.fromkeys(verdict["exercise"] for row in rows for verdict in row["verdicts"]))
    if args.json:
        from minipaged.lab import exercises

        print(json.dumps(as_table(rows, [exercises.find(name) for name in labs])))  # ASCII: texts are anybody's
        return 0
    for row in rows:
        wrong = "; ".join(map(_shown, row["notes"])) or ", ".join(
            f"{one['exercise']} {one['status']}" for one in row["verdicts"] if not one["points"])
        print(f"{row['score']:>3g} / {row['max_score']:g}  {_shown(row['learner'])}{f'  ({wrong})' if wrong else ''}")
    weaker = sorted({row["isolation"] for row in rows if row["isolation"].startswith("weaker")})
    print(f"\n{_count(rows, 'submission')}, {_count(labs, 'exercise')}: "
          f"{args.out / 'index.html'}, {args.out / 'grades.csv'}")
    for level in weaker:
        print(f"minipaged grade: isolation is {level}", file=sys.stderr)
    return 0


def _count(many: list, noun: str) -> str:
    return f"{len(many)} {noun}" + ("" if len(many) == 1 else "s")


def _shown(name: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in name)


@contextmanager
def _cluster(address: str | None):
    if address is None:
        yield None
        return
    from distributed import Client

    with Client(address, timeout="20s"):
        yield "dask"


@contextmanager
def _bar(shown: bool):
    """A function (done, all) that moves a bar on stderr; None when there is nobody to see it."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    with Progress(TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                  console=Console(stderr=True)) as progress:
        task = progress.add_task("grading", total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
