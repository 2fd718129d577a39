"""Blocks saved by beam search (chapter 05; figure 15b of the PagedAttention paper)."""
from __future__ import annotations

from minipaged.sim import metrics
from minipaged.sim.experiments.common import ALPACA, PAPER_SLOTS, SHAREGPT, paper_machine, percent, serve, workload
from minipaged.sim.experiments.report import PAPER, Report
from minipaged.sim.serving import Serving

#: workload -> (lengths, published range over widths 2, 4 and 6, requests)
WORKLOADS = {"Alpaca": (ALPACA, "37.6 to 55.2", 60), "ShareGPT": (SHAREGPT, "44.3 to 66.3", 20)}
TURNOVERS = (1.0, 0.1, 0.02)


def run(small: bool = False) -> Report:
    """Beams that change parents at each step, at every tenth, at every fiftieth (see branching.py)."""
    rows = []
    for name, (lengths, published, count) in WORKLOADS.items():
        for width in (2, 6) if small else (2, 4, 6):
            row: dict = {"workload": name, "width": width, "published saved %": published}
            for turnover in TURNOVERS[:2] if small else TURNOVERS:
                trace = workload(lengths, count // 4 if small else count, rate=1.0, beam_width=width)
                result = serve(trace, Serving(PAPER_SLOTS // 16), paper_machine(), sample_every=0.25,
                               beam_turnover=turnover)
                row[f"ours, turnover {turnover:g}"] = percent(metrics.memory_shares(result)["sharing_saved"])
            rows.append(row)
    return Report(
        "beam_search", "KV blocks saved by sharing among beams (OPT-13B, A100-40GB)",
        f"{PAPER}, section 6.3, the range over widths 2, 4 and 6", rows,
        ["How much beams share depends on how soon they have a common ancestor. Without a model nobody knows which "
         "candidates win, so the parent is drawn: uniformly at every step (turnover 1: the most sharing) or more "
         "seldom. The published ranges lie between; no turnover was fitted to them.",
         "The upper bound is (width - 1) / width: 50, 75 and 83.3%."])
