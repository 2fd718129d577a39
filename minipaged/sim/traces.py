"""Readers of recorded traces (chapters 06, 08 and 14). Data and licences: `data/README.md` here.

A line that cannot be read is a TraceFormatError with the file and the line number; with `skip_bad` it is
left out and reported in `Trace.skipped`. Files may be packed (.gz, .xz).
"""
from __future__ import annotations

import csv
import gzip
import inspect
import json
import lzma
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from math import isfinite
from pathlib import Path
from typing import NamedTuple, TextIO

from minipaged.errors import TraceFormatError
from minipaged.sim.workload import GENERATORS, Trace, TraceRequest, sorted_trace

_EPOCH = datetime(2000, 1, 1)
DATA = Path(__file__).parent / "data"
VLLM_RUN = DATA / "vllm_rtx4090"

#: names that a trace may be asked by
BUNDLED = {
    "azure-conv": DATA / "azure_2023_conv.csv.xz",
    "mooncake-conv": DATA / "mooncake_conversation.jsonl.xz",
    "sharegpt-300": DATA / "sharegpt_300_lengths.csv",
    "vllm-rtx4090": VLLM_RUN / "requests.jsonl",
}


class Measured(NamedTuple):
    """What a real server measured of one request, in seconds on the clock of the trace."""

    arrival: float
    scheduled: float
    first_token: float
    last_token: float


class _BadLine(ValueError):
    """One line of a trace is not what it should be."""


def load_trace(name: str | Path, skip_bad: bool = False) -> Trace:
    """A trace by its bundled name, by its path, or made: "poisson:n=200,rate=4,seed=1".

    The kind of a file is told by its first line. Raises TraceFormatError, or ValueError for a name that is
    none of these.
    """
    text = str(name)
    if text.partition(":")[0] in GENERATORS and not Path(text).is_file():
        return _generate(text)
    path = BUNDLED.get(text, Path(text))
    if not path.is_file():
        raise ValueError(f"no trace {text!r}: it is no file and none of {', '.join(BUNDLED)}; made ones: "
                         f"{', '.join(GENERATORS)}, as in poisson:n=200,rate=4,seed=1")
    with _open(path) as lines:
        first = next(lines, "")
    if first.startswith("TIMESTAMP"):
        return read_azure(path, skip_bad)
    if first.startswith("arrival_s"):
        return read_lengths(path, skip_bad)
    if '"input_toks"' in first:
        return read_vllm(path, skip_bad)[0]
    if '"input_length"' in first:
        return read_mooncake(path, skip_bad)
    raise TraceFormatError(f"{path}, line 1: neither an Azure CSV (TIMESTAMP,ContextTokens,GeneratedTokens), a CSV of "
                           "lengths (arrival_s,input_tokens,output_tokens), Mooncake JSONL (timestamp, input_length, "
                           "output_length, hash_ids) nor vLLM JSONL (input_toks, output_toks, queued_ts)")


def read_azure(path: str | Path, skip_bad: bool = False) -> Trace:
    """`TIMESTAMP,ContextTokens,GeneratedTokens`; the time of day, down to 100 ns."""
    def read(row: dict) -> TraceRequest:
        stamp = _text(row, "TIMESTAMP")
        try:
            whole, _, fraction = stamp.partition(".")
            moment = (datetime.fromisoformat(whole) - _EPOCH).total_seconds() + float(f"0.{fraction or 0}")
        except ValueError:
            raise _BadLine(f"TIMESTAMP {stamp!r} is not a date and time") from None
        return TraceRequest(moment, _count(row, "ContextTokens"), _count(row, "GeneratedTokens"))
    return _finish(path, *_collect(path, _csv_rows(path), read, skip_bad))


def read_lengths(path: str | Path, skip_bad: bool = False) -> Trace:
    """`arrival_s,input_tokens,output_tokens`."""
    def read(row: dict) -> TraceRequest:
        return TraceRequest(_number(row, "arrival_s"), _count(row, "input_tokens"), _count(row, "output_tokens"))
    return _finish(path, *_collect(path, _csv_rows(path), read, skip_bad), from_zero=False)


