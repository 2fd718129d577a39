"""An event log as columns of small numbers, which a browser reads quickly (minipaged/viz/film/data.js decodes it).

    {"order": "abcc...", "kinds": ["pool", ...], "steps": [-1, 2, 0, 31, ...], "strings": ["A", ...],
     "columns": {"allocate": {"block": ["i", [0, 1, ...]], "request": ["s", [0, 0, ...]], ...}, ...}}

`order` has one letter an event (a: the first of `kinds`), `steps` are pairs of a step and its number of events. A
column holds one field of all events of a kind: i numbers, b truth (0, 1), s strings (numbers into `strings`),
l lists of strings, d and p dictionaries with a number and with a pair of numbers for each name, laid flat.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from minipaged.core.events import KINDS, Event


def encode(events: Sequence[Event]) -> dict:
    """The events as columns; nothing is lost. Errors: ValueError for a log that does not begin with its only pool."""
    if not events or events[0].kind != "pool":
        begins = f"begins with {events[0].kind!r}" if events else "is empty"
        raise ValueError(f"the log {begins}; it must begin with 'pool' to know the blocks")
    pools = sum(event.kind == "pool" for event in events)
    if pools > 1:
        raise ValueError(f"the log has {pools} pools; a film shows one engine: give each engine an EventLog of its own")
    kinds = [kind for kind in KINDS if any(event.kind == kind for event in events)]
    letter = {kind: chr(ord("a") + index) for index, kind in enumerate(kinds)}
    strings: dict[str, int] = {}
    rows = {kind: [event.data for event in events if event.kind == kind] for kind in kinds}
    columns = {kind: {field: _column([row[field] for row in rows[kind]], strings) for field in rows[kind][0]}
               for kind in kinds}
    steps = [number for step, group in groupby(events, key=lambda event: event.step)
             for number in (step, sum(1 for _ in group))]
    return {"order": "".join(letter[event.kind] for event in events), "kinds": kinds, "steps": steps,
            "strings": list(strings), "columns": columns}


def _column(values: list, strings: dict[str, int]) -> list:
    def number(text: str | None) -> int | None:
        return None if text is None else strings.setdefault(text, len(strings))

    some = next((value for value in values if value is not None and value != {}), None)
    if isinstance(some, bool):
        return ["b", [int(value) for value in values]]
    if isinstance(some, str):
        return ["s", [number(value) for value in values]]
    if isinstance(some, dict):
        pair = isinstance(next(iter(some.values())), Sequence)
        return ["p" if pair else "d", [_flat(value, pair, number) for value in values]]
    if isinstance(some, (list, tuple)):
        return ["l", [[number(text) for text in value] for value in values]]
    if values and values[0] == {}:
        return ["d", [[] for _ in values]]
    return ["i", values]


def _flat(entries: dict, pair: bool, number) -> list[int]:
    items: Iterable = ([number(name), *value] if pair else [number(name), value] for name, value in entries.items())
    return [value for item in items for value in item]
