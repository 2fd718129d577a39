"""``minipaged museum``: real bugs, shown and run from the command line."""
from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", default="list", choices=("list", "show", "run"),
                        help="list the pieces; show one (what, where from, the wrong lines); run one with the bug and "
                             "without (default: %(default)s)")
    parser.add_argument("name", nargs="?", help="which piece, for show and run")
    parser.add_argument("--theme", help="with list: only this theme")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--film", type=Path, metavar="OUT.html", help="with run: write both runs as a film")


def run(args: argparse.Namespace) -> int:
    from minipaged import museum

    if args.action == "list":
        if args.name or args.film:
            raise ValueError("list takes no name and no --film; to see one piece: `minipaged museum show NAME`")
        return _list(args.theme, args.json)
    if args.name is None:
        raise ValueError(f"{args.action} what? Give a name, as in `minipaged museum {args.action} no-copy-on-write`; "
                         "`minipaged museum` lists them")
    if args.theme:
        raise ValueError("--theme goes with list")
    piece = museum.piece(args.name)
    if args.action == "show":
        if args.film:
            raise ValueError("--film goes with run")
        return _show(piece, args.json)
    return _run(piece, args.json, args.film)


def _facts(piece) -> dict:
    return {"name": piece.name, "title": piece.title, "reference": piece.reference, "chapter": piece.chapter,
            "symptom": piece.symptom, "rule": piece.rule, "caught_by": piece.caught_by, "test": piece.test,
            "is_wrong_fix": piece.is_wrong_fix}


def _list(theme: str | None, as_json: bool) -> int:
    from minipaged import museum

    if theme is not None and theme not in museum.THEMES:
        raise ValueError(f"there is no theme {theme!r}; there are {', '.join(museum.THEMES)}")
    themes = {name: module for name, module in museum.THEMES.items() if theme in (None, name)}
    if as_json:
        print(json.dumps({"pieces": [{"theme": name, **_facts(piece)} for name, module in themes.items()
                                     for piece in module.PIECES]}, ensure_ascii=False, indent=1))
        return 0
    width = max(len(piece.name) for module in themes.values() for piece in module.PIECES)
    for name, module in themes.items():
        print(name.replace("_", " "))
        for piece in module.PIECES:
            print(f"  {piece.name:<{width}}  {piece.title}")
    print(f"{sum(len(module.PIECES) for module in themes.values())} pieces; "
          "`minipaged museum run NAME` shows one at work")
    return 0


def _show(piece, as_json: bool) -> int:
    if as_json:
        print(json.dumps({**_facts(piece), "source": piece.source}, ensure_ascii=False, indent=1))
        return 0
    _head(piece)
    print(f"chapter:  {piece.chapter}\ncaught by {piece.caught_by}, and by {piece.test}\n\n{piece.source}", end="")
    return 0


def _run(piece, as_json: bool, film: Path | None) -> int:
    from minipaged.museum.showing import compared, film_of, first_difference
    from minipaged.museum.stage import JUDGES

    right, wrong = piece.right(), piece.wrong()
    if film is not None:
        film_of(right, wrong, piece.title).save(film)
    if as_json:
        runs = {label: {"tokens": one.tokens, "facts": one.facts, "faults": [fault._asdict() for fault in one.faults]}
                for label, one in (("right", right), ("wrong", wrong))}
        print(json.dumps({**_facts(piece), **runs, "first_difference": first_difference(right, wrong)},
                         ensure_ascii=False, indent=1))
        return 0
    _head(piece)
    print()
    print("\n".join(compared(right, wrong)))
    print(f"\nIts judge is {piece.caught_by}: {JUDGES[piece.caught_by]}.\nIts test is {piece.test}.")
    if film is not None:
        print(f"The film is in {film}.")
    return 0


def _head(piece) -> None:
    print(f"{piece.name}: {piece.title}{' (proposed as a repair)' if piece.is_wrong_fix else ''}")
    print(f"symptom:  {piece.symptom}\nrule:     {piece.rule}\nfrom:     {piece.reference}")
