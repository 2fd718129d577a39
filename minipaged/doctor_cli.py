"""``minipaged doctor`` on the command line; the checks themselves are in :mod:`minipaged.doctor`."""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(args: argparse.Namespace) -> int:
    from minipaged import doctor

    return doctor.run(as_json=args.json)
