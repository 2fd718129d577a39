"""A long prompt among running answers: the token budget of a step (chapter 10)."""
from __future__ import annotations

from minipaged.sim.metrics import inter_token_gaps
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import SimResult, check_conservation, simulate
from minipaged.sim.workload import Trace, TraceRequest
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.runs import machine
from minipaged.viz.widgets.scene import Bar, Frame, Line, Scene, Shape, Words, legend

BLOCK_SIZE, OUTPUT, ARRIVES = 16, 120, 0.4
WHOLE = 0  # the budget that stands for: no chunks, a prompt is computed in one step


def chunk_explorer() -> Explorer:
    """Budget, length of the newcomer's prompt, answers that are being written when it arrives."""
    budgets = (64, 128, 256, 512, 1024, 2048, 4096, WHOLE)
    return Explorer("A long prompt arrives", (
        Control("budget", "Budget of a step", budgets, 512,
                words=(*(f"{budget:,} tokens" for budget in budgets[:-1]), "whole prompts")),
        Control("prompt", "Its prompt", (500, 1000, 2000, 4000, 8000, 16000), 4000, "tokens"),
        Control("others", "Others, writing", (1, 4, 8, 16, 32, 48), 16),
    ), _show)


def _show(budget: int, prompt: int, others: int) -> Shown:
    requests = [TraceRequest(0.0, 32, OUTPUT) for _ in range(others)] + [TraceRequest(ARRIVES, prompt, 40)]
    settings = Serving(4096, BLOCK_SIZE, max_num_seqs=64, max_num_batched_tokens=budget or 32768,
                       enable_chunked_prefill=budget != WHOLE, enable_prefix_caching=False)
    result = simulate(settings.scheduler(), machine(BLOCK_SIZE), Trace("chunks", tuple(requests)), sample_every=0)
    check_conservation(result)
    newcomer = result.records[-1]
    gaps = 1e3 * inter_token_gaps(result)
    usual = sorted(gaps)[len(gaps) // 2]
    data = {"longest_gap_ms": float(gaps.max()), "usual_gap_ms": float(usual),
            "first_token_ms": 1e3 * (newcomer.first_token - newcomer.arrival),
            "seconds": result.end}
    sentence = (f"The newcomer's first token comes after {data['first_token_ms']:.0f} ms. The others write a token "
                f"every {usual:.1f} ms; the longest they stand still is {data['longest_gap_ms']:.0f} ms, "
                f"{data['longest_gap_ms'] / usual:.1f} times as long.")
    return Shown(_draw(result, newcomer.arrival, newcomer.first_token), sentence, data)


def _draw(result: SimResult, arrival: float, first_token: float) -> Scene:
    steps = result.steps
    start, end = arrival - 0.1, first_token + 0.2
    longest = 1e3 * max(steps.seconds)
    frame = Frame(60, 60, 676, 150, 1e3 * (end - start), longest * 1.05)
    shapes: list[Shape] = [Words(24, 22, "Every step around its arrival: as wide and as high as it lasts", strong=True)]
    for at, seconds, tokens, decodes in zip(steps.start, steps.seconds, steps.tokens, steps.decodes):
        if at < start or at + seconds > end:
            continue
        prefill = (tokens - decodes) / tokens
        left, right = 1e3 * (at - start), 1e3 * (at + seconds - start)
        parts = [Bar(1e3 * seconds * (1 - prefill), "decode"), Bar(1e3 * seconds * prefill, "prefill")]
        shapes += frame.columns((left, right), [parts])
    shapes += frame.axes("ms", "ms of the step")
    for moment, what in ((arrival, "it arrives"), (first_token, "its first token")):
        x, _ = frame.at(1e3 * (moment - start), 0)
        shapes += [Line(((x, 46), (x, 210)), "mark"), Words(x + 5, 54, what, size=12)]
    shapes += legend(60, 264, {"share of tokens that are decodes": "decode", "share that is prompt": "prefill"})
    return Scene(280, tuple(shapes))
