"""`make test`: run the parts of the test suite one after the other and print a table of seconds.

A part that fails does not stop the others; the exit code is 1 if any failed. A part whose folder is not
there does not run and is not in the table. `core` is every folder of tests/ that no other part names, so
that a new folder is never forgotten. Arguments: --full (long checks too), --parts core,oracle.
"""
from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PARALLEL = ["-n", os.environ.get("MINIPAGED_TEST_WORKERS", "2"), "--dist", "worksteal"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout", "300"]

#: part -> (minutes of its budget on 2 cores, folders, options of pytest)
PARTS: dict[str, tuple[int, list[str], list[str]]] = {
    "core": (4, [], PARALLEL),
    "oracle": (3, ["tests/oracle"], PARALLEL),
    "kernels": (4, ["tests/kernels"], PARALLEL),
    "notebooks": (5, ["notebooks", "solutions", "tests/notebooks"], NBVAL),
    "browser": (3, ["tests/browser"], []),
    "labs": (2, ["tests/lab", "tests/labs", "tests/museum", "tests/grader_attacks"], PARALLEL),
}
SETUP_MINUTES = 4


class Outcome(NamedTuple):
    part: str
    seconds: float
    minutes: int
    code: int
    closing: str


def folders_of(part: str, root: Path) -> list[str]:
    """The folders of a part that exist and hold something to run, as paths relative to the root."""
    named = PARTS[part][1]
    if part == "core":
        taken = {folder for _, folders, _ in PARTS.values() for folder in folders}
        every = sorted(path.relative_to(root).as_posix() for path in (root / "tests").iterdir() if path.is_dir())
        named = [folder for folder in every if folder not in taken]
    return [folder for folder in named
            if any((root / folder).rglob("test_*.py")) or any((root / folder).glob("*.ipynb"))]


def run_part(part: str, root: Path, full: bool) -> Outcome | None:
    """Run one part, showing its output; None if it has no folder here."""
    folders = folders_of(part, root)
    if not folders:
        return None
    minutes, _, options = PARTS[part]
    # -P: `-m` alone would put the root on the module path, and kernels/ with it
    command = [sys.executable, "-P", "-m", "pytest", *folders, *options, "-p", "no:cacheprovider",
               "--color", "yes" if sys.stdout.isatty() else "no"]
    if full:
        command += ["-m", "full or not full"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("MPLBACKEND", None)  # notebooks choose their own
    # not the learner's own predictions
    environment["MINIPAGED_PROGRESS"] = os.path.join(tempfile.gettempdir(), "minipaged-no-progress", "")
    print(f"\n== {part}: {' '.join(folders)}", flush=True)
    start = time.perf_counter()
    closing = ""
    process = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, encoding="utf-8",
                               errors="replace")
    for line in process.stdout:
        print(line, end="", flush=True)
        if re.search(r"\d+ \w+.* in [\d.]+s", line):
            closing = re.sub(r"\x1b\[[\d;]*m", "", line).strip(" =\n")
    code = process.wait()
    return Outcome(part, time.perf_counter() - start, minutes, code, closing or f"pytest ended with code {code}")


def total(outcomes: list[Outcome]) -> str:
    """The parts' closing lines added up, in pytest's form."""
    counts: dict[str, int] = {}
    for outcome in outcomes:
        for number, what in re.findall(r"(\d+) (failed|passed|skipped|deselected|xfailed|xpassed|errors?|warnings?)",
                                       outcome.closing):
            what = {"error": "errors", "warning": "warnings"}.get(what, what)
            counts[what] = counts.get(what, 0) + int(number)
    order = ["failed", "errors", "passed", "skipped", "deselected", "xfailed", "xpassed", "warnings"]
    summary = ", ".join(f"{counts[what]} {what}" for what in order if what in counts)
    return f"{summary or 'nothing ran'} in {sum(outcome.seconds for outcome in outcomes):.2f}s"


def main(argv: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python tests/run.py", description=__doc__.splitlines()[0],
                                     epilog="example: python tests/run.py --parts core,labs")
    parser.add_argument("--full", action="store_true", help="run the long checks too")
    parser.add_argument("--parts", default=",".join(PARTS), help="some of: " + ", ".join(PARTS))
    args = parser.parse_args(argv)
    parts = args.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")

    outcomes = [outcome for part in parts if (outcome := run_part(part, root, args.full))]
    print(f"\n{'part':<10} {'seconds':>8} {'budget':>7}  result")
    stamp = root / ".venv" / "ready"
    if stamp.exists():
        print(f"{'set-up':<10} {stamp.read_text().strip():>8} {SETUP_MINUTES * 60:>7}  when .venv was last set up")
    for outcome in outcomes:
        print(f"{outcome.part:<10} {outcome.seconds:>8.1f} {outcome.minutes * 60:>7}  {outcome.closing}")
    failed = [outcome.part for outcome in outcomes if outcome.code != 0]
    if failed:
        print(f"failed: {', '.join(failed)}")
    print(f"\n{f' {total(outcomes)} ':=^80}")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    raise SystemExit(main())
