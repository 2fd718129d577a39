"""Run the named test of each piece with its bug switched on: `python switched.py PIECE ...` prints JSON.

One pytest process for all: each test runs once as it is, then once for each piece that names it.
"""
from __future__ import annotations

import json
import sys
from collections import defaultdict
from contextlib import ExitStack

import pytest
from _pytest.runner import runtestprotocol

from minipaged import museum
from minipaged.museum.limit import TooLong, time_limit

SECONDS = 20  # a test that takes longer with the bug hangs


class Switched:
    """Plays every collected test clean, then with each piece that names it."""

    def __init__(self, pieces: list[museum.Piece]) -> None:
        self.pieces = defaultdict(list)
        for piece in pieces:
            self.pieces[piece.test].append(piece)
        self.clean: dict[str, bool] = {}
        self.killed: dict[str, str] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            test = item.nodeid.partition("[")[0]
            self.clean[test] = self.clean.get(test, True) and outcome(item, None) == "passed"
            for piece in self.pieces[test]:
                if piece.name not in self.killed:
                    how = outcome(item, piece)
                    if how not in ("passed", "skipped"):
                        self.killed[piece.name] = how
        return True


def outcome(item: pytest.Item, piece: museum.Piece | None) -> str:
    """ "passed", "skipped", "too long", or the last line of the failure."""
    try:
        with ExitStack() as stack:
            if piece is not None:
                stack.enter_context(piece.switched_on())
                stack.enter_context(time_limit(SECONDS))
            reports = runtestprotocol(item, log=False, nextitem=None)
    except TooLong:
        return "too long"
    failed = [report for report in reports if report.failed]
    if failed:
        return str(getattr(failed[0].longrepr, "reprcrash", failed[0].longrepr)).splitlines()[0][:200]
    return "skipped" if any(report.skipped for report in reports) else "passed"


def main(names: list[str]) -> None:
    pieces = [museum.piece(name) for name in names]
    plugin = Switched(pieces)
    tests = list(dict.fromkeys(piece.test for piece in pieces))
    code = pytest.main([*tests, "-q", "-p", "no:cacheprovider"], plugins=[plugin])
    print("\n" + json.dumps({"collected": code != pytest.ExitCode.USAGE_ERROR, "clean": plugin.clean,
                      "killed": plugin.killed}))


if __name__ == "__main__":
    main(sys.argv[1:])