def read_mooncake(path: str | Path, skip_bad: bool = False) -> Trace:
    """JSONL with `timestamp` in ms and one hash id for each 512 prompt tokens, the last piece included."""
    def read(row: dict) -> TraceRequest:
        tokens = _count(row, "input_length")
        return TraceRequest(_number(row, "timestamp") / 1e3, tokens, _count(row, "output_length"),
                            _ids(row, -(-tokens // 512)), 512)
    return _finish(path, *_collect(path, _json_rows(path), read, skip_bad), from_zero=False)


def read_vllm(path: str | Path, skip_bad: bool = False) -> tuple[Trace, tuple[Measured, ...]]:
    """JSONL of a measured vLLM run: (trace, what was measured of each of its requests).

    `hash_ids`, where present, has one id for each full 16-token block of the prompt.
    """
    def read(row: dict) -> tuple[TraceRequest, Measured]:
        tokens = _count(row, "input_toks")
        measured = Measured(*(_number(row, name) for name in
                              ("queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")))
        ids = _ids(row, tokens // 16) if "hash_ids" in row else ()
        return TraceRequest(measured.arrival, tokens, _count(row, "output_toks"), ids, 16), measured
    pairs, skipped = _collect(path, _json_rows(path), read, skip_bad)
    pairs.sort(key=lambda pair: pair[0].arrival)
    start = pairs[0][0].arrival if pairs else 0.0
    return (_finish(path, [request for request, _ in pairs], skipped),
            tuple(Measured(*(moment - start for moment in measured)) for _, measured in pairs))


# ---- lines

def _collect(path: str | Path, rows: Iterator[tuple[int, dict | str]], read: Callable[[dict], object],
             skip_bad: bool) -> tuple[list, list[tuple[int, str]]]:
    found, skipped = [], []
    for line, row in rows:
        try:
            if isinstance(row, str):
                raise _BadLine(row)
            found.append(read(row))
        except ValueError as error:
            if not skip_bad:
                raise TraceFormatError(f"{path}, line {line}: {error}. Mend the line, or leave such lines out with "
                                       "--skip-bad") from None
            skipped.append((line, str(error)))
    if not found:
        raise TraceFormatError(f"{path} holds no request that can be read")
    return found, skipped


def _finish(path: str | Path, requests: list[TraceRequest], skipped: list[tuple[int, str]],
            from_zero: bool = True) -> Trace:
    name = next((name for name, bundled in BUNDLED.items() if bundled == Path(path)), Path(path).name)
    trace = sorted_trace(name, requests, skipped)
    if not from_zero:
        return trace
    start = trace.requests[0].arrival
    return trace.map(lambda request: replace(request, arrival=request.arrival - start))


def _open(path: str | Path) -> TextIO:
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(Path(path).suffix, open)
    return opener(path, "rt", encoding="utf-8", errors="replace", newline="")


def _csv_rows(path: str | Path) -> Iterator[tuple[int, dict | str]]:
    with _open(path) as lines:
        reader = csv.DictReader(lines)
        for row in reader:
            bad = None in row or None in row.values()
            yield reader.line_num, f"it has not {len(reader.fieldnames)} fields" if bad else row


def _json_rows(path: str | Path) -> Iterator[tuple[int, dict | str]]:
    with _open(path) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = "it is not JSON"
            yield number, row if isinstance(row, (dict, str)) else "it is not a JSON object"


def _text(row: dict, name: str) -> str:
    if name not in row:
        raise _BadLine(f"there is no {name}")
    return str(row[name])


def _number(row: dict, name: str) -> float:
    text = _text(row, name)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not (isfinite(value) and value >= 0):
        raise _BadLine(f"{name} is {text!r}; it must be a number from 0 on")
    return value


def _count(row: dict, name: str) -> int:
    value = _number(row, name)
    if value < 1 or value != int(value):
        raise _BadLine(f"{name} is {row[name]!r}; it must be a whole number of at least 1")
    return int(value)


def _ids(row: dict, expected: int) -> tuple[int, ...]:
    ids = row.get("hash_ids")
    if not isinstance(ids, list) or not all(type(one) is int and 0 <= one < 1 << 40 for one in ids):
        raise _BadLine("hash_ids must be a list of whole numbers from 0 on")
    if len(ids) != expected:
        raise _BadLine(f"it has {len(ids)} hash_ids; its tokens make {expected} blocks")
    return tuple(ids)


def _generate(text: str) -> Trace:
    """"name:key=value,key=value" -> the trace that this generator makes."""
    name, _, options = text.partition(":")
    make = GENERATORS[name]
    defaults = {key: one.default for key, one in inspect.signature(make).parameters.items() if key != "name"}
    chosen = {}
    for option in filter(None, options.split(",")):
        key, _, value = option.partition("=")
        if key not in defaults:
            raise ValueError(f"{name} has no option {key!r}; it has {', '.join(defaults)}")
        try:
            chosen[key] = type(defaults[key])(value)
        except ValueError:
            raise ValueError(f"{name}: {key} is {value!r}; it must be like {defaults[key]!r}") from None
    return make(**chosen)
