"""`minipaged sweep`: a grid of simulated runs, here or on a cluster, into one CSV."""
from __future__ import annotations

import argparse
import json
import sys
from contextlib import contextmanager

from minipaged.output_file import check_writable
from minipaged.sim.scenario import Scenario
from minipaged.sim.simulate_cli import progress_bar
from minipaged.sim.sweep import grid, parse_vary, run_sweep


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--vary", action="append", required=True, metavar="OPTION=A,B,C",
                        help="an option of simulate and its values; give it again for a grid (traces: A|B)")
    parser.add_argument("--out", required=True, metavar="FILE.csv", help="rows that it has already are not run again")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1; -1: all cores)")
    parser.add_argument("--dask", metavar="ADDRESS", help="run on the Dask cluster at this address")
    parser.add_argument("--ray", action="store_true", help="run on the Ray cluster that `ray.init()` finds")
    parser.add_argument("--json", action="store_true", help="print the rows, one JSON object a line")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")
    Scenario.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    varied = dict(parse_vary(text) for text in args.vary)
    scenarios = grid(Scenario.from_args(args), varied)
    if args.jobs == 0:
        raise ValueError("--jobs is 0; it must be a number of processes, or -1 for all cores")
    check_writable(args.out)
    with cluster(args) as backend, progress_bar(len(scenarios), not args.no_progress and sys.stderr.isatty()) as bar:
        rows = run_sweep(scenarios, args.out, jobs=args.jobs, backend=backend,
                         progress=None if bar is None else lambda ready: bar(ready, "runs"))
    failed = [row for row in rows if row["error"]]
    if args.json:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False))
    else:
        print(table(list(varied), rows))
        print(f"\n{len(rows)} runs in {args.out}" + (f", {len(failed)} of them failed" if failed else ""))
    for row in failed:
        where = ", ".join(f"{name}={row[name]}" for name in varied)
        print(f"minipaged sweep: {where}: {row['error']}", file=sys.stderr)
    return 1 if failed else 0


@contextmanager
def cluster(args: argparse.Namespace):
    """The joblib backend that was asked for: None is the local one."""
    if args.dask:
        from distributed import Client

        with Client(args.dask, timeout="20s"):
            yield "dask"
    elif args.ray:
        from ray.util.joblib import register_ray

        register_ray()
        yield "ray"
    else:
        yield None


def table(varied: list[str], rows: list[dict]) -> str:
    """The varied options and the main numbers."""
    shown = {"ttft_mean": "TTFT mean ms", "ttft_p99": "p99 ms", "tpot_mean": "TPOT mean ms", "itl_p99": "ITL p99 ms",
             "output_tokens_per_s": "tokens/s", "preemptions": "preempted"}
    head = [*varied, *shown.values()]
    lines = [[row[name] for name in varied] + [_number(row.get(name, ""), name) for name in shown] for row in rows]
    widths = [max(len(line[at]) for line in [head, *lines]) for at in range(len(head))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in [head, *lines])


def _number(text: str, name: str) -> str:
    if not text:
        return "-"
    scale = 1e3 if name.startswith(("ttft", "tpot", "itl")) else 1
    return f"{float(text) * scale:,.1f}" if name != "preemptions" else text
