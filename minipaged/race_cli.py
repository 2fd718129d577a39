"""``minipaged race FILE.cu``: run a CUDA kernel on the CPU and find its races. Chapter 13."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", type=Path, metavar="FILE.cu", help="defines paged_decode_f32, or has a main of its own"
    )
    parser.add_argument(
        "--define", "-D", action="append", default=[], metavar="NAME=VALUE", help="a macro for the compiler"
    )
    parser.add_argument("--quick", action="store_true", help="only the thread orders and ThreadSanitizer")


def run(args: argparse.Namespace) -> int:
    from minipaged.kernels.build import BuildError
    from minipaged.kernels.checks import KernelUnavailable
    from minipaged.kernels.race import LOOKS, race

    if not args.file.is_file():
        return _complain(f"{args.file} is no file; give a .cu file")
    defines = {}
    for define in args.define:
        name, equals, value = define.partition("=")
        if not name.isidentifier():
            return _complain(f"-D {define!r}; expected NAME=VALUE")
        defines[name] = value if equals else "1"
    try:
        report = race(args.file, defines=defines, looks=LOOKS[:2] if args.quick else LOOKS)
    except KernelUnavailable as missing:
        return _complain(str(missing))
    except BuildError as broken:
        print(broken, file=sys.stderr)  # the compiler's lines are the answer here
        return 2

    source = args.file.read_text(encoding="utf-8").splitlines()
    for found in report.findings:
        print(f"{found.kind}: {found.text}")
        for line in sorted(set(found.lines)):
            if 1 <= line <= len(source):
                print(f"    {line:4d} | {source[line - 1].strip()}")
    for skipped in dict.fromkeys(s.split(",")[0] for s in report.skipped):
        print(f"skipped: {skipped}")
    count = len(report.findings)
    print(f"{args.file.name}: {count or 'no'} fault{'' if count == 1 else 's'} in {len(report.ran)} runs")
    return 1 if count else 0


def _complain(message: str) -> int:
    print(f"minipaged race: {message}", file=sys.stderr)
    return 2
