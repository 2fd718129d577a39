"""The simulator against a real server: vLLM 0.19 with Llama-3.1-8B on an RTX 4090, 300 requests at 10/s.

Core's scheduler and memory are driven with the run's settings and the measured times of single operators;
no constant is fitted to the latencies that are compared. Decodes are looked up together with the first
prefill chunk of a step, further chunks alone (minipaged/sim/profile.py). The measured server released
blocks in "append" order; both orders are printed. A profile may carry a host overhead for each step
(host_overhead_us in its prof_meta.yaml; default 0), which the output states.

Another machine's run: --profile DIR with prof_dense.csv, prof_attention.csv, prof_per_sequence.csv and
prof_meta.yaml, --requests FILE, --blocks N (usable ones: vLLM keeps one of its blocks as the null block).
"""
from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from minipaged.sim.profile import Profiled
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import Record, check_conservation, simulate
from minipaged.sim.traces import VLLM_RUN, Measured, read_vllm
from minipaged.sim.workload import Trace

STATS = {"mean": np.mean, "median": np.median, "p90": lambda values: np.percentile(values, 90),
         "p99": lambda values: np.percentile(values, 99)}


def milliseconds(arrival: float, first: float, last: float, tokens: int) -> tuple[float, float, float]:
    """TTFT, time per output token after the first (NaN for a single token), latency."""
    per_token = (last - first) / (tokens - 1) if tokens > 1 else float("nan")
    return 1e3 * (first - arrival), 1e3 * per_token, 1e3 * (last - arrival)


def compare(trace: Trace, measured: tuple[Measured, ...], records: list[Record]) -> list[dict]:
    """One row a metric and statistic, over requests that ended in both."""
    ours, real = [], []
    for wanted, record, truth in zip(trace.requests, records, measured):
        if record.last_token is not None:
            tokens = wanted.output_tokens
            ours.append(milliseconds(record.arrival, record.first_token, record.last_token, tokens))
            real.append(milliseconds(truth.arrival, truth.first_token, truth.last_token, tokens))
    rows = []
    for metric, own, true in zip(("TTFT", "TPOT", "latency"), np.array(ours).T, np.array(real).T):
        for stat, of in STATS.items():
            a, b = float(of(true[~np.isnan(true)])), float(of(own[~np.isnan(own)]))
            rows.append({"metric": metric, "stat": stat, "measured": round(a, 3), "ours": round(b, 3),
                         "error_pct": round(100 * (b / a - 1), 3)})
    return rows


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sim_accuracy", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.sim_accuracy --json")
    parser.add_argument("--profile", type=Path, default=VLLM_RUN, metavar="DIR", help="folder of operator tables")
    parser.add_argument("--requests", type=Path, default=VLLM_RUN / "requests.jsonl", metavar="FILE")
    parser.add_argument("--blocks", type=int, default=2587, metavar="N", help="usable KV blocks (default 2587)")
    parser.add_argument("--block-size", type=int, default=16, metavar="N")
    parser.add_argument("--max-num-seqs", type=int, default=256, metavar="N")
    parser.add_argument("--max-num-batched-tokens", type=int, default=2048, metavar="N")
    parser.add_argument("--layers", type=int, metavar="N", help="hidden layers (default: of the profile's model)")
    parser.add_argument("--host-overhead-us", type=float, metavar="X",
                        help="added to every step (default: the profile's own, else 0)")
    parser.add_argument("--no-prefix-caching", action="store_true")
    parser.add_argument("--free-order", choices=("append", "unhashed_first"), help="only this order (default: both)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def main() -> int:
    args = parser().parse_args()
    try:
        costs = Profiled(args.profile, num_layers=args.layers, host_overhead_us=args.host_overhead_us)
        trace, measured = read_vllm(args.requests)
        orders = [args.free_order] if args.free_order else ["append", "unhashed_first"]
        for order in orders:
            settings = Serving(args.blocks, args.block_size, max_num_seqs=args.max_num_seqs,
                               max_num_batched_tokens=args.max_num_batched_tokens, free_order=order,
                               enable_prefix_caching=not args.no_prefix_caching)
            result = simulate(settings.scheduler(), costs, trace, sample_every=0)
            check_conservation(result)
            report(order, costs.describe(), trace, measured, result, args.json)
    except (ValueError, OSError) as error:
        print(f"sim_accuracy: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def report(order: str, costs: dict, trace: Trace, measured: tuple[Measured, ...], result, as_json: bool) -> None:
    rows = compare(trace, measured, result.records)
    ended = sum(record.last_token is not None for record in result.records)
    shared = {"free_order": order, "host_overhead_us": costs["host_overhead_us"], "num_layers": costs["num_layers"]}
    if as_json:
        for row in rows:
            print(json.dumps({"benchmark": "sim_accuracy", **row, "unit": "ms", "requests": ended, **shared}))
        return
    print(f"\n{costs['model']} on {costs['gpu']}, {costs['num_layers']} layers, free_order={order}, host overhead "
          f"{costs['host_overhead_us']:g} us a step")
    print(f"{ended} of {len(trace)} requests, {len(result.steps)} steps, {result.counts.preemptions} preemptions, "
          f"end at {result.end:.2f} s (measured {max(one.last_token for one in measured):.2f} s)")
    print(f"{'metric':<9}{'stat':<8}{'measured ms':>13}{'ours ms':>13}{'error %':>9}")
    for row in rows:
        print(f"{row['metric']:<9}{row['stat']:<8}{row['measured']:>13.1f}{row['ours']:>13.1f}{row['error_pct']:>+9.2f}")
    print(f"largest error {max(abs(row['error_pct']) for row in rows):.2f}%")


if __name__ == "__main__":
    raise SystemExit(main())
