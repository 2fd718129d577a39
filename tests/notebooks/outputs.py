"""What the tests of outputs share: the notebooks with outputs, and what each output shows."""
from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parents[2]
FIGURE, FILM = "application/vnd.minipaged.figure+json", "application/vnd.minipaged.film+json"
LONG_FILM = "application/vnd.minipaged.film-digest+json"
#: what makes nbval compare nothing, as a comment in a cell or as its tag
IGNORED = re.compile(r"^# *(NBVAL_IGNORE_OUTPUT|NBVAL_SKIP|NBVAL_RAISES_EXCEPTION|PYTEST_VALIDATE_IGNORE_OUTPUT)\b",
                     re.MULTILINE)
IGNORED_TAGS = {"nbval-ignore-output", "nbval-skip", "nbval-raises-exception", "raises-exception"}
#: what no two runs, or no two machines, print alike
CHANGES = {
    "an address": re.compile(r"\b0x[0-9a-fA-F]{6,}"),
    "a warning": re.compile(r"\b\w*Warning\b:"),
    "a time of day": re.compile(r"\b\d{1,2}:\d{2}:\d{2}\b"),
    "a date with a time": re.compile(r"\b\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}"),
    "a temporary path": re.compile(r"/tmp/|/var/folders/|\\Temp\\"),
    "a traceback": re.compile(r"Traceback \(most recent call last\)"),
}
CLOCK = re.compile(r"\b(?:time\.(?:time|perf_counter|monotonic|process_time)|datetime\.(?:now|today)|perf_counter)\("
                   r"|^\s*%+time", re.MULTILINE)


def notebooks() -> list[Path]:
    """Every notebook that is committed with its outputs: chapters and solutions."""
    return sorted([*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "solutions").glob("*.ipynb")])


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: NotebookNode) -> list[tuple[int, NotebookNode]]:
    """(number from 1, cell) of the code cells that hold code."""
    return [(number, cell) for number, cell in enumerate(notebook.cells, 1)
            if cell.cell_type == "code" and cell.source.strip()]


def is_ignored(cell: NotebookNode) -> bool:
    return bool(IGNORED.search(cell.source) or IGNORED_TAGS & set(cell.metadata.get("tags", [])))


def kind_of(data: dict) -> str | None:
    """"figure", "explorer" or "film" for an output with a picture; None for another."""
    if FILM in data or LONG_FILM in data:
        return "film"
    if FIGURE in data:
        return "explorer" if data[FIGURE].startswith('{"settings":') else "figure"
    return "bare picture" if any(kind.startswith("image/") for kind in data) else None


def pictures(notebook: NotebookNode) -> dict[str, int]:
    """How many figures, explorers and films the outputs hold, in the order of the alphabet."""
    found = Counter(kind_of(output.get("data", {})) for _, cell in code_cells(notebook) for output in cell.outputs)
    return {kind: found[kind] for kind in sorted(filter(None, found))}


def problems(notebook: NotebookNode) -> list[str]:
    """What strict nbval would not notice, or would fail on elsewhere; one line each."""
    found = []
    for number, cell in code_cells(notebook):
        if not cell.execution_count:
            found.append(f"cell {number} was never run: nbval would skip it")
        if CLOCK.search(cell.source):
            found.append(f"cell {number} reads a clock: {CLOCK.search(cell.source).group().strip()}")
        for output in cell.outputs:
            found += [f"cell {number} {what}" for what in _output_problems(output)]
    return found


def _output_problems(output: NotebookNode) -> list[str]:
    data = output.get("data", {})
    words = "".join(output.get("text", "")) + "".join(
        "".join(data[kind]) for kind in ("text/plain", "text/markdown", "text/html") if kind in data)
    found = [f"prints {what}: {match.group()!r}" for what, pattern in CHANGES.items()
             if (match := pattern.search(words))]
    if output.output_type == "error":
        found.append(f"ended in {output.ename}")
    kind = kind_of(data)
    if kind == "bare picture":
        found.append("shows a picture without data: nbval does not compare pixels; use show(picture) with data")
    if "image/png" in data:
        sentence = data.get("text/plain", "")
        if len(sentence.split()) < 8 or not re.search(r"\d", sentence):
            found.append(f"shows a {kind} whose sentence is {sentence[:60]!r}: 8 words and a number are needed")
        if output.metadata.get("image/png", {}).get("alt") != sentence:
            found.append(f"shows a {kind} whose alt text is not its sentence")
    if "image/svg+xml" in data:
        found.append("shows SVG, which GitHub does not draw")
    if "application/vnd.jupyter.widget-view+json" in data:
        found.append("names a widget of one run")
    if "text/html" in data:
        found.append("shows HTML, which nbval does not compare here; build.py leaves a film's player out")
    return found
