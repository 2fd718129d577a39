"""Time the decode kernels on this GPU: one JSON line a shape and kernel, the same as ``minipaged kernels --bench``.

python -m benchmarks.kernels
"""

from __future__ import annotations

import json
import sys


def main() -> int:
    from minipaged.kernels import bench
    from minipaged.kernels.checks import KernelUnavailable

    try:
        for record in bench.run():
            print(json.dumps(record), flush=True)
    except KernelUnavailable as missing:
        print(f"benchmarks.kernels: {missing}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
