"""How it went: the numbers that serving is judged by (chapters 07, 08, 10 and 14).

TTFT        time to the first token: from arrival to the end of the step that sampled it
TPOT        time per output token after the first: (last - first) / (tokens - 1), a mean within a request;
            of several samples or beams the tokens of one sequence count
ITL         inter-token latency: every single gap between two tokens of one sequence
latency     from arrival to the last token
goodput     requests a second that kept every limit of an SLO (service level objective)
fairness    Jain's index of the requests' slowdowns, latency / (tokens x the run's least TPOT): 1 when all
            are slowed alike, 1/n when one of n bears it all (Jain, Chiu, Hawe, 1984)

Percentiles are numpy's (linear). Times are virtual seconds.
"""
from __future__ import annotations

import csv
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from minipaged.sim.result import Record, SimResult

QUANTILES = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}


def spread(values: np.ndarray) -> dict[str, float]:
    """mean, p50, p90, p95, p99, max; {} for no values."""
    if not len(values):
        return {}
    points = np.percentile(values, list(QUANTILES.values()))
    return {"mean": float(values.mean()), **{name: float(at) for name, at in zip(QUANTILES, points)},
            "max": float(values.max())}


def done(result: SimResult) -> list[Record]:
    """Requests that came to their end."""
    return [record for record in result.records if record.last_token is not None]


def ttft(result: SimResult) -> np.ndarray:
    """Seconds from a request's arrival to its first token, of those that ended, in order of arrival."""
    return np.array([record.first_token - record.arrival for record in done(result)])


def latency(result: SimResult) -> np.ndarray:
    """Seconds from a request's arrival to its last token, of those that ended, in order of arrival."""
    return np.array([record.last_token - record.arrival for record in done(result)])


def tpot(result: SimResult) -> np.ndarray:
    """Of requests with more than one token."""
    return np.array([_per_token(record) for record in done(result) if record.output_tokens > 1])


def _per_token(record: Record) -> float:
    gaps = (record.output_tokens - 1) / record.sequences
    return (record.last_token - record.first_token) / gaps if gaps else 0.0


def inter_token_gaps(result: SimResult) -> np.ndarray:
    """Every gap between two tokens of one sequence, in no particular order."""
    steps = result.steps
    ends = np.frombuffer(steps.start) + np.frombuffer(steps.seconds) if len(steps) else np.zeros(0)
    times = np.repeat(ends, np.array(steps.sampled, dtype=np.int32))
    owners = np.array(steps.owners, dtype=np.int32)
    order = np.argsort(owners, kind="stable")
    times, owners = times[order], owners[order]
    return np.diff(times)[np.diff(owners) == 0]


def goodput(result: SimResult, slo: dict[str, float]) -> float:
    """Requests a second within all limits, in seconds: keys ttft, tpot, latency."""
    unknown = set(slo) - {"ttft", "tpot", "latency"}
    if unknown:
        raise ValueError(f"an SLO has no {sorted(unknown)[0]!r}; it has ttft, tpot, latency")
    kept = 0
    for record in done(result):
        first, last = record.first_token - record.arrival, record.last_token - record.first_token
        seen = {"ttft": first, "latency": first + last, "tpot": _per_token(record)}
        kept += all(seen[name] <= limit for name, limit in slo.items())
    return kept / result.end if result.end else 0.0


def fairness(result: SimResult) -> float:
    """Jain's index of slowdowns, 1/n to 1."""
    records = done(result)
    if not records:
        return 0.0
    gaps = tpot(result)
    pace = float(gaps.min()) if len(gaps) else 1.0
    slow = np.array([(record.last_token - record.arrival) / (record.output_tokens * pace) for record in records])
    return float(slow.sum() ** 2 / (len(slow) * (slow**2).sum()))


