"""`minipaged experiment`: one of the field's known figures, published beside ours."""
from __future__ import annotations

import argparse
import json

from minipaged.sim.experiments import EXPERIMENTS, run_experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    width = max(map(len, EXPERIMENTS))
    lines = "\n".join(f"  {name:<{width}}  {about}" for name, about in EXPERIMENTS.items())
    parser.epilog = f"experiments:\n{lines}\n\n{parser.epilog or ''}"
    parser.add_argument("name", nargs="?", help="which one, or `all`")
    parser.add_argument("--small", action="store_true", help="a smaller, quicker form")
    parser.add_argument("--json", action="store_true", help="one JSON object an experiment")


def run(args: argparse.Namespace) -> int:
    if args.name is None:
        raise ValueError(f"which experiment? There are all, {', '.join(EXPERIMENTS)}")
    for name in EXPERIMENTS if args.name == "all" else [args.name]:
        report = run_experiment(name, args.small)
        print(json.dumps(report.to_dict(), ensure_ascii=False) if args.json else report.text() + "\n", flush=True)
    return 0
