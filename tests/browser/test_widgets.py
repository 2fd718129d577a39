"""Explorers in JupyterLab: run, moved by keyboard and mouse, and seen in a notebook that nobody runs."""
from __future__ import annotations

import importlib.util
import statistics
import time
from pathlib import Path

import pytest

from minipaged.viz.widgets import EXPLORERS

EXPLORER, PICTURE = ".minipaged-explorer", ".jp-OutputArea-output img"
LIMIT_MS = 150

_ANSWERED = "([element, turn]) => Number(element.dataset.turn) > turn"


@pytest.fixture(scope="module")
def notebook(root, tmp_path_factory) -> Path:
    """All explorers, one a cell, built as a chapter is."""
    spec = importlib.util.spec_from_file_location("notebooks_build", root / "notebooks" / "build.py")
    builder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(builder)
    folder = tmp_path_factory.mktemp("explorers")
    cells = ["from minipaged.viz import widgets", *(f"widgets.{name}()" for name in EXPLORERS)]
    source = folder / "explorers.py"
    source.write_text("".join(f"# %%\n{cell}\n\n" for cell in cells), encoding="utf-8")
    assert builder.build(source, folder / "explorers.ipynb") == []
    return folder / "explorers.ipynb"


def press(page, element, key: str) -> float:
    """Press a key and wait for the new picture; milliseconds."""
    turn = int(element.get_attribute("data-turn"))
    start = time.perf_counter()
    page.keyboard.press(key)
    page.wait_for_function(_ANSWERED, arg=[element.element_handle(), turn], polling=5, timeout=10_000)
    return 1e3 * (time.perf_counter() - start)


def test_everything_is_moved_by_keyboard_alone(open_notebook, notebook, axe, shots):
    """Tab goes through the controls in order; an arrow changes the setting, the picture and the sentence."""
    lab = open_notebook(notebook)
    lab.run_all()
    page = lab.page
    page.locator(EXPLORER).nth(len(EXPLORERS) - 1).wait_for()
    axe(page, EXPLORER)
    spent = []
    for index, make in enumerate(EXPLORERS.values()):
        explorer, element = make(), page.locator(EXPLORER).nth(index)
        controls = element.locator("input, select")
        assert controls.count() == len(explorer.controls)
        controls.first.focus()
        for number, control in enumerate(explorer.controls):
            if number:
                page.keyboard.press("Tab")
            focused = controls.nth(number)
            assert focused.evaluate("control => control === document.activeElement"), control.name
            assert focused.evaluate("control => control.labels[0].innerText").startswith(control.label)
            forward = control.start != control.values[-1]
            before = element.locator("svg").inner_html()
            spent.append(press(page, element, "ArrowDown" if forward ^ control.slider else "ArrowUp"))
            at = control.values.index(control.start) + (1 if forward else -1)
            assert focused.input_value() == str(at)
            if control.slider:
                assert focused.get_attribute("aria-valuetext") == control.texts()[at]
            drawn = explorer.svg()
            explorer.move(**{control.name: control.values[at]})
            assert element.locator(".sentence").inner_text() == explorer.shown.sentence
            assert (element.locator("svg").inner_html() != before) == (explorer.svg() != drawn), control.name
        page.keyboard.press("Tab")
        press(page, element, "Enter")  # the button that brings the start values back
        assert element.locator(".sentence").inner_text() == make().shown.sentence
    print(f"key to picture: median {statistics.median(spent):.0f} ms, worst {max(spent):.0f} ms of {len(spent)}")
    assert statistics.median(spent) < LIMIT_MS
    page.locator(".jp-Notebook").screenshot(path=shots / "explorers.png")

    lab.run_all()  # a second time in the same kernel
    page.locator(EXPLORER).nth(len(EXPLORERS) - 1).wait_for()
    assert page.locator(EXPLORER).count() == len(EXPLORERS)


def test_a_dragged_slider_is_followed_and_ends_where_it_is_left(open_notebook, notebook):
    lab = open_notebook(notebook)
    lab.run_all()
    page, element = lab.page, lab.page.locator(EXPLORER).nth(list(EXPLORERS).index("chunk_explorer"))
    slider = element.locator("input").first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    seen = set()
    for step in range(1, 31):
        page.mouse.move(box["x"] + 2 + (box["width"] - 4) * step / 30, box["y"] + box["height"] / 2)
        page.wait_for_timeout(16)
        seen.add(element.locator(".sentence").inner_text())
    page.mouse.up()
    assert len(seen) >= 3, "the picture did not follow the slider"
    last = EXPLORERS["chunk_explorer"]()
    last.move(budget=last.controls[0].values[-1])
    page.wait_for_function("([element, said]) => element.querySelector('.sentence').textContent === said",
                           arg=[element.element_handle(), last.shown.sentence], timeout=5000)


def test_a_notebook_that_nobody_runs_shows_pictures(open_notebook, notebook):
    """As it is committed: the PNG in place of each widget, without an error."""
    page = open_notebook(notebook, kernel=False).page
    page.locator(PICTURE).nth(len(EXPLORERS) - 1).wait_for()
    assert page.locator(PICTURE).count() == len(EXPLORERS)
    assert page.locator(EXPLORER).count() == 0