def memory_shares(result: SimResult, start: float = 0.0, end: float = float("inf")) -> dict[str, float]:
    """Mean shares of all slots over the samples between two times: used, reserved, internal, external, free.

    `sharing_saved`: 1 - distinct blocks / table entries, what shared blocks save.
    """
    samples = [one for one in result.memory if start <= one.time <= end]
    if not samples:
        return {}
    total = sum(one.split.total for one in samples)
    shares = {name: sum(getattr(one.split, name) for one in samples) / total
              for name in ("used", "reserved", "internal", "external", "free")}
    entries = sum(one.table_blocks for one in samples)
    return {**shares, "sharing_saved": 1 - sum(one.used_blocks for one in samples) / entries if entries else 0.0}


def timeline(result: SimResult, points: int = 500) -> list[dict]:
    """At `points` evenly spaced moments: seats taken, requests waiting, share of blocks in use, tokens a second.

    Tokens are those computed in the step of that moment; between steps nothing runs.
    """
    steps = result.steps
    if not len(steps):
        return []
    starts, seconds = np.frombuffer(steps.start), np.frombuffer(steps.seconds)
    moments = np.linspace(0.0, result.end, points, endpoint=False)
    at = np.clip(np.searchsorted(starts, moments, side="right") - 1, 0, None)
    inside = (moments >= starts[at]) & (moments < starts[at] + seconds[at])
    columns = {name: np.array(getattr(steps, name))[at] for name in ("running", "waiting", "free_blocks", "tokens")}
    return [{"time": float(moment), "running": int(columns["running"][index]) if busy else 0,
             "waiting": int(columns["waiting"][index]) if busy else 0,
             "kv_usage": 1 - int(columns["free_blocks"][index]) / result.num_blocks if busy else 0.0,
             "tokens_per_s": float(columns["tokens"][index] / seconds[at[index]]) if busy else 0.0}
            for index, (moment, busy) in enumerate(zip(moments, inside))]


def save_rows(rows: list[dict], path: str | Path) -> None:
    """Rows with the same keys as CSV; a file without rows is empty."""
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        if rows:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def summary(result: SimResult, slo: dict[str, float] | None = None) -> dict:
    """Everything in one JSON-ready object; times in seconds."""
    steps, counts, records = result.steps, result.counts, done(result)
    weights = np.frombuffer(steps.seconds) if len(steps) else np.ones(1)

    def over_time(column) -> float:
        return float(np.average(np.array(column), weights=weights)) if len(steps) and weights.sum() else 0.0

    tokens_out = sum(record.output_tokens for record in records)
    span = result.end or 1.0
    report = {
        "trace": result.trace, "requests": len(result.records), "finished": len(records),
        "refused": sum(record.finish.startswith("refused") for record in result.records),
        "seconds": result.end, "steps": len(steps), "busy": float(weights.sum()) / span if len(steps) else 0.0,
        "ttft": spread(ttft(result)), "tpot": spread(tpot(result)), "itl": spread(inter_token_gaps(result)),
        "latency": spread(latency(result)),
        "requests_per_s": len(records) / span, "output_tokens_per_s": tokens_out / span,
        "total_tokens_per_s": (tokens_out + sum(record.input_tokens for record in records)) / span,
        "running": over_time(steps.running), "waiting": over_time(steps.waiting),
        "kv_usage": 1 - over_time(steps.free_blocks) / result.num_blocks,
        "memory": memory_shares(result),
        "hit_rate": result.prompt_hit_tokens / result.prompt_lookup_tokens if result.prompt_lookup_tokens else 0.0,
        "fairness": fairness(result), **asdict(counts),
    }
    if slo:
        report["slo"], report["goodput_per_s"] = slo, goodput(result, slo)
    return report


def save_requests(result: SimResult, path: str | Path) -> None:
    """One CSV line a request."""
    save_rows([{name: getattr(record, name) for name in Record.__dataclass_fields__} for record in result.records],
              path)


def to_json(report: dict) -> str:
    """The report as JSON; the same run gives the same bytes."""
    return json.dumps(report, indent=1, ensure_ascii=False)
