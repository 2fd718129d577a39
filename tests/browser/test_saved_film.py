"""A notebook run, saved and opened again without its kernel: films play, and where no script may, stills stay."""
from __future__ import annotations

import json
import subprocess
import sys
from html import unescape
from pathlib import Path

import nbformat
import pytest

from minipaged.core import KVCacheManager
from minipaged.core.events import EventLog
from minipaged.viz import Film

FILM, STILL = ".mp-film", ".jp-OutputArea-output figure img"
CELLS = ["""
from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core import KVCacheManager
from minipaged.core.events import EventLog
from minipaged.viz import Film

events = EventLog()
scheduler = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=events), events=events)
for name, prompt in {"A": [1, 2, 3, 4, 5], "B": [1, 2, 3, 4, 5, 6], "C": [7] * 9, "D": [8] * 5}.items():
    scheduler.add_request(Request(name, prompt, SamplingParams(max_tokens=8)))
while scheduler.has_unfinished:
    scheduler.step(lambda plan: {item.request_id: 7 for item in plan.scheduled if item.sample})""", """
Film(events)""", """
from matplotlib.figure import Figure
from minipaged.viz.show import show

free = [event.free_blocks for event in events.select("step")]
figure = Figure(figsize=(3, 1))
figure.subplots().plot(free)
show(figure, f"Free blocks over {len(free)} steps: {free[0]} at first, {free[-1]} at last.", free)""", """
from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab import check

class BlockAllocator:
    def __init__(self, num_blocks):
        self.blocks = list(range(num_blocks))

    @property
    def free_count(self):
        return len(self.blocks)

    def allocate(self):
        if not self.blocks:
            raise OutOfBlocks("none is free")
        return self.blocks[0]

    def free(self, block):
        self.blocks.append(block)

check("blocks.allocator")"""]


@pytest.fixture(scope="module")
def notebook(tmp_path_factory) -> Path:
    """A film, a figure, and a check that fails with a film of its own; not run yet."""
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in CELLS],
                                    metadata={"kernelspec": {"display_name": "Python 3", "name": "python3"}})
    path = tmp_path_factory.mktemp("saved") / "saved.ipynb"
    nbformat.write(made, path)
    return path


@pytest.fixture(scope="module")
def ran(notebook, tmp_path_factory) -> Path:
    """The notebook as it is after a run, by nbconvert: nobody has told JupyterLab to trust it."""
    folder = tmp_path_factory.mktemp("ran")
    convert("notebook", "--execute", "--output-dir", str(folder), str(notebook))
    return folder / "saved.ipynb"


def convert(form: str, *options: str) -> None:
    subprocess.run([sys.executable, "-m", "nbconvert", "--to", form, *options], check=True, capture_output=True)


def sentences(path: Path) -> list[str]:
    """Of the outputs that have a picture."""
    outputs = [output for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] for output in cell["outputs"]]
    return ["".join(output["data"]["text/plain"]) for output in outputs if "image/png" in output.get("data", {})]


def assert_plays(page, film) -> None:
    film.scroll_into_view_if_needed()
    film.focus()
    page.keyboard.press("End")
    assert int(film.get_attribute("data-position")) > 50
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert film.get_attribute("data-position") == "1"


def test_a_saved_film_plays_when_its_kernel_is_gone(open_notebook, jupyter, notebook, axe, shots):
    lab = open_notebook(notebook)
    page = lab.page
    lab.run_all()
    page.locator(FILM).nth(1).wait_for()
    lab.save()
    page.wait_for_function("() => !jupyterapp.shell.currentWidget.context.model.dirty")
    path = jupyter.folder / lab.path
    assert len(sentences(path)) == 3 and "widget-view" not in path.read_text(encoding="utf-8")

    page.evaluate("() => jupyterapp.shell.currentWidget.context.sessionContext.shutdown()")
    page.reload()
    page.locator(FILM).nth(1).wait_for()
    lab.wait_for_kernel()  # a new one, which has run nothing
    assert page.locator(FILM).count() == 2 and page.locator(STILL).count() == 0
    assert "not found" not in page.locator(".jp-Notebook").inner_text()
    assert_plays(page, page.locator(FILM).first)
    axe(page, FILM)
    page.screenshot(path=shots / "saved_film.png")


def test_a_notebook_that_is_not_trusted_shows_the_still_and_the_sentence(open_notebook, ran, shots):
    lab = open_notebook(ran, kernel=False)
    page = lab.page
    page.locator(STILL).nth(1).wait_for()
    assert page.locator(FILM).count() == 0 and page.locator(STILL).count() == 2
    text = page.locator(".jp-Notebook").inner_text()
    film, _, check = sentences(ran)
    assert film in text and check in text
    assert page.locator(STILL).first.evaluate("image => image.naturalWidth") > 300
    page.screenshot(path=shots / "untrusted_film.png")


def test_a_page_of_nbconvert_plays_and_without_scripts_shows_pictures_and_sentences(ran, visit, tmp_path):
    convert("html", "--output-dir", str(tmp_path), str(ran))
    page_text = unescape((tmp_path / "saved.html").read_text(encoding="utf-8"))
    assert all(sentence in page_text for sentence in sentences(ran))
    still = visit((tmp_path / "saved.html").as_uri(), java_script_enabled=False)
    images = still.locator(".jp-OutputArea-output img")
    assert images.count() == 3
    assert [images.nth(number).evaluate("image => image.naturalWidth > 100") for number in range(3)] == [True] * 3
    assert sentences(ran)[0] in still.locator("body").inner_text()


def test_a_film_in_an_output_that_is_gone_stops(visit, tmp_path):
    """A cell that is run again takes its output away: nothing of the old film goes on."""
    events = EventLog()
    KVCacheManager(8, 4, events=events)
    path = tmp_path / "film.html"
    path.write_text(f"<!doctype html><html lang=en><title>t</title><div>{Film(events).output()}</div>",
                    encoding="utf-8")
    page = visit(path.as_uri())
    page.locator(FILM).wait_for()
    page.evaluate("() => { window.film = document.querySelector('.mp-film').film; film.root.parentElement.remove(); }")
    seen = page.evaluate("""async () => {
        let closed = 0;
        film.close = () => closed++;
        document.body.className = "changed";
        await new Promise((done) => setTimeout(done, 50));
        return closed;
    }""")
    assert seen == 1
