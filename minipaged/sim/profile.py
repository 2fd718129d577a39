"""The measured cost model: interpolation in tables of operator times (chapter 14).

A profile is a folder with three tables in microseconds (`prof_*.csv`, or without the prefix):

* dense: `layer,tokens,time_us`, operators of one transformer layer by tokens in the step;
* per_sequence: `layer,sequences,time_us`, once a step, by requests in it;
* attention: `prefill_chunk,kv_prefill,n_decode,kv_decode,time_us`, one layer's attention for a chunk of new
  tokens after `kv_prefill` cached ones, together with decodes that attend `kv_decode` tokens each. Newer
  tables have `prefill_key` = kv_prefill + chunk / 2, the mean context of the chunk, in its place.

How a step is looked up. All decodes are looked up *together with the first prefill chunk* of the step (one
kernel serves both), further chunks alone; decodes count with their mean context. One layer's operators
count once for each hidden layer, `layernorm` twice (before attention and before the MLP); `embedding` and
`final_layernorm` once a step. Every request of a step passes the head and the sampler, also one whose
prompt is not complete yet (so does vLLM, which drops that token). Between grid points all is multilinear,
beyond the last two points it goes on in their line; rows that the attention table lacks are filled at
load time, in the line of the nearest two along `n_decode`, else along another axis.
"""
from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import product
from pathlib import Path

from minipaged.errors import TraceFormatError
from minipaged.presets import preset
from minipaged.sim.cost_model import Moves, StepWork

AXES = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
ONCE = ("embedding", "final_layernorm")  # operators of the dense table outside the layers
TWICE = ("layernorm",)  # twice in each layer


class Line:
    """Times over one axis: linear between the points, on beyond the last two, flat below the first."""

    def __init__(self, points: dict[int, float]) -> None:
        self.x = sorted(points)
        self.y = [points[x] for x in self.x]

    def __call__(self, x: int) -> float:
        return sum(weight * self.y[index] for index, weight in place(self.x, x))


def place(axis: Sequence[int], x: float) -> tuple[tuple[int, float], ...]:
    """Where x lies on a sorted axis: (index, weight) pairs, weights sum to 1 (outside: extrapolation)."""
    if x <= axis[0] or len(axis) == 1:
        return ((0, 1.0),)
    right = min(bisect_left(axis, x), len(axis) - 1)
    if axis[right] == x:
        return ((right, 1.0),)
    share = (x - axis[right - 1]) / (axis[right] - axis[right - 1])
    return ((right - 1, 1 - share), (right, share))


class AttentionTable:
    """One layer's attention, in microseconds, over a grid of four axes; the second is `prefill_key` if `by_key`."""

    def __init__(self, rows: dict[tuple[int, float, int, int], float], by_key: bool = False) -> None:
        self.by_key = by_key
        self._of = {(chunk, kv if chunk else 0, n, length if n else 0): micros
                    for (chunk, kv, n, length), micros in rows.items()}
        self._of[0, 0, 0, 0] = 0.0  # nothing to do
        self.chunks = sorted({key[0] for key in self._of})
        self.contexts = sorted({key[1] for key in self._of if key[0]}) or [0]
        self.counts = sorted({key[2] for key in self._of})
        self.lengths = sorted({key[3] for key in self._of if key[2]}) or [0]
        self._fill()

    def __call__(self, chunk: int, kv_prefill: int, n_decode: int, kv_decode: float) -> float:
        at_kv = place(self.contexts, kv_prefill + chunk / 2 if self.by_key else kv_prefill)
        at_length = place(self.lengths, kv_decode)
        total = 0.0
        for i, share_chunk in place(self.chunks, chunk):
            for k, share_n in place(self.counts, n_decode):
                chunk_point, n_point = self.chunks[i], self.counts[k]
                for j, share_kv in at_kv if chunk_point else _NONE:
                    for m, share_length in at_length if n_point else _NONE:
                        total += share_chunk * share_n * share_kv * share_length * self._of[
                            chunk_point, self.contexts[j] if chunk_point else 0,
                            n_point, self.lengths[m] if n_point else 0]
        return total

    def _fill(self) -> None:
        """Rows that a look-up can ask for and the table lacks: in line with two that it has or that are filled."""
        axes = (self.chunks, self.contexts, self.counts, self.lengths)
        missing = [key for chunk, n in product(self.chunks, self.counts) for key in product(
            (chunk,), self.contexts if chunk else (0,), (n,), self.lengths if n else (0,)) if key not in self._of]
        while missing:
            found = {key: micros for key in missing if (micros := _in_line(self._of, axes, key)) is not None}
            if not found:
                raise TraceFormatError(f"the attention table has no row for {dict(zip(AXES, missing[0]))} and no two "
                                       "rows in line with it; it needs a grid")
            self._of |= found
            missing = [key for key in missing if key not in found]


