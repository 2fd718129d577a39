"""A film in JupyterLab: it plays, it keeps its keys to itself, and a notebook that nobody runs shows the still."""
from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

FILM = ".mp-film"
SOURCE = '''\
# %%
from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog
from minipaged.viz import Film

def serve(**options):
    events = EventLog()
    scheduler = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=events), events=events, **options)
    for name, prompt in {"A": [1, 2, 3, 4, 5], "B": [1, 2, 3, 4, 5, 6], "C": [7] * 9, "D": [8] * 5}.items():
        scheduler.add_request(Request(name, prompt, SamplingParams(max_tokens=8)))
    while scheduler.has_unfinished:
        scheduler.step(lambda plan: {item.request_id: 7 for item in plan.scheduled if item.sample})
    return events

# %%
Film(serve())

# %%
Film(serve(max_num_seqs=1), compare=serve(), labels=("one seat", "many seats"))
'''


@pytest.fixture(scope="module")
def notebook(root, tmp_path_factory) -> Path:
    """Two films, built as a chapter is."""
    spec = importlib.util.spec_from_file_location("notebook_builder", root / "notebooks" / "build.py")
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    folder = tmp_path_factory.mktemp("films")
    (folder / "films.py").write_text(SOURCE, encoding="utf-8")
    assert builder.build(folder / "films.py", folder / "films.ipynb") == []
    return folder / "films.ipynb"


def position(film) -> int:
    return int(film.get_attribute("data-position"))


def test_films_in_jupyterlab(open_notebook, notebook, axe, shots):
    """Stills before anything runs; then films that play, keep their keys, and jump to where two runs part."""
    lab = open_notebook(notebook)
    page = lab.page
    assert page.locator(".jp-OutputArea-output img").count() == 2 and page.locator(FILM).count() == 0
    lab.run_all()
    page.locator(FILM).nth(1).wait_for()
    axe(page, FILM)
    assert_plays_and_moves_by_keyboard(page, page.locator(FILM).first)
    page.screenshot(path=shots / "lab_film.png")
    assert_keeps_its_keys(page)

    two = page.locator(FILM).nth(1)
    two.scroll_into_view_if_needed()
    two.get_by_role("button", name="difference").click()
    assert position(two) > 0
    assert "first difference" in two.inner_text()
    page.screenshot(path=shots / "lab_film_two.png")


def assert_plays_and_moves_by_keyboard(page, film) -> None:
    film.focus()
    assert position(film) == 0
    page.keyboard.press("ArrowRight")
    assert position(film) == 1
    page.keyboard.press("End")
    last = position(film)
    assert last > 50
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.wait_for_function("film => Number(film.dataset.position) > 5", arg=film.element_handle(), timeout=10_000)
    page.keyboard.press("Space")
    stopped = position(film)
    page.wait_for_timeout(300)
    assert position(film) == stopped < last
    assert "event" in film.locator("[role=slider]").get_attribute("aria-valuetext")


def assert_keeps_its_keys(page) -> None:
    """Letters are commands of the notebook too: copy, cut, delete, insert a cell, change its kind."""
    cells = page.locator(".jp-Notebook .jp-Cell").count()
    for key in "abcdevxyzm1":
        page.keyboard.press(key)
        page.keyboard.press(key)
    page.keyboard.press("Escape")
    page.wait_for_timeout(200)
    assert page.locator(".jp-Notebook .jp-Cell").count() == cells
    assert page.locator(FILM).count() == 2
