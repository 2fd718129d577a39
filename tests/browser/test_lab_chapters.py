"""Chapters as a learner meets them: opened in JupyterLab, run from top to bottom, the explorer moved by keyboard."""
from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
#: runs in `make test`; the others take their 5 to 20 seconds each in `make test-full`
QUICK = "01_kv_cache"
EXPLORER, FILM = ".minipaged-explorer", ".mp-film"


@pytest.mark.parametrize("path", [
    pytest.param(path, marks=() if path.stem == QUICK else pytest.mark.full, id=path.stem) for path in NOTEBOOKS])
def test_a_chapter_runs_in_jupyterlab(path, open_notebook, axe, shots):
    explorers, films, figures = 0, 0, 0
    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            figure = data.get("application/vnd.minipaged.figure+json")
            films += any(f"application/vnd.minipaged.{kind}+json" in data for kind in ("film", "film-digest"))
            explorers += figure is not None and figure.startswith('{"settings":')
            figures += figure is not None and not figure.startswith('{"settings":')

    lab = open_notebook(path)
    page = lab.page
    pictures = page.locator(".jp-OutputArea-output > img, .jp-OutputArea-output.jp-RenderedImage img")
    assert pictures.count() == explorers + films + figures, "before it runs, each picture is a PNG"
    lab.run_all()
    page.wait_for_function("([one, two, count]) => document.querySelectorAll(one).length >= count[0] && "
                           "document.querySelectorAll(two).length >= count[1]",
                           arg=[EXPLORER, FILM, [explorers, films]], timeout=20_000)
    assert pictures.count() == figures
    for index in range(explorers):
        element = page.locator(EXPLORER).nth(index)
        slider = element.locator("input[type=range]").first
        slider.focus()
        before = slider.input_value()
        page.keyboard.press("ArrowUp" if before == "0" else "ArrowDown")
        page.wait_for_function("element => Number(element.dataset.turn) > 0", arg=element.element_handle())
        assert slider.input_value() != before
        axe(page, EXPLORER)
    page.locator(".jp-NotebookPanel").screenshot(path=shots / f"chapter_{path.stem}.png")
