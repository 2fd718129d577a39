"""`minipaged predictions`: what a learner predicted, and what a class did. No chapter; see docs for teachers.

A learner's CSV holds no name, no machine and no time. A teacher puts the files of a class together and sees,
question by question, how many chose what, and what that choice overlooks.
"""
from __future__ import annotations

import argparse
import csv
import io
import json
import sys
from collections import Counter
from pathlib import Path

from minipaged.lesson import store

COLUMNS = ("prediction", "question", "answer", "measured", "right", "overlooks")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=("list", "export", "class", "forget"), nargs="?", default="list",
                        help="list yours; export them as an anonymous CSV; count the CSVs of a class; forget some")
    parser.add_argument("names", nargs="*", metavar="FILE|NAME", help="class: CSV files; forget: predictions, or none "
                        "for all of them")
    parser.add_argument("-o", "--output", type=Path, help="write the CSV to this file, not to the screen")
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table or CSV")


def run(args: argparse.Namespace) -> int:
    if args.names and args.action in ("list", "export"):
        raise ValueError(f"`{args.action}` takes no names, got {args.names[0]!r}")
    if args.action == "forget":
        return _forget(args.names)
    rows = count_class(args.names) if args.action == "class" else own_rows()
    if args.json:
        text = json.dumps(rows, indent=1, ensure_ascii=False) + "\n"
    elif args.action == "list" or (args.action == "class" and not args.output):
        text = _table(rows)
    else:
        text = _as_csv(rows, COLUMNS if args.action == "export" else CLASS_COLUMNS)
    if args.output:
        args.output.write_text(text, encoding="utf-8", newline="")
        print(f"{len(rows)} lines written to {args.output}")
    else:
        sys.stdout.write(text)
    return 0


def own_rows() -> list[dict]:
    """The learner's own predictions, in the order in which they were made."""
    return [{"prediction": name, "question": entry["question"], "answer": entry["answer"],
             "measured": entry.get("measured", ""), "right": {True: "yes", False: "no"}.get(entry.get("right"), ""),
             "overlooks": entry.get("misses", "")} for name, entry in store.load().items()]


CLASS_COLUMNS = ("prediction", "question", "answer", "count", "share", "right", "overlooks")


def count_class(paths: list[str]) -> list[dict]:
    """How often each answer was given in these files, question by question, the most frequent first."""
    if not paths:
        raise ValueError("name the CSV files of the class: minipaged predictions class a.csv b.csv")
    counts: Counter[tuple[str, ...]] = Counter()
    asked: Counter[str] = Counter()
    for path in paths:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            if missing := set(COLUMNS) - set(reader.fieldnames or ()):
                raise ValueError(f"{path} is no export of predictions: it has no column {sorted(missing)[0]!r}")
            for row in reader:
                counts[tuple(row[key] for key in ("prediction", "question", "answer", "right", "overlooks"))] += 1
                asked[row["prediction"]] += 1
    order = {name: at for at, name in enumerate(asked)}
    return [{"prediction": name, "question": question, "answer": answer, "count": count,
             "share": f"{count / asked[name]:.0%}", "right": right, "overlooks": overlooks}
            for (name, question, answer, right, overlooks), count
            in sorted(counts.items(), key=lambda item: (order[item[0][0]], -item[1], item[0]))]


def _forget(names: list[str]) -> int:
    kept = store.load()
    if unknown := [name for name in names if name not in kept]:
        raise ValueError(f"no prediction {unknown[0]!r} is recorded; there are: {', '.join(kept) or 'none'}")
    gone = names or list(kept)
    store.save({name: entry for name, entry in kept.items() if name not in gone})
    print(f"{len(gone)} predictions forgotten")
    return 0


def _as_csv(rows: list[dict], columns: tuple[str, ...]) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _table(rows: list[dict]) -> str:
    if not rows:
        return "no predictions are recorded; the chapters ask for them\n"
    shown, before = [], None
    for row in rows:
        if row["prediction"] != before:
            shown.append(f"{row['prediction']}: {row['question']}")
            before = row["prediction"]
        how_often = f"{row['count']} ({row['share']}) " if "count" in row else ""
        verdict = {"yes": "right", "no": "not right"}.get(row["right"], "not measured yet")
        measured = f", measured {row['measured']}" if row.get("measured") else ""
        overlooks = f". {row['overlooks']}" if row["overlooks"] else ""
        shown.append(f"  {how_often}{row['answer']}: {verdict}{measured}{overlooks}")
    return "\n".join(shown) + "\n"