_NONE = ((0, 1.0),)


def _in_line(known: dict, axes: Sequence[Sequence[int]], key: tuple[int, float, int, int]) -> float | None:
    """By the two nearest known points on a line through `key`; along `n_decode`, 0 counts only if it must."""
    for axis, with_zero in ((2, False), (3, False), (1, True), (0, False), (2, True)):
        points = {}
        for other in axes[axis]:
            neighbour = [*key[:axis], other, *key[axis + 1:]]
            if axis == 2 and other == 0:
                neighbour[3] = 0
            if (other or with_zero) and tuple(neighbour) in known:
                points[other] = known[tuple(neighbour)]
        if len(points) > 1:
            return max(0.0, _through_nearest(points, key[axis]))
    return None


def _through_nearest(points: dict[int, float], x: int) -> float:
    """The value at x on the line through the two points nearest to it."""
    near, other = sorted(points, key=lambda one: (abs(one - x), one))[:2]
    return points[near] + (points[other] - points[near]) * (x - near) / (other - near)


class Profiled:
    """A step's time from measured operators, plus `host_overhead_us` for each step.

    By default that is the line `host_overhead_us:` of the profile's `prof_meta.yaml`; without one it is 0, the
    tables and nothing else.

    `num_layers`: hidden layers of the served model; by default those of the model that the profile's
    `prof_meta.yaml` names. `moves`: what swaps and copies cost; without it they are refused.
    """

    def __init__(self, folder: str | Path, *, num_layers: int | None = None, host_overhead_us: float | None = None,
                 moves: Moves | None = None) -> None:
        self.folder = Path(folder)
        self.meta = read_meta(self.folder)
        self.num_layers = num_layers or self._layers_of_model()
        try:
            overhead = float(self.meta.get("host_overhead_us", 0) if host_overhead_us is None else host_overhead_us)
        except ValueError:
            overhead = -1.0
        if not 0 <= overhead < float("inf"):
            raise ValueError("host_overhead_us must be a number of microseconds of at least 0")
        self.host_overhead_us = overhead
        self._moves = moves
        layers = {name: Line(points) for name, points in self._lines("dense", "tokens").items()}
        self._step_lines = [layers.pop(name) for name in ONCE if name in layers]
        self._layer_lines = [(line, 2 if name in TWICE else 1) for name, line in layers.items()]
        self._sequence_lines = [Line(points) for points in self._lines("per_sequence", "sequences").values()]
        self._attention = self._attention_table()
        self._dense_us: dict[int, float] = {}
        self._head_us: dict[int, float] = {}

    def step_seconds(self, work: StepWork) -> float:
        tokens, requests = work.num_tokens, work.num_requests
        if (work.swap_blocks or work.copied_blocks) and self._moves is None:
            raise ValueError("this profile has no cost for swaps and copies; name a --gpu for its host link")
        moving = self._moves.seconds(work) if self._moves else 0.0
        if not tokens:
            return moving + self.host_overhead_us / 1e6
        if tokens not in self._dense_us:
            layer = sum(times * line(tokens) for line, times in self._layer_lines)
            self._dense_us[tokens] = self.num_layers * layer + sum(line(tokens) for line in self._step_lines)
        if requests not in self._head_us:
            self._head_us[requests] = sum(line(requests) for line in self._sequence_lines)
        mean_kv = work.decode_kv / work.num_decodes if work.num_decodes else 0
        (chunk, before), *others = work.chunks or [(0, 0)]
        attention = self._attention(chunk, before, work.num_decodes, mean_kv)
        for chunk, before in others:
            attention += self._attention(chunk, before, 0, 0)
        micros = self._dense_us[tokens] + self._head_us[requests] + self.num_layers * attention
        return moving + (micros + self.host_overhead_us) / 1e6

    def describe(self) -> dict:
        return {"cost_model": "profiled", "gpu": self.meta.get("gpu", self.meta.get("hardware", "unknown")),
                "model": self.meta.get("model", "unknown"), "num_layers": self.num_layers,
                "host_overhead_us": self.host_overhead_us, "source": f"operator tables in {self.folder.name}"}

    # ---- files

    def _layers_of_model(self) -> int:
        name = self.meta.get("model", "")
        try:
            return preset(name).shape.num_layers
        except ValueError:
            raise ValueError(f"{self.folder}: the number of layers of {name or 'the profiled model'!r} is not known; "
                             "say it with --layers") from None

    def _lines(self, table: str, axis: str) -> dict[str, dict[int, float]]:
        lines: dict[str, dict[int, float]] = {}
        for row in self._rows(table, ("layer", axis, "time_us")):
            lines.setdefault(row["layer"], {})[int(float(row[axis]))] = float(row["time_us"])
        return lines

    def _attention_table(self) -> AttentionTable:
        by_key = "prefill_key" in self._columns("attention")
        axes = [("prefill_key" if by_key else axis) if axis == "kv_prefill" else axis for axis in AXES]
        rows = {tuple(float(row[axis]) if axis == "prefill_key" else int(float(row[axis])) for axis in axes):
                float(row["time_us"]) for row in self._rows("attention", (*axes, "time_us"))
                if row.get("decode_q_len") in (None, "", "1")}  # other lengths: speculative decoding
        return AttentionTable(rows, by_key)

    def _columns(self, table: str) -> Sequence[str]:
        with self._path(table).open(encoding="utf-8", newline="") as lines:
            return csv.DictReader(lines).fieldnames or ()

    def _path(self, table: str) -> Path:
        paths = [self.folder / name for name in (f"prof_{table}.csv", f"{table}.csv")]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            raise ValueError(f"{self.folder} is no profile: it has no {paths[0].name}")
        return path

    def _rows(self, table: str, columns: Sequence[str]) -> list[dict[str, str]]:
        """The rows of a table with a value in every column that is needed; others are as if not there."""
        path = self._path(table)
        with path.open(encoding="utf-8", newline="") as lines:
            reader = csv.DictReader(lines)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TraceFormatError(f"{path}, line 1: no column {missing[0]}; it needs {','.join(columns)}")
            found = []
            for row in reader:
                try:
                    if all(row[name] for name in columns) and all(
                            float(row[name]) >= 0 for name in columns if name != "layer"):
                        found.append(row)
                except ValueError:
                    raise TraceFormatError(f"{path}, line {reader.line_num}: not a number of at least 0 in "
                                           f"{dict(row)}") from None
        if not found:
            raise TraceFormatError(f"{path} has no complete row")
        return found


def read_meta(folder: Path) -> dict[str, str]:
    """The plain `key: value` lines at the left margin of `prof_meta.yaml` (or `meta.yaml`); {} without one."""
    for name in ("prof_meta.yaml", "meta.yaml"):
        if (folder / name).is_file():
            lines = (folder / name).read_text(encoding="utf-8").splitlines()
            pairs = (re.fullmatch(r"(\w+): +(\S.*)", line) for line in lines)
            return {match[1]: match[2].strip("'\"") for match in pairs if match}
    return {}
