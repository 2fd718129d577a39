"""The bench itself: it opens notebooks in JupyterLab, runs them, and notices what goes wrong."""
from __future__ import annotations

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook


def write(folder, *cells: str, name: str = "a notebook.ipynb"):
    path = folder / name
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata=metadata), path)
    return path


def test_a_notebook_opens_and_runs(open_notebook, tmp_path, shots):
    lab = open_notebook(write(tmp_path, "x = 6 * 7", "print('the answer is', x)"))
    lab.run_all()
    assert lab.page.get_by_text("the answer is 42").is_visible()
    lab.page.screenshot(path=shots / "bench.png")


def test_a_cell_that_raises_fails_the_test(open_notebook, tmp_path):
    lab = open_notebook(write(tmp_path, "1 / 0"))
    with pytest.raises(AssertionError, match="ZeroDivisionError: division by zero"):
        lab.run_all()


@pytest.mark.parametrize("script, complaint", [
    ("console.error('broken')", "console error: broken"),
    ("setTimeout(() => { throw new Error('broken') })", "script error: broken"),
    ("fetch('http://example.com/x').catch(() => 0)", "would leave this machine: http://example.com/x"),
])
def test_what_goes_wrong_on_a_page_is_noticed(visit, tmp_path, script, complaint):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html><title>t</title><p>text</p><script>{script}</script>", encoding="utf-8")
    visit(path.as_uri()).wait_for_timeout(200)
    assert any(complaint in problem for problem in visit.problems)
    visit.problems.clear()


def test_axe_names_what_a_reader_cannot_use(visit, axe, tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<!doctype html><html lang='en'><title>t</title><button></button>", encoding="utf-8")
    page = visit(path.as_uri())
    with pytest.raises(AssertionError, match="button-name"):
        axe(page)
    page.locator("button").evaluate("button => { button.textContent = 'Play' }")
    axe(page)
