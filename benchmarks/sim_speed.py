"""What the simulator itself costs: an hour of a production chat service on one simulated A100.

The Azure 2023 chat trace (19,366 requests, 22.4 million tokens in, 4.1 million out) with Llama-3.1-8B by
roofline, blocks of 16, 256 seats, 2,048 tokens a step; a quarter, a half and the whole of it, so that the
cost of a token shows whether it grows with the trace. The trace has no prompt identities, so a prefix cache
could find nothing; a last run has it on, to show what its bookkeeping costs. Each run is a process of its
own, so that its peak memory is its own. Target: the whole hour in under 30 CPU seconds of one core and under
1 GB.
"""
from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

from minipaged.sim.cost_model import Roofline
from minipaged.sim.hardware import card, served_model
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import check_conservation, simulate
from minipaged.sim.traces import load_trace


def peak_bytes() -> int | None:
    """Most memory this process has had; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def measure(requests: int, caching: bool) -> dict:
    """Simulate the first `requests` requests; reading the trace is part of the time."""
    start, wall = time.process_time(), time.perf_counter()
    trace = load_trace("azure-conv").first(requests)
    gpu, model = card("a100-80g"), served_model("llama-3.1-8b")
    settings = Serving(model.num_blocks(gpu), enable_prefix_caching=caching)
    result = simulate(settings.scheduler(), Roofline(gpu, model), trace)
    cpu = time.process_time() - start
    check_conservation(result)
    tokens = result.counts.computed_tokens + result.counts.reused_tokens
    peak = peak_bytes()
    return {"benchmark": "sim_speed", "requests": len(trace), "prefix_caching": caching,
            "simulated_s": round(result.end, 1), "steps": len(result.steps), "tokens": tokens,
            "cpu_s": round(cpu, 2), "wall_s": round(time.perf_counter() - wall, 2),
            "us_per_token": round(1e6 * cpu / tokens, 3), "us_per_step": round(1e6 * cpu / len(result.steps), 1),
            "peak_mb": None if peak is None else round(peak / 1e6, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sim_speed", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.sim_speed --json")
    parser.add_argument("--requests", type=int, default=19_366, help="size of the whole (default: the hour)")
    parser.add_argument("--prefix-caching", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.requests, args.prefix_caching)))
        return 0
    for part, caching in ((4, False), (2, False), (1, False), (1, True)):
        command = [sys.executable, "-m", "benchmarks.sim_speed", "--one", "--requests", str(args.requests // part)]
        command += ["--prefix-caching"] * caching
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        print(json.dumps(row) if args.json else
              f"{row['requests']:>6} requests  {row['simulated_s']:>7.1f} s simulated in {row['cpu_s']:>6.2f} CPU s  "
              f"{row['steps']} steps  {row['us_per_token']:.3f} us a token  peak {row['peak_mb']} MB"
              f"{'  (prefix caching on)' if caching else ''}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
