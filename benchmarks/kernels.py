"""Time the decode kernels on this GPU: one JSON line a shape and kernel, the same as ``minipaged kernels --bench``."""

from __future__ import annotations

import argparse
import json
import sys


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kernels", description=__doc__, epilog="example: python -m benchmarks.kernels"
    )
    parser.add_argument("--json", action="store_true", help="as the other benchmarks; this one prints nothing else")
    parser.parse_args()
    from minipaged.kernels import bench
    from minipaged.kernels.checks import KernelUnavailable

    try:
        for record in bench.run():
            print(json.dumps(record), flush=True)
    except KernelUnavailable as missing:  # not a failure: `make bench` goes on to the next benchmark
        print(f"benchmarks.kernels: skipped, {missing}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
