"""`minipaged leaderboard`: run a policy on the contest of chapter 14, and keep the entries that can be replayed."""
from __future__ import annotations

import argparse
import json
from pathlib import Path

from minipaged.lab import contest
from minipaged.lab.contest import AXES, CONTESTS, ContestError
from minipaged.lab.leaderboard import Leaderboard, make_entry
from minipaged.output_file import check_writable

ACTIONS = {
    "references": "the three reference policies and their scores",
    "run": "run the policy in FILE (Python) and write an entry",
    "submit": "replay the entry in FILE (JSON) and put it on the board; refused if a number differs",
    "show": "the board",
    "verify": "replay every row of the board; exit 1 if one differs",
}
_MORE = """
  minipaged leaderboard run my_policy.py      (the policy that you wrote in chapter 14, saved as a file)
  minipaged leaderboard submit my_policy.json"""
HEADS = {"points": "points", "tokens_per_s": "tokens/s", "ttft_p99_s": "TTFT P99 s", "fairness": "fairness"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    lines = "\n".join(f"  {name:<11} {about}" for name, about in ACTIONS.items())
    arenas = "\n".join(f"  {name:<11} {one.about}" for name, one in CONTESTS.items())
    parser.epilog = f"actions:\n{lines}\n\ncontests:\n{arenas}\n\n{parser.epilog or ''}{_MORE}"
    parser.add_argument("action", nargs="?", default="show", choices=ACTIONS, metavar="ACTION", help="default show")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a policy, or an entry")
    parser.add_argument("--contest", default="short", choices=CONTESTS, help="which traffic (default short)")
    parser.add_argument("--name", help="your name on the board (default: the policy's file name)")
    parser.add_argument("-o", "--out", type=Path, help="where `run` writes the entry (default FILE with .json)")
    parser.add_argument("--board", type=Path, default=Path("leaderboard.json"), help="default leaderboard.json")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.action in ("run", "submit") and args.file is None:
        raise ContestError(f"{args.action} which file? Name a {'policy' if args.action == 'run' else 'entry'}")
    return _ACTIONS[args.action](args)


def _references(args: argparse.Namespace) -> int:
    rows = [{"name": name, "points": contest.points(played.scores, args.contest), **played.scores}
            for name, played in contest.references(args.contest).items()]
    return _print(args, rows, {"contest": args.contest, "references": rows})


def _run(args: argparse.Namespace) -> int:
    policy, out = args.file.read_text(encoding="utf-8"), args.out or args.file.with_suffix(".json")
    check_writable(out)
    entry = make_entry(args.name or args.file.stem, policy, args.contest)
    out.write_text(json.dumps(entry, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    row = {"name": entry["name"], "points": contest.points(entry["scores"], args.contest), **entry["scores"]}
    _print(args, [row], {**row, "contest": args.contest, "entry": str(out)})
    if not args.json:
        print(f"\nwritten: {out}; put it on the board with minipaged leaderboard submit {out}")
    return 0


def _submit(args: argparse.Namespace) -> int:
    try:
        entry = json.loads(args.file.read_text(encoding="utf-8"))
    except ValueError:
        raise ContestError(f"{args.file} is no JSON; name the entry that `minipaged leaderboard run` wrote") from None
    row = Leaderboard(args.board).submit(entry)
    return _print(args, [row], row)


def _show(args: argparse.Namespace) -> int:
    rows = [row for row in Leaderboard(args.board).rows if row["contest"] == args.contest]
    if not rows and not args.json:
        print(f"no entries of the contest {args.contest} on {args.board}")
        return 0
    return _print(args, rows, {"contest": args.contest, "entries": rows})


def _verify(args: argparse.Namespace) -> int:
    board = Leaderboard(args.board)
    wrong = board.verify()
    if args.json:
        print(json.dumps({"entries": len(board.rows), "wrong": wrong}, ensure_ascii=False))
    else:
        print("\n".join(wrong) or f"all {len(board.rows)} entries replay to the same numbers")
    return 1 if wrong else 0


_ACTIONS = {"references": _references, "run": _run, "submit": _submit, "show": _show, "verify": _verify}


def _print(args: argparse.Namespace, rows: list[dict], data: dict) -> int:
    print(json.dumps(data, ensure_ascii=False) if args.json else table(rows))
    return 0


def table(rows: list[dict]) -> str:
    """Rows with name, points and scores, aligned."""
    width = max(len("name"), *(len(row["name"]) for row in rows))
    lines = [f"{'name':<{width}}" + "".join(f"  {head:>10}" for head in HEADS.values())]
    lines += [f"{row['name']:<{width}}  {row['points']:>10.1f}" + "".join(f"  {row[axis]:>10.4g}" for axis in AXES)
              for row in rows]
    return "\n".join(lines)
