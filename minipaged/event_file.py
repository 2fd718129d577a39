"""Event logs as files: one JSON array, one event a line."""
from __future__ import annotations

import json
from pathlib import Path

from minipaged.core.events import KINDS, Event, EventLog
from minipaged.errors import TraceFormatError


def to_dict(event: Event) -> dict:
    return {"time": event.time, "step": event.step, "kind": event.kind, **event.data}


def to_json(log: EventLog) -> str:
    return "[\n" + ",\n".join(json.dumps(to_dict(event), ensure_ascii=False) for event in log) + "\n]\n"


def save_events(log: EventLog, path: str | Path) -> None:
    Path(path).write_text(to_json(log), encoding="utf-8")


def load_events(path: str | Path) -> EventLog:
    """Read a saved log. Errors: TraceFormatError naming the file, the event and what is wrong with it."""
    try:
        rows = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise TraceFormatError(f"{path} is not an event log: it is not JSON ({error})") from None
    if not isinstance(rows, list):
        raise TraceFormatError(f"{path} is not an event log: it holds no list")
    log = EventLog()
    for time, row in enumerate(rows):
        known = isinstance(row, dict) and row.get("time") == time and row.get("kind") in list(KINDS)
        if not known or not row.keys() >= {"step", *KINDS[row["kind"]][1]}:
            raise TraceFormatError(f"{path} is not an event log: event {time} is {row!r:.80}")
        log.step = row["step"]
        log.emit(row["kind"], **{name: value for name, value in row.items() if name not in ("time", "step", "kind")})
    return log
