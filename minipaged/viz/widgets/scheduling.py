"""Who runs next, and who waits: policies, quantum, seats, load (chapter 08)."""
from __future__ import annotations

from minipaged.sim.metrics import inter_token_gaps
from minipaged.sim.serving import Serving
from minipaged.sim.workload import TraceRequest
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.runs import ends, evenly, first_token_waits, letter, lives, run
from minipaged.viz.widgets.scene import Frame, Scene, Shape, Span, Words, count, legend, rows_over_time, time_axis

#: name -> (output tokens, priority) of each request; a lower priority number goes first
WORKLOADS = {
    "two long ones first": ((160, 1), (120, 1), (20, 0), (20, 0), (30, 1), (20, 0), (60, 1), (20, 0)),
    "all alike": ((50, 1), (50, 0)) * 4,
    "the urgent come last": ((60, 2), (60, 2), (60, 2), (60, 1), (40, 1), (40, 1), (20, 0), (20, 0)),
}
POLICIES = {"fcfs": "first come, first served", "round_robin": "round-robin", "priority": "priority",
            "static": "static batches"}
PROMPT = 16


def scheduling_explorer() -> Explorer:
    """Policy, quantum of round-robin, seats, gap between arrivals, workload; one unit of time a step."""
    return Explorer("Who runs, who waits", (
        Control("policy", "Policy", tuple(POLICIES), "fcfs", words=tuple(POLICIES.values()), slider=False),
        Control("quantum", "Round-robin quantum", (1, 2, 4, 8, 16, 32, 64), 16, "steps"),
        Control("seats", "Seats", tuple(range(1, 9)), 2),
        Control("every", "A request every", (0, 2, 5, 10, 20, 40), 5, "steps"),
        Control("workload", "Requests", tuple(WORKLOADS), "two long ones first", slider=False),
    ), _show)


def _show(policy: str, quantum: int, seats: int, every: int, workload: str) -> Shown:
    requests = evenly([TraceRequest(0.0, PROMPT, length, priority=priority)
                       for length, priority in WORKLOADS[workload]], every)
    one = run(requests, Serving(512, max_num_seqs=seats, policy=policy, quantum=quantum, enable_prefix_caching=False))
    waits, lasted = first_token_waits(one.result), ends(one.result)
    gap = float(inter_token_gaps(one.result).max())
    data = {"mean_first_token": sum(waits) / len(waits), "longest_first_token": max(waits),
            "longest_gap": gap, "mean_end": sum(lasted) / len(lasted), "steps": one.result.end}
    sentence = (f"A first token comes after {count(data['mean_first_token'], 'step')} on average and "
                f"{max(waits):.0f} at worst; the longest gap between two tokens of an answer is {count(gap, 'step')}; "
                f"an answer is complete after {count(data['mean_end'], 'step')} on average, all of them after "
                f"{one.result.end:.0f}.")
    return Shown(_draw(lives(one), one.result.end), sentence, data)


def _draw(spans: dict[str, list[Span]], end: float) -> Scene:
    frame = Frame(60, 38, 676, 26 * len(spans), end, 1)
    shapes: list[Shape] = [Words(24, 24, "One row for each request", strong=True)]
    shapes += rows_over_time(frame, [(letter(name), row) for name, row in spans.items()], 13)
    shapes += time_axis(frame, "step")
    bottom = frame.y + frame.height
    shapes += legend(60, bottom + 56, {"waiting": "waiting", "prefill": "prefill", "decode": "decode",
                                       "paused, keeps its blocks": "paused"})
    return Scene(bottom + 70, tuple(shapes))
