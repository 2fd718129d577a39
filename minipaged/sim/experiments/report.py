"""The table of an experiment: published beside ours, with sources and reasons."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: Kwon et al., the source of most rows
PAPER = 'Kwon et al., "Efficient Memory Management for LLM Serving with PagedAttention", SOSP 2023'


@dataclass(frozen=True)
class Report:
    """`rows`: one dict a row, keys in the order of the columns; None prints as "-"."""

    name: str
    title: str
    source: str
    rows: Sequence[dict]
    reasons: Sequence[str]

    def text(self) -> str:
        """The table, its source, and why the numbers differ."""
        columns = list(dict.fromkeys(name for row in self.rows for name in row))
        cells = [[_show(row.get(name)) for name in columns] for row in self.rows]
        widths = [max(len(name), *(len(row[at]) for row in cells)) for at, name in enumerate(columns)]
        number = [all(row.get(name) is None or isinstance(row.get(name), (int, float)) for row in self.rows)
                  for name in columns]

        def line(parts: Sequence[str]) -> str:
            return "  ".join(part.rjust(width) if right else part.ljust(width)
                             for part, width, right in zip(parts, widths, number)).rstrip()

        lines = [self.title, "", line(columns), line(["-" * width for width in widths]), *map(line, cells), "",
                 f"Published: {self.source}.", *(f"- {reason}" for reason in self.reasons)]
        return "\n".join(lines)

    def to_dict(self) -> dict:
        return {"experiment": self.name, "title": self.title, "source": self.source, "rows": list(self.rows),
                "reasons": list(self.reasons)}


def _show(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) and abs(value) < 1000 else (
        f"{value:,.0f}" if isinstance(value, float) else str(value))
