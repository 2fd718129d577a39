"""``minipaged kernels``: check the attention kernels on this machine, time them on a GPU. Chapters 12 and 13."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--check", action="store_true", help="run all that can run here (minutes on a CPU); on a GPU the whole grid"
    )
    what.add_argument(
        "--bench", action="store_true", help="bytes moved over time, against a plain copy (needs a GPU)"
    )
    what.add_argument(
        "--traffic", action="store_true", help="count memory requests of the CUDA ladder, on the CPU"
    )
    parser.add_argument("--full", action="store_true", help="with --check: the whole grid on the CPU, too")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), metavar="FOLDER",
                        help="with --bench: where results go (default: %(default)s)")  # fmt: skip


def run(args: argparse.Namespace) -> int:
    from minipaged.kernels.checks import KernelUnavailable

    try:
        if args.check:
            return _check(args.full)
        if args.traffic:
            from minipaged.kernels import traffic

            print(traffic.table())
            return 0
        return _bench(args.out)
    except KernelUnavailable as missing:
        print(f"minipaged kernels: {missing}", file=sys.stderr)
        return 2


def _check(full: bool) -> int:
    from minipaged.kernels import check

    counts = {"ok": 0, "FAILED": 0, "skipped": 0}
    for row in check.rows(full):
        counts[row.status] += 1
        print(row, flush=True)
    print(f"{counts['ok']} ok, {counts['FAILED']} failed, {counts['skipped']} skipped")
    return 1 if counts["FAILED"] else 0


def _bench(folder: Path) -> int:
    from minipaged.kernels import bench

    bench.need_gpu()
    records = []
    for record in bench.run():
        records.append(record)
        print(f"{record['shape']:32s} {record['kernel']:24s} {record['microseconds']:9.1f} us "
              f"{record['gb_per_s']:8.1f} GB/s  {record['of_copy']:6.1%} of a copy", flush=True)  # fmt: skip
    print(f"written: {bench.save(records, folder)}")
    return 0
