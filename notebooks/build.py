"""Build the notebooks from their sources: run them, and write the same bytes every time.

    python notebooks/build.py                  all of them (`make notebooks`)
    python notebooks/build.py 00_start_here    one
    python notebooks/build.py --check          run nothing: which is stale, which breaks a rule

A source is a Python file in the percent form, notebooks/source/NN_name.py: `# %%` starts a code cell and
`# %% [markdown]` a text cell whose lines start with `# `; `tags=["..."]` may follow. A learner opens the
notebook, an author edits the source. The notebook is a function of the source and of what its cells print:
cell ids come from the cells' text, and times, versions and widget state are left out.

A number in a text cell is written `{{share:.1%}}` and filled in from the run (minipaged.lesson.prose), `{{colab}}`
becomes a link, and an empty code cell with the tag "install" becomes the one that fetches the course on Colab.

Rules, checked on every build: no code cell ends in `;` (it hides output in Jupyter but not from nbval), no
cell writes to stderr, every figure has a sentence beside it (minipaged.viz.show), no path of this machine.
"""
from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import re
import sys
import tempfile
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from minipaged.lesson import prose

HERE = Path(__file__).resolve().parent
MIN_WORDS = 8
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python",
                      "pygments_lexer": "ipython3"},
}
INSTALL = '''\
# Only where minipaged is missing, as on Colab: fetch the course and put it beside the packages that are there.
import importlib.util, os, subprocess, sys

if importlib.util.find_spec("minipaged") is None:
    REPOSITORY = os.environ.get("MINIPAGED_REPOSITORY", "{repository}")
    if "/OWNER/" in REPOSITORY:
        raise SystemExit("Set REPOSITORY to the address of your copy of the course, then run this cell again.")
    missing = [name for name in ("anywidget", "safetensors", "tokenizers") if importlib.util.find_spec(name) is None]
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", *missing], check=True) if missing else None
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", f"git+{{REPOSITORY}}"], check=True)
    importlib.invalidate_caches()'''
_MARKER = re.compile(r"^# %%(?P<rest>.*)$")
_HEADER = re.compile(r"^\s*(?P<markdown>\[markdown\])?\s*(?:tags=(?P<tags>\[.*?\]))?\s*"
                     r"(?:nbgrader=(?P<nbgrader>\{.*\}))?\s*$")


class SourceError(ValueError):
    """A source that cannot be read as cells; the message names the file and the line."""


def read_source(path: Path) -> NotebookNode:
    """The source as a notebook without outputs. Errors: SourceError."""
    cells: list[tuple[bool, dict, list[str]]] = []  # markdown?, metadata, lines
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if marker := _MARKER.match(line):
            header = _HEADER.match(marker["rest"])
            if header is None:
                raise SourceError(f"{path.name}:{number}: {line!r} is no cell marker; write `# %%` or "
                                  '`# %% [markdown]`, with tags=["..."] after it if need be')
            metadata = {name: json.loads(header[name]) for name in ("tags", "nbgrader") if header[name]}
            cells.append((bool(header["markdown"]), metadata, []))
        elif cells:
            cells[-1][2].append(line)
        elif line.strip():
            raise SourceError(f"{path.name}:{number}: text before the first `# %%`")

    seen: Counter[str] = Counter()
    notebook = new_notebook(metadata=METADATA)
    for markdown, metadata, lines in cells:
        if markdown:
            lines = [_uncomment(line, path) for line in lines]
        source = "\n".join(lines).strip("\n")
        make = new_markdown_cell if markdown else new_code_cell
        name = metadata.get("nbgrader", {}).get("grade_id") or _cell_id(source, seen)
        notebook.cells.append(make(source, id=name, metadata=metadata))
    return notebook


def _uncomment(line: str, path: Path) -> str:
    if line.strip() and not line.startswith("#"):
        raise SourceError(f"{path.name}: {line!r} stands in a text cell; its lines start with `# `")
    return line[2:] if line.startswith("# ") else line[1:]


def _cell_id(source: str, seen: Counter[str]) -> str:
    """From the text and how often it came before: a new cell leaves the ids of the others as they are."""
    seen[source] += 1
    return hashlib.sha256(f"{seen[source]}\n{source}".encode()).hexdigest()[:12]


