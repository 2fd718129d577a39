"""Latency against request rate (chapter 16; figure 12 of the PagedAttention paper)."""
from __future__ import annotations

from minipaged.sim.experiments.common import (
    MAX_MODEL_LEN,
    PAPER_SLOTS,
    SHAREGPT,
    normalized_latency,
    paper_machine,
    serve,
    workload,
)
from minipaged.sim.experiments.report import PAPER, Report
from minipaged.sim.serving import Serving

SYSTEMS = (("reserve the maximum", {"memory": "max"}, "2.7 to 8"), ("reserve a power of two", {"memory": "pow2"}, None),
           ("reserve the true length", {"memory": "oracle"}, "1.7 to 2.7"), ("paged, blocks of 16", {}, None))
LIMIT = 0.1  # seconds a token
SECONDS = 150  # of arrivals


def run(small: bool = False) -> Report:
    """Poisson arrivals at rising rates; the rate at which the mean latency a token passes LIMIT."""
    rates = (0.75, 1.5, 3.0, 6.0) if small else (0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0)
    seconds = SECONDS // 3 if small else SECONDS
    rows, sustained = [], {}
    for label, options, published in SYSTEMS:
        settings = Serving(PAPER_SLOTS // 16, 16, max_model_len=MAX_MODEL_LEN, enable_prefix_caching=False, **options)
        curve = [normalized_latency(serve(workload(SHAREGPT, round(rate * seconds), rate), settings, paper_machine(),
                                          sample_every=0)) for rate in rates]
        sustained[label] = crossing(rates, curve)
        rows.append({"system": label, **{f"{rate:g}/s": round(1e3 * at) for rate, at in zip(rates, curve)},
                     "sustained/s": sustained[label] and round(sustained[label], 2), "published paged is x": published})
    for row in rows:
        own, paged = sustained[row["system"]], sustained["paged, blocks of 16"]
        row["ours paged is x"] = round(paged / own, 2) if own and paged else None
    return Report(
        "request_rate", "Mean latency a token in ms by request rate (OPT-13B, A100-40GB, ShareGPT lengths)",
        f"{PAPER}, section 6.2: paging sustains 1.7x to 2.7x the rate of Orca (Oracle) and 2.7x to 8x that of Orca "
        "(Max), over several models", rows,
        [f"Sustained: where the mean latency a token passes {1e3 * LIMIT:.0f} ms, on the line between two rates. The "
         "paper reads its factors off at similar latencies, over OPT-13B to 175B.",
         "A datasheet card is faster than a real one, so all rates are higher than the paper's; the factors are what "
         "compares."])


def crossing(rates: tuple[float, ...], curve: list[float]) -> float | None:
    """The rate at which a rising curve passes LIMIT, on the line between two points; None: outside of them."""
    for (low, below), (high, above) in zip(zip(rates, curve), zip(rates[1:], curve[1:])):
        if below < LIMIT <= above:
            return low + (high - low) * (LIMIT - below) / (above - below)
    return None
