"""The museum's README, made from its pieces: `python -m minipaged.museum.catalog` writes it."""
from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

from minipaged import museum

README = Path(__file__).with_name("README.md")

HEAD = """# The museum: real bugs of serving engines

{count} bugs that people have hit in public, each as a few wrong lines that can be switched on in our engine while
everything else stays right. Learners find them, name them and repair them; a test is as good as the number of them
that it notices. {fixes} of them were proposed as repairs (marked *fix*): read those first.

```python
from minipaged import museum

museum.exhibit({code})                             # what one sees, and four names to choose from
museum.exhibit({code}).answer("b")
museum.piece("no-copy-on-write").film()          # the run with the bug beside the run without it
print(museum.piece("no-copy-on-write").source)   # the wrong lines
with museum.piece("no-copy-on-write").switched_on():
    ...                                          # the whole engine has the bug
museum.mend("no-copy-on-write", mine)             # is this function a repair?
museum.kills(my_test)                            # which bugs a test of yours notices (def my_test(lib): ...)
```

On the command line: `minipaged museum`, `minipaged museum show NAME`, `minipaged museum run NAME --film out.html`; and
`MINIPAGED_MUSEUM=NAME python -m pytest tests/core` runs the tests of this repository with a bug switched on.

**How a piece is made.** A `Change` puts a wrong function in the place of a right one: it gets the right one first, so
only the wrong lines are written. A *scene* is a run on a small `Stage`: blocks of 4 tokens, a toy model whose every
token depends on all that it reads. Judges look after each step: the invariant checker, and the oracle in its parts
({judges}). `caught_by` names the judge that must speak, `test` the test of this repository that must fail. `mend` also
lets the judges look at random requests, so that a repair can't be one for the scene alone.

{tables}
"""


def readme() -> str:
    """The text of README.md."""
    tables = []
    for theme, module in museum.THEMES.items():
        summary = module.__doc__.splitlines()[0]
        rows = [row(piece) for piece in module.PIECES]
        tables += [f"## {theme.replace('_', ' ').capitalize()}", "", summary, "",
                   "| piece | what is wrong | reference | what one sees | caught by | chapter |",
                   "|---|---|---|---|---|---|", *rows, ""]
    judges = ", ".join(name for name in museum.JUDGES if name != "invariants")
    fixes = sum(piece.is_wrong_fix for piece in museum.PIECES)
    code = museum.code(museum.piece("no-copy-on-write"))
    return HEAD.format(count=len(museum.PIECES), fixes=fixes, code=code, judges=judges,
                       tables="\n".join(tables).rstrip())


def row(piece: museum.Piece) -> str:
    cells = [f"`{piece.name}`", piece.title + (" *fix*" if piece.is_wrong_fix else ""), linked(piece.reference),
             piece.symptom, f"{piece.caught_by}; `{piece.test.split('::')[1]}`", piece.chapter[:2]]
    return f"| {' | '.join(cells)} |"


def linked(reference: str) -> str:
    """A reference with its issues as links."""
    return re.sub(r"([\w.-]+/[\w.-]+)#(\d+)", r"[\1#\2](https://github.com/\1/issues/\2)", reference)


def main(argv: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(prog="python -m minipaged.museum.catalog", description="Write the museum's README.md.",
                            epilog="example: python -m minipaged.museum.catalog").parse_args(argv)
    README.write_text(readme(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
