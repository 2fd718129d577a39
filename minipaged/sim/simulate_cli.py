"""`minipaged simulate`: replay a trace on a simulated card and print how it went."""
from __future__ import annotations

import argparse
import sys
from contextlib import contextmanager

from minipaged.output_file import check_writable
from minipaged.sim import metrics
from minipaged.sim.perfetto import save_perfetto
from minipaged.sim.scenario import Scenario


def add_arguments(parser: argparse.ArgumentParser) -> None:
    Scenario.add_arguments(parser)
    parser.add_argument("--slo", metavar="ttft=1,tpot=0.05", help="limits in seconds; adds goodput")
    parser.add_argument("--until", type=float, default=float("inf"), metavar="SECONDS", help="stop the clock here")
    parser.add_argument("--skip-bad", action="store_true", help="leave out lines of the trace that cannot be read")
    parser.add_argument("--check-every", type=int, default=0, metavar="N",
                        help="check the invariants of memory and schedule every N steps")
    parser.add_argument("--sample-every", type=float, default=1.0, metavar="SECONDS", help="between looks at memory")
    parser.add_argument("--perfetto", metavar="FILE", help="write a trace for ui.perfetto.dev")
    parser.add_argument("--csv", metavar="FILE", help="write one line a request")
    parser.add_argument("--timeline", metavar="FILE", help="write running, waiting, KV use over time as CSV")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.add_argument("--no-progress", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> int:
    scenario = Scenario.from_args(args)
    slo = read_slo(args.slo)
    if args.check_every and scenario.memory != "paged":
        raise ValueError("--check-every checks paged memory; leave it out with --memory " + scenario.memory)
    check_writable(args.csv, args.timeline, args.perfetto)
    trace = scenario.load(args.skip_bad)
    for line, reason in trace.skipped:
        print(f"minipaged simulate: line {line} left out: {reason}", file=sys.stderr)
    costs = scenario.cost_model().describe()
    options = {"until": args.until, "sample_every": args.sample_every, "check_every": args.check_every}
    with progress_bar(len(trace), not args.no_progress and sys.stderr.isatty()) as progress:
        if args.until == float("inf"):
            result = scenario.simulate(trace, progress=progress, **options)
        else:
            result = simulate_part(scenario, trace, progress, options)
    report = {**metrics.summary(result, slo), "num_blocks": result.num_blocks, "block_size": result.block_size,
              "skipped_lines": len(trace.skipped), "costs": costs}
    if args.csv:
        metrics.save_requests(result, args.csv)
    if args.timeline:
        metrics.save_rows(metrics.timeline(result), args.timeline)
    if args.perfetto:
        save_perfetto(result, args.perfetto)
    print(metrics.to_json(report) if args.json else table(report))
    return 0


def simulate_part(scenario: Scenario, trace, progress, options: dict):
    """A run that is stopped has requests in memory: conservation can't be checked yet."""
    from minipaged.sim.simulator import simulate

    return simulate(scenario.serving().scheduler(), scenario.cost_model(), trace, progress=progress,
                    seed=scenario.seed, **options)


def read_slo(text: str | None) -> dict[str, float] | None:
    """"ttft=1,tpot=0.05" -> limits in seconds."""
    if not text:
        return None
    limits = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        try:
            limits[name.strip()] = float(value)
        except ValueError:
            raise ValueError(f"--slo {text!r}: {part!r} is not like ttft=1.0 (seconds)") from None
    unknown = limits.keys() - {"ttft", "tpot", "latency"}
    if unknown:
        raise ValueError(f"--slo {text!r}: no limit {sorted(unknown)[0]!r}; there are ttft, tpot, latency")
    return limits


@contextmanager
def progress_bar(total: int, show: bool):
    """A function (number done, label or seconds simulated) that moves a bar on stderr, or None."""
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                  console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=total)
        yield lambda count, at: bars.update(
            task, completed=count, description=at if isinstance(at, str) else f"{at:,.0f} s simulated")


def table(report: dict) -> str:
    """The summary for people."""
    costs, memory = report["costs"], report["memory"]
    lines = [f"{costs['model']} on {costs['gpu']}, {costs['cost_model']} ({costs['source']}), host overhead "
             f"{costs['host_overhead_us']:g} us a step",
             f"{report['trace']}: {report['finished']:,} of {report['requests']:,} requests finished, "
             f"{report['refused']} refused, {report['seconds']:,.1f} s in {report['steps']:,} steps, "
             f"busy {report['busy']:.0%}", "",
             f"{'ms':<10}" + "".join(f"{name:>10}" for name in ("mean", "p50", "p90", "p99", "max"))]
    for name in ("ttft", "tpot", "itl", "latency"):
        lines.append(f"{name:<10}" + "".join(f"{1e3 * report[name][stat]:>10,.1f}" if report[name] else f"{'-':>10}"
                                             for stat in ("mean", "p50", "p90", "p99", "max")))
    lines += ["", f"{report['requests_per_s']:.2f} requests/s, {report['output_tokens_per_s']:,.0f} output tokens/s, "
              f"{report['total_tokens_per_s']:,.0f} tokens/s in all",
              f"running {report['running']:.1f}, waiting {report['waiting']:.1f}, fairness {report['fairness']:.2f}",
              f"KV: {report['num_blocks']:,} blocks of {report['block_size']}, {report['kv_usage']:.1%} in use; "
              f"prefix hits {report['hit_rate']:.1%}"]
    if memory:
        lines.append("slots: " + ", ".join(f"{name} {memory[name]:.1%}" for name in
                                           ("used", "reserved", "internal", "external", "free"))
                     + f"; sharing saved {memory['sharing_saved']:.1%}")
    lines.append(f"{report['preemptions']} preemptions, {report['swapped_blocks']} blocks swapped, "
                 f"{report['copied_blocks']} copied; tokens: {report['computed_tokens']:,} computed + "
                 f"{report['reused_tokens']:,} reused - {report['lost_tokens']:,} lost")
    if "goodput_per_s" in report:
        limits = ", ".join(f"{name} <= {limit:g} s" for name, limit in report["slo"].items())
        lines.append(f"goodput {report['goodput_per_s']:.2f} requests/s ({limits})")
    return "\n".join(lines)
