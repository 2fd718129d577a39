"""Throughput by block size (chapter 03; figure 18b of the PagedAttention paper)."""
from __future__ import annotations

from minipaged.sim import metrics
from minipaged.sim.experiments.common import (
    ALPACA,
    PAPER_SLOTS,
    SHAREGPT,
    full_window,
    output_rate,
    paper_machine,
    percent,
    serve,
    workload,
)
from minipaged.sim.experiments.report import PAPER, Report
from minipaged.sim.serving import Serving

#: block size -> what the paper says of it (section 7.2)
PUBLISHED = {1: "too small", 8: "too small", 16: "best on both", 32: "good on both", 64: "good on ShareGPT",
             128: "good on ShareGPT", 256: "worse"}


def run(small: bool = False) -> Report:
    """Same memory, cut into blocks of other sizes; every request waits at the door."""
    counts = {"ShareGPT": (SHAREGPT, 120 if small else 600), "Alpaca": (ALPACA, 800 if small else 4000)}
    sizes = (16, 64, 128, 256) if small else tuple(PUBLISHED)
    found: dict[tuple[str, int], tuple[float, float]] = {}
    for name, (lengths, count) in counts.items():
        trace = workload(lengths, count)
        for size in sizes:
            settings = Serving(PAPER_SLOTS // size, size, max_num_seqs=1024, enable_prefix_caching=False)
            result = serve(trace, settings, paper_machine(), sample_every=0.5)
            window = full_window(result)
            found[name, size] = output_rate(result, *window), metrics.memory_shares(result, *window)["used"]
    rows = []
    for size in sizes:
        row: dict = {"block size": size, "published": PUBLISHED[size]}
        for name in counts:
            rate, used = found[name, size]
            row[f"{name} tokens/s"] = round(rate, 1)
            row[f"{name} of 16 %"] = percent(rate / found[name, 16][0])
            row[f"{name} used %"] = percent(used)
        rows.append(row)
    return Report(
        "block_size", "Output tokens a second by block size (OPT-13B on an A100-40GB, full queue)",
        f"{PAPER}, section 7.2: 16 to 128 best on ShareGPT, 16 and 32 on Alpaca, larger ones worse there", rows,
        ["Our cost is memory only: large blocks leave the end of each last block empty, the more the shorter the "
         "sequences.",
         "That blocks below 16 are slow on a GPU is the kernel's affair (little work a block); a roofline does not "
         "see it, so small sizes look as good as 16 here."])
