"""What the committed outputs hold, so that strict nbval compares something in every cell."""
from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

spec = importlib.util.spec_from_file_location("outputs", Path(__file__).with_name("outputs.py"))
outputs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(outputs)

each = pytest.mark.parametrize("path", outputs.notebooks(), ids=lambda path: f"{path.parent.name}/{path.stem}")
MOST_IGNORED = 0.05


@each
def test_outputs_are_complete_and_the_same_on_every_machine(path):
    assert outputs.problems(outputs.read(path)) == []


def test_few_outputs_are_ignored(capsys):
    """At most 5% of the cells of all notebooks; the table says how many are compared."""
    rows = []
    for path in outputs.notebooks():
        cells = [cell for _, cell in outputs.code_cells(outputs.read(path))]
        rows.append((f"{path.parent.name}/{path.stem}", len(cells), sum(map(outputs.is_ignored, cells))))
    cells, ignored = sum(row[1] for row in rows), sum(row[2] for row in rows)
    with capsys.disabled():
        print(f"\n{'notebook':<40} compared  ignored")
        for name, count, without in [*rows, ("all", cells, ignored)]:
            print(f"{name:<40} {count - without:>8} {without:>8}")
    assert ignored <= MOST_IGNORED * cells


def test_no_figure_is_lost(root):
    """The numbers are written down, so that one that vanishes from source and notebook alike is noticed."""
    expected = json.loads((root / "notebooks" / "pictures.json").read_text(encoding="utf-8"))
    present = {path.stem: outputs.pictures(outputs.read(path)) for path in outputs.notebooks()
               if path.parent.name == "notebooks"}
    changed = {name: f"{expected.get(name)} in notebooks/pictures.json, {found} in the notebook"
               for name, found in present.items() if expected.get(name) != found}
    assert changed == {}, "if this is meant, write the new numbers into notebooks/pictures.json"
    assert expected.keys() == present.keys(), "a notebook of notebooks/pictures.json is gone"


# ---- the rules themselves can fail

SENTENCE = "A bar of 3 blocks beside one of 5 blocks."


def figure(sentence: str = SENTENCE, **data: str):
    bundle = {"image/png": "AAAA", "text/plain": sentence, outputs.FIGURE: "[3,5]", **data}
    return new_output("display_data", {kind: value for kind, value in bundle.items() if value},
                      metadata={"image/png": {"alt": sentence}})


def notebook(source: str = "x", output=None, execution_count: int | None = 1):
    cell = new_code_cell(source, outputs=[output] if output else [], execution_count=execution_count)
    return new_notebook(cells=[cell])


@pytest.mark.parametrize("bad, complaint", [
    (notebook(execution_count=None), "was never run"),
    (notebook("import time\nprint(time.perf_counter())"), "reads a clock"),
    (notebook("%timeit 1 + 1"), "reads a clock"),
    (notebook(output=new_output("stream", text="<object at 0x7f0011223344>")), "an address"),
    (notebook(output=new_output("stream", text="DeprecationWarning: old")), "a warning"),
    (notebook(output=new_output("stream", text="at 14:03:22")), "a time of day"),
    (notebook(output=new_output("stream", text="saved to /tmp/x.json")), "a temporary path"),
    (notebook(output=new_output("error", ename="KeyError", evalue="3", traceback=[])), "ended in KeyError"),
    (notebook(output=figure(**{outputs.FIGURE: ""})), "a picture without data"),
    (notebook(output=figure("Three blocks beside one of them, and others too.")), "8 words and a number"),
    (notebook(output=figure("3 and 5 blocks")), "8 words and a number"),
    (notebook(output=figure(**{"image/svg+xml": "<svg/>"})), "SVG"),
    (notebook(output=figure(**{"application/vnd.jupyter.widget-view+json": "x"})), "a widget of one run"),
], ids=lambda value: value.replace(" ", "-") if isinstance(value, str) else "")
def test_a_rule_notices_what_it_is_for(bad, complaint):
    assert any(complaint in problem for problem in outputs.problems(bad)), outputs.problems(bad)


def test_good_outputs_have_no_problem():
    assert outputs.problems(notebook(output=figure())) == []
    assert outputs.problems(notebook(output=new_output("stream", text="took 12 steps, 0x1f is 31"))) == []


def test_an_alt_text_that_is_not_the_sentence_is_noticed():
    output = figure()
    output.metadata["image/png"]["alt"] = "image.png"
    assert any("alt text" in problem for problem in outputs.problems(notebook(output=output)))


@pytest.mark.parametrize("source, tags, ignored", [
    ("# NBVAL_IGNORE_OUTPUT\nx", [], True), ("x", ["nbval-skip"], True), ("x\n#NBVAL_SKIP", [], True),
    ("x  # NBVAL", ["extra"], False),
])
def test_an_ignored_cell_is_counted(source, tags, ignored):
    assert outputs.is_ignored(new_code_cell(source, metadata={"tags": tags})) is ignored


def test_pictures_are_counted_by_kind():
    explorer = figure(**{outputs.FIGURE: '{"settings":{"size":3}}'})
    film = figure(**{outputs.FIGURE: "", outputs.FILM: "{}"})
    cells = [new_code_cell("x", outputs=[figure(), explorer, new_output("stream", text="3")], execution_count=1),
             new_code_cell("y", outputs=[film, figure()], execution_count=2)]
    assert outputs.pictures(new_notebook(cells=cells)) == {"explorer": 1, "figure": 2, "film": 1}
