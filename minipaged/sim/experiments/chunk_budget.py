"""Tokens a step against the first token and the gaps (chapter 10; Sarathi-Serve)."""
from __future__ import annotations

from minipaged.sim import metrics
from minipaged.sim.experiments.common import serve
from minipaged.sim.experiments.report import Report
from minipaged.sim.hardware import card, served_model
from minipaged.sim.serving import Serving
from minipaged.sim.traces import load_trace


def run(small: bool = False) -> Report:
    """An hour of chats, every 10th request at a pressing rate, with other budgets a step."""
    machine = card("a100-80g"), served_model("llama-3.1-8b")
    trace = load_trace("azure-conv").every(100 if small else 20).at_rate(10.0)
    blocks, rows = machine[1].num_blocks(machine[0]), []
    budgets = (256, 2048, 8192) if small else (128, 256, 512, 1024, 2048, 4096, 8192)
    for budget in (*budgets, None):
        settings = Serving(blocks, max_num_batched_tokens=budget or 8192, enable_chunked_prefill=budget is not None,
                           max_num_seqs=128 if budget == 128 else 256, enable_prefix_caching=False)
        result = serve(trace, settings, machine, sample_every=0)
        first, gaps = metrics.spread(metrics.ttft(result)), metrics.spread(metrics.inter_token_gaps(result))
        rows.append({"tokens a step": budget, "chunked": "yes" if budget else "no, whole prompts",
                     "published": "gaps bounded" if budget else "generation stalls",
                     "TTFT p50 ms": round(1e3 * first["p50"], 1), "TTFT p99 ms": round(1e3 * first["p99"], 1),
                     "gap p50 ms": round(1e3 * gaps["p50"], 1), "gap p99 ms": round(1e3 * gaps["p99"], 1),
                     "gap max ms": round(1e3 * gaps["max"], 1),
                     "tokens/s": round(sum(one.output_tokens for one in metrics.done(result)) / result.end)})
    return Report(
        "chunk_budget", "The token budget of a step (llama-3.1-8b on an A100-80GB, Azure chats at 10 a second)",
        'Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve", OSDI 2024: chunked '
        "prefill bounds the gaps between tokens, 2.6x the capacity for Mistral-7B on one A100 under its latency "
        "limits", rows,
        ["A small budget bounds every step, and with it each gap; the prompt then takes more steps, each of which "
         "reads all weights, so first tokens wait longer and, below some hundred tokens, the server falls behind.",
         "The published factor is the load at which a limit on the gaps breaks; this table shows the two sides of "
         "the trade at one load."])