def complete(notebook: NotebookNode, name: str) -> list[str]:
    """Add to what the author wrote what every chapter has; returns the placeholders of its text, in order.

    Errors: prose.ProseError for a placeholder that no f-string can hold.
    """
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        if {"install", "hidden"} & set(cell.metadata.get("tags", [])):
            cell.metadata["jupyter"] = {"source_hidden": True}
        if cell.cell_type == "markdown":
            cell.source = cell.source.replace("{{colab}}", f"[Open in Colab]({_colab(name)})")
        elif "install" in cell.metadata.get("tags", []):
            cell.source = INSTALL.format(repository=_repository())
    contents = prose.placeholders(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    if contents:
        source = prose.numbers_cell(contents)
        hidden = {"tags": [prose.NUMBERS_TAG], "jupyter": {"source_hidden": True, "outputs_hidden": True}}
        notebook.cells.append(new_code_cell(source, id=_cell_id(source, seen), metadata=hidden))
    return contents


def _repository() -> str:
    with (HERE.parent / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)["project"]["urls"]["Repository"]


def _colab(name: str) -> str:
    return f"{_repository().replace('github.com', 'colab.research.google.com/github')}/blob/main/notebooks/{name}.ipynb"


def fill(notebook: NotebookNode, contents: list[str], ran: NotebookNode) -> None:
    """Put the numbers that the last cell of `ran` printed into the text. Errors: prose.ProseError."""
    if contents:
        outputs = ran.cells[-1].get("outputs", []) if ran.cells else []
        values = prose.read_numbers("".join(output.get("text", "") for output in outputs), contents)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = prose.fill(cell.source, values)


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Run the notebook in a fresh kernel that stands in `folder`. Errors: nbclient's CellExecutionError."""
    from nbclient import NotebookClient

    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
    environment.pop("MPLBACKEND", None)  # the kernel sets its own
    # not the author's own predictions
    environment["MINIPAGED_PROGRESS"] = os.path.join(tempfile.gettempdir(), "minipaged-no-progress", "")
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", store_widget_state=False,
                            coalesce_streams=True, record_timing=False,
                            resources={"metadata": {"path": str(folder)}})
    client.execute(env=environment)


def normalise(notebook: NotebookNode) -> None:
    """Leave out what a second run would not repeat."""
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        kept = {key: cell.metadata[key] for key in ("tags", "jupyter") if cell.metadata.get(key)}
        cell.metadata = nbformat.from_dict(kept)
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            data.pop("application/vnd.jupyter.widget-view+json", None)  # names a model of this run
            data.pop("text/html", None)  # a film's player: the same in every film, and its data are kept


def problems(notebook: NotebookNode) -> list[str]:
    """What breaks a rule, one line each, naming the cell by its number from 1."""
    found = []
    if "widgets" in notebook.metadata:
        found.append("metadata.widgets: stored widget state makes the notebook invalid on some viewers")
    ids = Counter(cell.get("id") for cell in notebook.cells)
    found += [f"cell id {name!r} is used {count} times" for name, count in ids.items() if count > 1]
    for number, cell in enumerate(notebook.cells, 1):
        if cell.cell_type != "code":
            continue
        if _ends_in_semicolon(cell.source):
            found.append(f"cell {number} ends in `;`: nbval shows what Jupyter hides")
        for output in cell.outputs:
            found += [f"cell {number} {what}" for what in _output_problems(output)]
    return found


def _output_problems(output: NotebookNode) -> list[str]:
    found = []
    if output.get("name") == "stderr":
        found.append(f"writes to stderr: {output.text.strip().splitlines()[-1][:100]}")
    data = output.get("data", {})
    if any(kind.startswith("image/") for kind in data):
        sentence = "".join(data.get("text/plain", ""))
        if sentence.startswith("<") or len(sentence.split()) < MIN_WORDS:
            found.append(f"shows a figure whose text is {sentence[:60]!r}; use show(fig, alt), {MIN_WORDS} words "
                         "or more")
    text = json.dumps({kind: value for kind, value in output.items() if kind != "metadata"}, ensure_ascii=False)
    for path in (str(HERE.parent), str(Path.home())):
        if len(path) > 1 and re.search(re.escape(path) + r"(?![\w-])", text):
            found.append(f"prints a path of this machine ({path})")
    return found


