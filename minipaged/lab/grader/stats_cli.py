"""`minipaged stats`: what a graded class says about its exercises."""
from __future__ import annotations

import argparse
import json
from pathlib import Path

from minipaged.lab.grader import stats


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"),
                        help="the folder that `minipaged grade -o` wrote (default results)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    found = stats.items(stats.load(args.results))
    print(json.dumps({"exercises": found}, ensure_ascii=False) if args.json else stats.as_text(found))
    return 0
