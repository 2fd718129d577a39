"""What several experiments share: the paper's machine, its workloads, a full queue."""
from __future__ import annotations

import random

from minipaged.sim import metrics
from minipaged.sim.cost_model import Roofline
from minipaged.sim.hardware import Card, ServedModel, card, served_model
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import SimResult, check_conservation, simulate
from minipaged.sim.workload import Trace, TraceRequest, draw_lengths

#: KV slots of OPT-13B on an A100-40GB in the paper (table 1: 12 GB, 15.7K slots)
PAPER_SLOTS = 15_700
MAX_MODEL_LEN = 2048  # OPT's limit, the paper's too

#: mean tokens in and out of the paper's workloads (figure 11), and the spread of lengths taken for them
SHAREGPT = (161.31, 337.99, "sharegpt")
SHAREGPT_300 = (224.42, 277.78, "sharegpt")  # as recorded, not scaled
ALPACA = (19.31, 58.45, "exponential")


def paper_machine() -> tuple[Card, ServedModel]:
    """OPT-13B on an A100-40GB."""
    return card("a100-40g"), served_model("opt-13b")


def workload(lengths: tuple[float, float, str], count: int, rate: float | None = None,
             **fields: object) -> Trace:
    """`count` requests with these lengths, Poisson arrivals at `rate` a second, or all at once (None).

    The same arguments give the same requests. `fields` are those of a TraceRequest, the same for all.
    """
    draw = random.Random(f"{lengths} 1")
    now, requests = 0.0, []
    for tokens_in, tokens_out in draw_lengths(count, *lengths, draw):
        tokens_in = min(tokens_in, MAX_MODEL_LEN - 64)
        now += draw.expovariate(rate) if rate else 0.0
        requests.append(TraceRequest(now, tokens_in, min(tokens_out, MAX_MODEL_LEN - tokens_in - 1), **fields))
    return Trace(f"{lengths[2]} {lengths[0]:g}/{lengths[1]:g}", tuple(requests))


def serve(trace: Trace, settings: Serving, machine: tuple[Card, ServedModel], **options: object) -> SimResult:
    """Run a trace by roofline and check that no token was lost."""
    gpu, model = machine
    result = simulate(settings.scheduler(), Roofline(gpu, model, settings.block_size), trace, **options)
    check_conservation(result)
    return result


def full_window(result: SimResult) -> tuple[float, float]:
    """From a tenth of the time on until the queue is first empty for good: when memory is the limit."""
    waited = [start for start, waiting in zip(result.steps.start, result.steps.waiting) if waiting]
    end = waited[-1] if waited else result.end
    return end / 10, end


def mean_running(result: SimResult, start: float, end: float) -> float:
    """Requests with a seat, mean over the steps between two times."""
    inside = [running for at, running in zip(result.steps.start, result.steps.running) if start <= at <= end]
    return sum(inside) / len(inside)


def output_rate(result: SimResult, start: float, end: float) -> float:
    """Tokens generated a second in the steps between two times."""
    steps = result.steps
    inside = [(sampled, seconds) for at, sampled, seconds in zip(steps.start, steps.sampled, steps.seconds)
              if start <= at <= end]
    return sum(sampled for sampled, _ in inside) / sum(seconds for _, seconds in inside)


def normalized_latency(result: SimResult) -> float:
    """Mean over requests of latency / output tokens, in seconds: the paper's measure (section 6.1)."""
    records = metrics.done(result)
    return sum((one.last_token - one.arrival) / one.output_tokens for one in records) / len(records)


def percent(share: float) -> float:
    """0.1234 -> 12.3"""
    return round(100 * share, 1)
