"""A run as a Chrome trace: open the file in ui.perfetto.dev or chrome://tracing (chapter 14).

One track a request with its spans (queued, prefill, decode), one with the steps, and counters. Format:
"Trace Event Format", Google, 2016: times in microseconds, `X` a span, `C` a counter, `M` a name.
"""
from __future__ import annotations

import json
from pathlib import Path

from minipaged.sim.result import SimResult

_SERVER, _REQUESTS = 1, 2  # process ids, only labels here


def trace_events(result: SimResult, max_requests: int = 2000, max_steps: int = 50_000) -> list[dict]:
    """Events of the first `max_requests` requests and `max_steps` steps, by start."""
    events = [_name(_SERVER, 0, "process_name", f"server ({result.trace})"),
              _name(_SERVER, 1, "thread_name", "steps"), _name(_REQUESTS, 0, "process_name", "requests")]
    steps = result.steps
    for index in range(min(len(steps), max_steps)):
        start, running = 1e6 * steps.start[index], steps.running[index]
        events.append({"ph": "X", "name": "step", "pid": _SERVER, "tid": 1, "ts": start,
                       "dur": 1e6 * steps.seconds[index],
                       "args": {"step": index, "tokens": steps.tokens[index], "decodes": steps.decodes[index]}})
        used = result.num_blocks - steps.free_blocks[index]
        for name, value in (("running", running), ("waiting", steps.waiting[index]), ("KV blocks used", used)):
            events.append({"ph": "C", "name": name, "pid": _SERVER, "tid": 0, "ts": start, "args": {name: value}})
    for record in result.records[:max_requests]:
        if record.scheduled is None:
            continue
        track = record.number + 1
        events.append(_name(_REQUESTS, track, "thread_name", f"r{record.number}"))
        details = {"prompt": record.input_tokens, "output": record.output_tokens, "cached": record.cached_tokens,
                   "preemptions": record.preemptions}
        spans = (("queued", record.arrival, record.scheduled), ("prefill", record.scheduled, record.first_token),
                 ("decode", record.first_token, record.last_token))
        for name, start, end in spans:
            if start is not None and end is not None and end > start:
                events.append({"ph": "X", "name": name, "pid": _REQUESTS, "tid": track, "ts": 1e6 * start,
                               "dur": 1e6 * (end - start), "args": details})
    return events


def save_perfetto(result: SimResult, path: str | Path, **limits: int) -> None:
    """Write the trace as JSON."""
    with Path(path).open("w", encoding="utf-8") as file:
        json.dump({"displayTimeUnit": "ms", "traceEvents": trace_events(result, **limits)}, file)


def _name(process: int, thread: int, kind: str, name: str) -> dict:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "ts": 0, "args": {"name": name}}
