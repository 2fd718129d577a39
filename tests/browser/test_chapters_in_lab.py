"""Each chapter in a real JupyterLab: it opens, runs twice without an error, and its widgets answer to the keyboard."""
from __future__ import annotations

from pathlib import Path

import pytest

EXPLORER = ".minipaged-explorer"
#: this one stands for all in `make test`; the others follow in the full run
SAMPLE = ("01_kv_cache",)


NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
each = pytest.mark.parametrize("name", [
    path.stem if path.stem in SAMPLE else pytest.param(path.stem, marks=pytest.mark.full)
    for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))])


@each
def test_a_chapter_runs_twice_and_its_widgets_move(name, open_notebook, axe, shots):
    lab = open_notebook(NOTEBOOKS / f"{name}.ipynb")
    for turn in range(2):
        lab.run_all()
        if turn == 0:
            lab.page.locator(".jp-Notebook").screenshot(path=shots / f"{name}.png")
    page = lab.page
    if page.locator(".minipaged-lesson").count():
        axe(page, ".minipaged-lesson")
    explorers = page.locator(EXPLORER)
    for number in range(explorers.count()):
        explorer = explorers.nth(number)
        axe(page, EXPLORER)
        before = explorer.locator(".sentence").inner_text()
        slider = explorer.locator("input[type=range]").first
        slider.focus()
        for _ in range(3):
            page.keyboard.press("ArrowUp" if slider.input_value() != slider.get_attribute("max") else "ArrowDown")
        page.wait_for_function("([element, before]) => element.innerText !== before",
                               arg=[explorer.locator(".sentence").element_handle(), before], timeout=10_000)
