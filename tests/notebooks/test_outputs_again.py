"""Notebooks run again: strict nbval passes as often as one likes, and turns red when an output is not what comes."""
from __future__ import annotations

import copy
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

HERE = Path(__file__).parent


def load(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


outputs = load("outputs", HERE / "outputs.py")
builder = load("notebook_builder", HERE.parents[1] / "notebooks" / "build.py")

SMALL = '''\
# %% [markdown]
# # A small chapter: 块表

# %%
import random
from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog

events = EventLog()
scheduler = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=events), events=events)
scheduler.add_request(Request("A", [1, 2, 3, 4, 5], SamplingParams(max_tokens=6)))
while scheduler.has_unfinished:
    scheduler.step(lambda plan: {item.request_id: 7 for item in plan.scheduled if item.sample})

# %%
print(len(events), "events; é, 块")

# %%
from matplotlib.figure import Figure
from minipaged.viz.show import show

free = [event.free_blocks for event in events.select("step")]
figure = Figure(figsize=(3, 1))
figure.subplots().plot(free)
show(figure, f"Free blocks over {len(free)} steps: {free[0]} at first, {free[-1]} at last.", free)

# %%
show(figure, f"Once more the free blocks over {len(free)} steps, as a line.", free)

# %%
from minipaged.viz.widgets import batching_explorer
batching_explorer()

# %%
from minipaged.viz import Film
Film(events)

# %%
random.Random(3).randrange(100)
'''


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    """A notebook with each kind of output, built as a chapter is, in a folder whose name has a space."""
    folder = tmp_path_factory.mktemp("a chapter with spaces")
    source = folder / "small.py"
    source.write_text(SMALL, encoding="utf-8")
    assert builder.build(source, folder / "small.ipynb") == []
    shutil.copy(HERE.parents[1] / "notebooks" / "conftest.py", folder)
    return folder / "small.ipynb"


def failing_cells(path: Path) -> list[int]:
    """Run strict nbval; the numbers of the code cells that fail, from 0."""
    done = subprocess.run([sys.executable, "-P", "-m", "pytest", "--nbval", "--nbval-current-env", "-q", "--tb=no",
                           "-rfE", "-p", "no:cacheprovider", path.name], cwd=path.parent, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, encoding="utf-8", errors="replace")
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert re.search(r"\d+ (passed|failed)", done.stdout), done.stdout
    return sorted(int(number) for number in re.findall(r"^FAILED .*::Cell (\d+)", done.stdout, re.MULTILINE))


def test_strict_nbval_passes_twice(small):
    assert [failing_cells(small), failing_cells(small)] == [[], []]
    assert outputs.problems(outputs.read(small)) == []
    assert outputs.pictures(outputs.read(small)) == {"explorer": 1, "figure": 2, "film": 1}


def test_each_wrong_output_turns_red(small):
    """A printed number, a figure's data, a figure that is gone, an explorer's number, a film's data."""
    notebook = outputs.read(small)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    printed, data, gone, explorer, film = (cell.outputs[0] for cell in code[1:6])
    printed.text = re.sub(r"\d+", "1", printed.text)
    data.data[outputs.FIGURE] = data.data[outputs.FIGURE].replace("[", "[9,")
    assert gone.data["image/png"]
    code[3].outputs = []
    explorer.data[outputs.FIGURE] = explorer.data[outputs.FIGURE].replace('"seats":4', '"seats":5')
    film.data[outputs.FILM] = json.loads(json.dumps(film.data[outputs.FILM]).replace("4", "3", 1))
    edited = small.with_name("edited.ipynb")
    nbformat.write(notebook, edited)
    assert failing_cells(edited) == [1, 2, 3, 4, 5]


def essence(cell) -> list:
    """The outputs of a cell as strict nbval compares them: no pixels, no players, no ids of widgets."""
    return [output.get("text") or {kind: value for kind, value in output.get("data", {}).items() if kind not in (
                "image/png", "text/html", "application/vnd.jupyter.widget-view+json")}
            for output in cell.outputs]


def run_twice(path: Path, folder: Path) -> None:
    """All cells, and all cells again in the same kernel: both times what is written."""
    committed = [cell for cell in outputs.read(path).cells if cell.cell_type == "code"]
    notebook = outputs.read(path)
    notebook.cells = copy.deepcopy(committed) + copy.deepcopy(committed)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.outputs = f"cell-{number}", []
    builder.execute(notebook, folder)
    for number, cell in enumerate(notebook.cells):
        again, wanted = divmod(number, len(committed))
        assert essence(cell) == essence(committed[wanted]), f"cell {wanted + 1}, run {again + 1}:\n{cell.source}"


def hostile(monkeypatch) -> None:
    """Warnings are errors, the console is a western Windows one, and no file is UTF-8 unless one says so."""
    for name, value in {"PYTHONWARNINGS": "error", "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0", "LC_ALL": "C",
                        "PYTHONCOERCECLOCALE": "0"}.items():
        monkeypatch.setenv(name, value)


def test_run_all_twice_with_warnings_as_errors_in_a_path_with_spaces_on_a_cp1252_console(small, monkeypatch):
    hostile(monkeypatch)
    assert " " in str(small.parent)
    run_twice(small, small.parent)


def test_the_hostile_settings_reach_the_kernel(monkeypatch, tmp_path):
    hostile(monkeypatch)
    source = tmp_path / "warns.py"
    source.write_text("# %%\nimport locale, warnings\nprint(locale.getpreferredencoding(False))\n\n"
                      "# %%\nwarnings.warn('old')\n", encoding="utf-8")
    notebook = builder.read_source(source)
    with pytest.raises(Exception, match="UserWarning"):
        builder.execute(notebook, tmp_path)
    assert "UTF-8" not in notebook.cells[0].outputs[0].text.upper()


@pytest.mark.full
@pytest.mark.parametrize("path", outputs.notebooks(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_notebook_runs_twice_anywhere(path, monkeypatch, tmp_path):
    hostile(monkeypatch)
    folder = tmp_path / "a folder"
    folder.mkdir()
    run_twice(path, folder)