def _ends_in_semicolon(source: str) -> bool:
    silent = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    try:
        tokens = [token.string for token in tokenize.generate_tokens(io.StringIO(source).readline)
                  if token.type not in silent]
    except (tokenize.TokenError, SyntaxError):  # a cell with shell or magic lines
        return source.rstrip().endswith(";")
    return bool(tokens) and tokens[-1] == ";"


def stale(source: NotebookNode, notebook: NotebookNode) -> list[str]:
    """How the notebook differs from its source, apart from outputs: one line, or none if it does not."""
    def essence(cell: NotebookNode) -> tuple:
        return cell.cell_type, cell.source, cell.get("id"), list(cell.metadata.get("tags", []))

    wanted, present = [essence(cell) for cell in source.cells], [essence(cell) for cell in notebook.cells]
    if wanted == present:
        not_run = [number for number, cell in enumerate(notebook.cells, 1)
                   if cell.cell_type == "code" and cell.source and not cell.execution_count]
        return [f"cell {not_run[0]} was never run"] if not_run else []
    first = next((number for number, (a, b) in enumerate(zip(wanted, present), 1) if a != b),
                 min(len(wanted), len(present)) + 1)
    return [f"stale: cell {first} differs from the source ({len(wanted)} cells there, {len(present)} here)"]


def to_text(notebook: NotebookNode) -> str:
    """The bytes to write. Errors: nbformat's ValidationError."""
    nbformat.validate(notebook)
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def build(source: Path, target: Path) -> list[str]:
    """Run `source` and write `target`; what breaks a rule is returned, and then nothing is written."""
    notebook = read_source(source)
    contents = complete(notebook, source.stem)
    if found := problems(notebook):
        return found
    execute(notebook, target.parent)
    fill(notebook, contents, notebook)
    normalise(notebook)
    if found := problems(notebook):
        return found
    target.write_text(to_text(notebook), encoding="utf-8", newline="\n")
    return []


def check(source: Path, target: Path) -> list[str]:
    """Is `target` what `source` says, and does it keep the rules? Runs nothing."""
    if not target.exists():
        return ["not built yet"]
    notebook, wanted = nbformat.read(target, as_version=4), read_source(source)
    contents = complete(wanted, source.stem)
    try:
        fill(wanted, contents, notebook)
    except prose.ProseError as missing:
        return [f"stale: {missing}", *problems(notebook)]
    return stale(wanted, notebook) + problems(notebook)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python notebooks/build.py",
                                     description="Build the notebooks from their sources, or check them.",
                                     epilog="example: python notebooks/build.py --check 03_blocks")
    parser.add_argument("names", nargs="*", help="which ones, such as 00_start_here; all if none is named")
    parser.add_argument("--check", action="store_true", help="run nothing; say what is stale or breaks a rule")
    parser.add_argument("--source", type=Path, default=HERE / "source", help="folder of the sources")
    parser.add_argument("--out", type=Path, default=HERE, help="folder of the notebooks")
    args = parser.parse_args(argv)

    sources = {path.stem: path for path in sorted(args.source.glob("*.py"))}
    if unknown := [name for name in args.names if name not in sources]:
        parser.error(f"no source {unknown[0]!r} in {args.source}; there are: {', '.join(sources) or 'none'}")
    failed = False
    for name in args.names or sources:
        try:
            found = (check if args.check else build)(sources[name], args.out / f"{name}.ipynb")
        except Exception as error:  # a cell that fails: say which notebook, go on with the others
            found = [f"{type(error).__name__}: {error}"]
        failed = failed or bool(found)
        for line in found or ["up to date" if args.check else "built"]:
            print(f"{name}: {line}", file=sys.stderr if found else sys.stdout)
    if args.check and not args.names:
        for orphan in sorted(path.stem for path in args.out.glob("*.ipynb") if path.stem not in sources):
            print(f"{orphan}: a notebook without a source", file=sys.stderr)
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
