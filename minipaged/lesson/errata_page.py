"""The errata as a page and as tables in a chapter, both made from `minipaged.lesson.errata` (chapter 15).

    python -m minipaged.lesson.errata_page              write docs/errata.md
    python -m minipaged.lesson.errata_page --check      exit 1 if it is not what the measurements say
"""
from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from minipaged.lesson.errata import ERRATA
from minipaged.lesson.erratum import VERDICTS, Erratum
from minipaged.lesson.present import present

INTRO = """\
# Errata

Twenty claims about the KV cache and paged serving that did not stand as they were written: thirteen of the text that
the course grew from, seven of articles and calculators that many people read. They are listed with thanks. Most are
nearly right, and each one taught us where to look.

Every number in the column "measured" is computed by the function beside it, in
[minipaged/lesson/errata.py](../minipaged/lesson/errata.py). This page is made by
`python -m minipaged.lesson.errata_page`, and a test compares the two. Chapter
[15](../notebooks/15_errata.ipynb) reads them together. Times are those of a datasheet's card on the virtual clock
([how right it is](../minipaged/sim/README.md)); lengths are those of real traffic, named there too.
"""


def page() -> str:
    """docs/errata.md."""
    rows = ["| | claim | from | measured | so the claim | by |", "|---|---|---|---|---|---|"]
    rows += [f"| {number} | {one.claim} | {one.source} | {one.measured()} | {VERDICTS[one.verdict]} | `{one.name}` |"
             for number, one in enumerate(ERRATA, 1)]
    lessons = [f"{number}. {one.why}" for number, one in enumerate(ERRATA, 1)]
    return "\n".join([INTRO, *rows, "", "## What each one teaches", "", *lessons, ""])


def errata_table(errata: Sequence[Erratum]) -> None:
    """Show some of the claims beside their measurement."""
    numbered = [(ERRATA.index(one) + 1, one, one.measured()) for one in errata]
    text = "\n".join(f"{number:>2} {one.claim} ({one.source})\n   measured: {truth}. It {VERDICTS[one.verdict]}."
                     for number, one, truth in numbered)
    table = ["| | claim | measured | the claim |", "|---|---|---|---|"]
    table += [f"| {number} | {one.claim} ({one.source}) | {truth} | {VERDICTS[one.verdict]} |"
              for number, one, truth in numbered]
    present(text, "\n".join(table))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m minipaged.lesson.errata_page", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m minipaged.lesson.errata_page --check")
    parser.add_argument("--out", type=Path, default=Path("docs/errata.md"), help="the page (default: docs/errata.md)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is not up to date")
    args = parser.parse_args(argv)
    text = page()
    if not args.check:
        args.out.write_text(text, encoding="utf-8", newline="\n")
        return 0
    if not args.out.exists() or args.out.read_text(encoding="utf-8") != text:
        print(f"{args.out} is not what the measurements say; run python -m minipaged.lesson.errata_page",
              file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
