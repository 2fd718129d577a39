"""`minipaged learn`: the way through the labs in a terminal.

It reads the notebooks in exercises/ as you have saved them, without Jupyter, and keeps what you have done in one file
(see progress.py); the checks in the notebook write the same file.
"""
from __future__ import annotations

import argparse
import json

from minipaged.lab import exercises, notebooks, progress, report
from minipaged.lab.exercise import LEVELS, Exercise
from minipaged.lab.hints import next_hint

ACTIONS = {
    "next": "the next exercise that is not passed",
    "list": "all exercises, with level, minutes and state",
    "check": "check an answer in the saved notebook",
    "hint": "a question, then a sketch, then nearly the code",
    "progress": "what you have done",
    "reset": "put the starter of one exercise back; the others stay",
    "solution": "our answer, after you have passed",
}

#: what stands behind the action in the example of its help
EXAMPLES = {"list": " --level easy", "check": " blocks.allocator", "hint": " blocks.allocator", "reset": " blocks.slot",
            "solution": " blocks.slot --force"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = ("examples:\n  minipaged learn                          what to do next\n"
                     "  minipaged learn check blocks.allocator\n  minipaged learn hint\n"
                     "  minipaged learn list --level easy\n  minipaged learn reset blocks.slot\n\n"
                     "Without an id: the next exercise that is not passed. Your progress is the file that\n"
                     "MINIPAGED_PROGRESS names, or lies in the platform's folder for data; copy it to move it.")
    parser.set_defaults(action="next", id=None)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, text in ACTIONS.items():
        own = actions.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.",
                                 epilog=f"example:\n  minipaged learn {name}{EXAMPLES.get(name, '')}")
        if name in ("list", "progress"):
            own.add_argument("--json", action="store_true", help="as JSON")
        else:
            own.add_argument("id", nargs="?", help="an exercise, such as blocks.allocator")
    actions.choices["list"].add_argument("--level", choices=LEVELS, help="only this level")
    actions.choices["solution"].add_argument("--force", action="store_true",
                                             help="also before you have passed; your progress says so")


def run(args: argparse.Namespace) -> int:
    entries = progress.read()
    args.action = args.action or "next"  # argparse sets None where no action is named
    if args.action in ("list", "progress"):
        (_list if args.action == "list" else _progress)(entries, args)
        return 0
    if args.action == "reset" and args.id is None:
        raise ValueError("reset takes away what you wrote: name the exercise, as in `minipaged learn reset "
                         "blocks.slot`")
    exercise = _wanted(args.id, entries)
    if exercise is None:
        print("You have passed every exercise. `minipaged learn list` shows them all.")
        return 0
    return {"next": _next, "check": _check, "hint": _hint, "reset": _reset, "solution": _solution}[args.action](
        exercise, entries, args)


def _wanted(exercise_id: str | None, entries: dict) -> Exercise | None:
    if exercise_id is not None:
        try:
            return exercises.find(exercise_id)
        except KeyError as error:
            raise ValueError(error.args[0]) from None
    return next((one for one in exercises.all() if not entries.get(one.id, {}).get("passed")), None)


def _next(exercise: Exercise, entries: dict, args: argparse.Namespace) -> int:
    done = sum(bool(entries.get(one.id, {}).get("passed")) for one in exercises.all())
    print(f"{done} of {len(exercises.all())} exercises passed. Next: {exercise.title}\n"
          f"  {exercise.id} · {exercise.level} · {exercise.minutes} minutes · chapter {exercise.chapter}\n"
          f"  {exercise.goal}\n"
          f"Open exercises/{exercise.chapter}.ipynb, write your answer, save, and run `minipaged learn check`.")
    return 0


def _check(exercise: Exercise, entries: dict, args: argparse.Namespace) -> int:
    passed, text = notebooks.run_check(exercise, notebooks.find_folder())
    progress.record_check(exercise.id, passed)
    if not passed:
        print(text.replace(report.hint_call(exercise), f"`minipaged learn hint {exercise.id}`"))
        return 1
    following = _wanted(None, progress.read())
    print(report.praise(exercise) + ("" if following is None else
          f" Next: {following.title} ({following.id}, {following.level}, {following.minutes} minutes)."))
    return 0


def _hint(exercise: Exercise, entries: dict, args: argparse.Namespace) -> int:
    print(f"{exercise.title} ({exercise.id})\n{next_hint(exercise.id)}")
    return 0


def _reset(exercise: Exercise, entries: dict, args: argparse.Namespace) -> int:
    notebooks.reset(exercise, notebooks.find_folder())
    print(f"{exercise.id} is as it was at first; the other cells of {exercise.chapter}.ipynb are yours as before. "
          "Reload the notebook if it is open.")
    return 0


def _solution(exercise: Exercise, entries: dict, args: argparse.Namespace) -> int:
    entry = entries.get(exercise.id, {})
    if not entry.get("passed") and not args.force:
        raise ValueError(f"{exercise.id} is not passed yet; ask for a hint (`minipaged learn hint {exercise.id}`), or "
                         "use --force, which your progress will mention")
    text = notebooks.solution_text(exercise, notebooks.find_folder())
    progress.update(exercise.id, solution=True, forced=entry.get("forced", False) or not entry.get("passed", False))
    print(text)
    return 0


def _rows(entries: dict, level: str | None = None) -> list[dict]:
    return [{"id": one.id, "title": one.title, "chapter": one.chapter, "level": one.level, "minutes": one.minutes,
             "passed": bool(entries.get(one.id, {}).get("passed")), "checks": entries.get(one.id, {}).get("checks", 0),
             "hints": entries.get(one.id, {}).get("hints", 0),
             "forced": bool(entries.get(one.id, {}).get("forced"))}
            for one in exercises.all() if level in (None, one.level)]


def _list(entries: dict, args: argparse.Namespace) -> None:
    rows = _rows(entries, args.level)
    if args.json:
        print(json.dumps(rows, ensure_ascii=False))
        return
    chapter = None
    for row in rows:
        if row["chapter"] != chapter:
            chapter = row["chapter"]
            print(chapter)
        mark = "✓" if row["passed"] else "·"
        print(f"  {mark} {row['id']:<28} {row['level']:<7} {row['minutes']:>3} min  {row['title']}")


def _progress(entries: dict, args: argparse.Namespace) -> None:
    rows = _rows(entries)
    if args.json:
        print(json.dumps({"file": str(progress.progress_file()), "exercises": rows}, ensure_ascii=False))
        return
    for chapter in dict.fromkeys(row["chapter"] for row in rows):
        own = [row for row in rows if row["chapter"] == chapter]
        done = sum(row["passed"] for row in own)
        print(f"{chapter:<24} {'■' * done}{'□' * (len(own) - done)} {done}/{len(own)}")
    done = [row for row in rows if row["passed"]]
    left = sum(row["minutes"] for row in rows if not row["passed"])
    hints = sum(row["hints"] for row in rows)
    print(f"{len(done)} of {len(rows)} passed, {hints} hint{'' if hints == 1 else 's'} taken, "
          f"about {left} minutes to go")
    if forced := [row["id"] for row in rows if row["forced"]]:
        print(f"solution seen before passing: {', '.join(forced)}")
    print(f"kept in {progress.progress_file()}")
