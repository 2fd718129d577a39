"""`minipaged film run.json -o film.html`: a saved event log as a page that plays it (chapter 00)."""
from __future__ import annotations

import argparse
from pathlib import Path

from minipaged.event_file import load_events


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = f"{parser.epilog}\n{_MORE}"
    parser.add_argument("log", type=Path, metavar="run.json", help="an event log: `minipaged demo --events run.json`")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", default=Path("film.html"),
                        help="the page to write (default: film.html)")
    parser.add_argument("--compare", type=Path, metavar="other.json",
                        help="a second run of the same requests, beside the first on one clock")
    parser.add_argument("--title", help="above the film (default: the file's name)")
    parser.add_argument("--labels", nargs=2, metavar=("LEFT", "RIGHT"), help="names of the two runs (default: files)")
    parser.add_argument("--start", type=int, default=0, metavar="EVENT", help="event to open at (default: 0)")
    parser.add_argument("--open", action="store_true", help="also open it in the browser")


def run(args: argparse.Namespace) -> int:
    from minipaged.viz.film import Film

    logs = [load_events(path) for path in (args.log, args.compare) if path is not None]
    labels = args.labels or [args.log.stem, args.compare.stem if args.compare else ""]
    film = Film(logs[0], *logs[1:], title=args.title or args.log.stem, labels=tuple(labels), start=args.start)
    film.save(args.output)
    print(f"{args.output}: {args.output.stat().st_size:,} bytes. {film.alt}")
    if args.open:
        import webbrowser

        webbrowser.open(args.output.resolve().as_uri())
    return 0


_MORE = """
Files for the example, and a second run beside the first:
  minipaged demo --events run.json
  minipaged demo --events roomy.json --num-blocks 160
  minipaged film run.json --compare roomy.json --labels small roomy -o two.html --open

The page needs no network and no Python. Its keys: Space plays, the arrows step by event and by step,
c, e and p jump to the next copy, eviction and preemption, / searches, ? lists all keys."""
