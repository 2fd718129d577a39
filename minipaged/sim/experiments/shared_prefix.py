"""Throughput when all prompts begin alike (chapter 06; figure 16 of the PagedAttention paper)."""
from __future__ import annotations

from minipaged.sim.experiments.common import serve
from minipaged.sim.experiments.report import PAPER, Report
from minipaged.sim.hardware import card, served_model
from minipaged.sim.metrics import done
from minipaged.sim.serving import Serving
from minipaged.sim.workload import shared_prefix

#: shots -> (prefix tokens, published factor over Orca (Oracle))
SHOTS = {"one-shot": (80, 1.67), "five-shot": (341, 3.58)}
OWN_INPUT, OUTPUT = 32, 32  # a sentence to translate, and its translation


def run(small: bool = False) -> Report:
    """Every request waits at the door; requests a second with and without sharing."""
    machine = card("a100-40g"), served_model("llama-2-13b")
    rows = []
    for shots, (prefix, published) in SHOTS.items():
        trace = shared_prefix(n=300 if small else 2000, rate=1e4, prefix=prefix, input=OWN_INPUT, output=OUTPUT)
        blocks = machine[1].num_blocks(machine[0])
        rate = {}
        for name, options in (("oracle", {"memory": "oracle", "max_model_len": 2048}),
                              ("paged", {"enable_prefix_caching": False}), ("shared", {})):
            result = serve(trace, Serving(blocks, max_num_seqs=1024, **options), machine, sample_every=0)
            rate[name] = len(done(result)) / result.end
        rows.append({"prompt": shots, "prefix tokens": prefix, "published x over reserved": published,
                     "ours x over reserved": round(rate["shared"] / rate["oracle"], 2),
                     "x over paged alone": round(rate["shared"] / rate["paged"], 2),
                     "reserved req/s": round(rate["oracle"], 1), "shared req/s": round(rate["shared"], 1)})
    return Report(
        "shared_prefix", "Requests a second with a prefix that all share (13B, A100-40GB, full queue)",
        f"{PAPER}, section 6.4: 1.67x with a prefix of 80 tokens, 3.58x with 341, over Orca (Oracle)", rows,
        [f"Own tokens are exponential around {OWN_INPUT} in and {OUTPUT} out, a guess for WMT16 sentences; the prefix "
         "lengths are the paper's.",
         "The paper compares LLaMA-13B at latencies users accept; here the queue is full, and a shared prefix saves "
         "its computation as well as its memory: with short answers the computation is most of it."])
