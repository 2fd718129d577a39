"""Static against continuous batching (chapter 07)."""
from __future__ import annotations

from minipaged.sim.experiments.common import (
    MAX_MODEL_LEN,
    PAPER_SLOTS,
    SHAREGPT,
    paper_machine,
    percent,
    serve,
    workload,
)
from minipaged.sim.experiments.report import PAPER, Report
from minipaged.sim.metrics import done, latency, memory_shares
from minipaged.sim.serving import Serving

#: (label, published rate over static, settings)
_STATIC = {"policy": "static", "max_num_batched_tokens": PAPER_SLOTS}  # the whole batch prefills in one step
SYSTEMS = (("static, rows of 7", None, {**_STATIC, "max_num_seqs": 7}),
           ("static, as many as fit", None, _STATIC),
           ("continuous, reserve the maximum", None, {"memory": "max"}),
           ("continuous, paged, 7 seats", None, {"max_num_seqs": 7}),
           ("continuous, paged", "up to 22", {}))


def run(small: bool = False) -> Report:
    """Every request waits at the door; tokens a second, and what the seats and the memory are used for."""
    trace = workload(SHAREGPT, 150 if small else 600)
    rows = []
    for label, published, options in SYSTEMS:
        settings = Serving(PAPER_SLOTS // 16, max_model_len=MAX_MODEL_LEN, enable_prefix_caching=False, **options)
        result = serve(trace, settings, paper_machine(), sample_every=0.5)
        tokens = sum(record.output_tokens for record in done(result))
        rows.append({"system": label, "tokens/s": round(tokens / result.end),
                     "rows a step": round(sum(result.steps.sampled) / len(result.steps), 1),
                     "used %": percent(memory_shares(result)["used"]),
                     "mean latency s": round(float(latency(result).mean()), 1), "published x": published})
    for row in rows:
        row["ours x"] = round(row["tokens/s"] / rows[0]["tokens/s"], 2)
    return Report(
        "batching", "Static and continuous batching on the same memory (OPT-13B, A100-40GB, ShareGPT lengths)",
        f"{PAPER}, section 6.2: up to 22x the rate of FasterTransformer, a static batcher, at the same latency", rows,
        ["Seven rows are what fits when every row reserves 2,048 slots, the most a static server without knowledge of "
         "lengths can do. \"As many as fit\" knows each batch's longest request before it starts.",
         "The published 22x is a rate at equal latency; a full queue compares throughput only, where no scheme pays "
         "for making others wait. Direction and order are the same."])
