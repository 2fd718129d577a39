"""Blocks saved when samples share a prompt (chapter 05; figure 15a of the PagedAttention paper)."""
from __future__ import annotations

from minipaged.sim import metrics
from minipaged.sim.experiments.common import ALPACA, PAPER_SLOTS, SHAREGPT, paper_machine, percent, serve, workload
from minipaged.sim.experiments.report import PAPER, Report
from minipaged.sim.serving import Serving

#: workload -> (lengths, published range over 2, 4 and 6 samples, requests)
WORKLOADS = {"Alpaca": (ALPACA, "6.1 to 9.8", 400), "ShareGPT": (SHAREGPT, "16.2 to 30.5", 150)}


def run(small: bool = False) -> Report:
    """Saved = 1 - distinct blocks / table entries, mean over the run."""
    rows = []
    for name, (lengths, published, count) in WORKLOADS.items():
        for samples in (2, 6) if small else (2, 4, 6):
            trace = workload(lengths, count // 2 if small else count, rate=2.0, num_samples=samples)
            result = serve(trace, Serving(PAPER_SLOTS // 16), paper_machine(), sample_every=0.25)
            rows.append({"workload": name, "samples": samples, "published saved %": published,
                         "ours saved %": percent(metrics.memory_shares(result)["sharing_saved"]),
                         "blocks copied": result.counts.copied_blocks})
    return Report(
        "parallel_sampling", "KV blocks saved by sharing the prompt among samples (OPT-13B, A100-40GB)",
        f"{PAPER}, section 6.3, the range over 2, 4 and 6 samples", rows,
        ["The saving is a matter of lengths: the prompt's share of a sequence, at most (n - 1) / n of it. Our "
         "ShareGPT lengths are scaled to the paper's means, but their spread is that of 300 conversations; Alpaca's "
         "is taken as exponential.",
         "Only whole blocks of the prompt stay shared; the block in which it ends is copied by all writers but one."])
