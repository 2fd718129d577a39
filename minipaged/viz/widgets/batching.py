"""Static against continuous batching, seat by seat (chapter 07)."""
from __future__ import annotations

from minipaged.sim.serving import Serving
from minipaged.sim.workload import TraceRequest
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.runs import Run, evenly, letter, lives, run
from minipaged.viz.widgets.scene import Frame, Scene, Shape, Span, Words, legend, rows_over_time, time_axis

#: name -> output tokens of each request; the first two are the running example of the chapter
WORKLOADS = {
    "A to D": (100, 50, 200, 30),
    "A to D, then E, F, G": (100, 50, 200, 30, 120, 80, 60),
    "all alike": (90,) * 8,
    "one long, many short": (200, 20, 20, 20, 20, 20, 20, 20, 20, 20),
    "short and long in turns": (20, 150, 20, 150, 20, 150, 20, 150),
}
PROMPT = 16


def batching_explorer() -> Explorer:
    """Seats, workload and gap between arrivals; both ways of batching on one clock."""
    return Explorer("Static and continuous batching", (
        Control("workload", "Requests", tuple(WORKLOADS), "A to D, then E, F, G", slider=False),
        Control("seats", "Seats", tuple(range(1, 9)), 4),
        Control("every", "A request every", (0, 5, 10, 20, 40), 0, "steps"),
    ), _show)


def _show(workload: str, seats: int, every: int) -> Shown:
    requests = evenly([TraceRequest(0.0, PROMPT, length) for length in WORKLOADS[workload]], every)
    data, drawn = {}, {}
    for policy in ("static", "fcfs"):
        one = run(requests, Serving(512, max_num_seqs=seats, policy=policy, enable_prefix_caching=False))
        spans = _seats(one, seats, policy == "static")
        busy = sum(span.end - span.start for row in spans for _, span in row if span.look != "idle")
        data[policy] = {"steps": round(one.result.end), "seat_use": busy / (seats * one.result.end),
                        "mean_end": sum(record.last_token - record.arrival for record in one.result.records)
                        / len(requests)}
        drawn[policy] = spans
    static, continuous = data["static"], data["fcfs"]
    sentence = (f"Static batching ends at step {static['steps']} with its seats at work {static['seat_use']:.1%} of "
                f"the time; continuous batching ends at step {continuous['steps']} with {continuous['seat_use']:.1%}. "
                f"A request takes {static['mean_end']:.0f} steps on average in one, {continuous['mean_end']:.0f} in "
                "the other.")
    return Shown(_draw(drawn, max(static["steps"], continuous["steps"]), seats), sentence, data)


def _seats(one: Run, seats: int, whole_batches: bool) -> list[list[tuple[str, Span]]]:
    """For each seat, the spans of those who sat there. A row of a static batch sits idle until its batch ends."""
    finish = {f"r{record.number}": record.last_token for record in one.result.records}
    batch_end: dict[str, float] = {}
    if whole_batches:
        admitted: dict[int, list[str]] = {}
        for event in one.events.select("admit"):
            admitted.setdefault(event.step, []).append(event.request)
        batch_end = {name: max(finish[other] for other in batch) for batch in admitted.values() for name in batch}
    free_from = [0.0] * seats
    rows: list[list[tuple[str, Span]]] = [[] for _ in range(seats)]
    for name, spans in lives(one, batch_end.get if whole_batches else None).items():
        at_work = [span for span in spans if span.look != "waiting"]
        seat = next(index for index in range(seats) if free_from[index] <= at_work[0].start)
        free_from[seat] = at_work[-1].end
        rows[seat] += [(name, span) for span in at_work]
    return rows


def _draw(drawn: dict[str, list[list[tuple[str, Span]]]], steps: int, seats: int) -> Scene:
    pitch = 26 if seats <= 5 else 20
    shapes: list[Shape] = []
    top = 16.0
    for policy, title in (("static", "Static: a batch starts and ends together"),
                          ("fcfs", "Continuous: a free seat is taken at the next step")):
        shapes.append(Words(24, top + 12, title, strong=True))
        frame = Frame(76, top + 22, 660, pitch * seats, steps, 1)
        rows = [(f"seat {index + 1}", [span for _, span in row]) for index, row in enumerate(drawn[policy])]
        shapes += rows_over_time(frame, rows)
        shapes += _names(frame, drawn[policy], pitch)
        top += 30 + pitch * seats
    shapes += time_axis(frame, "step")
    shapes += legend(76, top + 50, {"prefill": "prefill", "decode": "decode", "idle, kept for the batch": "idle"})
    return Scene(top + 66, tuple(shapes))


def _names(frame: Frame, rows: list[list[tuple[str, Span]]], pitch: float) -> list[Shape]:
    """The letter of each request in the middle of its longest span."""
    shapes: list[Shape] = []
    for index, row in enumerate(rows):
        longest: dict[str, Span] = {}
        for name, span in row:
            if span.look == "decode" and span.end - span.start > 8:
                longest[name] = max(longest.get(name, span), span, key=lambda one: one.end - one.start)
        for name, span in longest.items():
            x, _ = frame.at((span.start + span.end) / 2, 0)
            shapes.append(Words(x, frame.y + (index + 0.5) * pitch + 5, letter(name), "middle", 13, True))
    return shapes
