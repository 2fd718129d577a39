"""A grid of scenarios through joblib, on this machine or a cluster; a tidy CSV that resumes (chapter 14).

The CSV has a row a run: all options, then all numbers, so it says itself how it was made. Rows are added as
they are ready and put in the grid's order at the end; a run that is in the file already is not run again.
`joblib.parallel_config` decides where: "loky" here, "dask" or "ray" on a cluster.
"""
from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path

from minipaged.sim.scenario import Scenario

OPTIONS = [one.name for one in fields(Scenario)]


def grid(base: Scenario, varied: dict[str, Sequence[object]]) -> list[Scenario]:
    """Every combination, the last option varying fastest."""
    return [replace(base, **dict(zip(varied, values))) for values in product(*varied.values())]


def parse_vary(text: str) -> tuple[str, list[object]]:
    """"block_size=8,16,32" -> ("block_size", [8, 16, 32]); values with commas are separated by "|"."""
    name, equals, values = text.partition("=")
    name = name.strip().replace("-", "_")
    known = {one.name: one.metadata for one in fields(Scenario)}
    if name not in known or not equals:
        raise ValueError(f"--vary {text!r}: it must be OPTION=VALUE,VALUE with an option of simulate: "
                         f"{', '.join(known)}")
    kind, choices = known[name]["kind"], known[name]["choices"]
    separator = "|" if "|" in values or name in ("trace", "profile") else ","
    found = []
    for value in (part.strip() for part in values.split(separator)):
        try:
            found.append({"on": True, "off": False, "true": True, "false": False}[value.lower()] if kind is bool
                         else kind(value))
        except (ValueError, KeyError):
            raise ValueError(f"--vary {text!r}: {value!r} is not {'on or off' if kind is bool else kind.__name__}") \
                from None
        if choices and value not in choices:
            raise ValueError(f"--vary {text!r}: {value!r} is none of {', '.join(choices)}")
    return name, found


def run_sweep(scenarios: Sequence[Scenario], path: str | Path, *, jobs: int = 1, backend: str | None = None,
              progress: Callable[[int], None] | None = None) -> list[dict]:
    """Run what the CSV lacks and return all rows as text. `backend`: a name that joblib knows, or None for
    whatever is configured. Raises ValueError for a file that is no sweep."""
    import joblib

    path = Path(path)
    known = {_key(row): row for row in read_rows(path)}
    todo = [one for one in dict.fromkeys(scenarios) if _key(_as_text(_options(one))) not in known]
    if progress is not None:
        progress(len(scenarios) - len(todo))
    ready = len(scenarios) - len(todo)
    where = joblib.parallel_config(backend, n_jobs=jobs) if backend else joblib.parallel_config(n_jobs=jobs)
    with where:
        results = joblib.Parallel(return_as="generator_unordered")(joblib.delayed(_run)(one) for one in todo)
        for row in results:
            row = _as_text(row)
            known[_key(row)] = row
            _append(path, row)
            ready += 1
            if progress is not None:
                progress(ready)
    rows = [known[_key(_as_text(_options(one)))] for one in dict.fromkeys(scenarios)]
    path.write_text(_text(rows), encoding="utf-8", newline="")
    return rows


def read_rows(path: Path) -> Iterator[dict]:
    """The complete rows of a sweep's CSV; none when there is no file. A torn last line is left out."""
    if not path.is_file():
        return
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if not set(OPTIONS) <= set(reader.fieldnames or ()):
            raise ValueError(f"{path} is not the CSV of a sweep with these options; name another --out")
        for row in reader:
            if None not in row and None not in row.values():
                yield row


def _run(scenario: Scenario) -> dict:
    return scenario.row()


def _options(scenario: Scenario) -> dict:
    return {name: getattr(scenario, name) for name in OPTIONS}


def _as_text(row: dict) -> dict:
    """As CSV has it: None is empty, numbers as Python writes them (and reads them back, to the last bit)."""
    return {name: "" if value is None else str(value) for name, value in row.items()}


def _key(row: dict) -> tuple:
    return tuple(row[name] for name in OPTIONS)


def _append(path: Path, row: dict) -> None:
    """Add one row. A file whose columns do not hold it (all before it failed) is written anew."""
    old = list(read_rows(path))
    if old and set(row) <= set(old[0]) and path.read_text(encoding="utf-8").endswith("\n"):
        line = io.StringIO()
        csv.DictWriter(line, list(old[0]), restval="", lineterminator="\n").writerow(row)
        with path.open("a", encoding="utf-8", newline="") as file:
            file.write(line.getvalue())
    else:
        path.write_text(_text([*old, row]), encoding="utf-8", newline="")


def _text(rows: Sequence[dict]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()
