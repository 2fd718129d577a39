"""Every chapter keeps the same skeleton, says nothing that a run did not say, and can be read (AUTHORS.md)."""
from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path

import pytest

from minipaged.lesson import prose, questions

spec = importlib.util.spec_from_file_location("chapters", Path(__file__).with_name("chapters.py"))
chapters = importlib.util.module_from_spec(spec)
spec.loader.exec_module(chapters)

every = pytest.mark.parametrize("name", chapters.HERE)
MOST_GRADE, MOST_COLUMNS, MOST_LINES = 9.0, 96, 20
CHINESE = re.compile(r"\*\*([^*]+)\*\* \(([\u4e00-\u9fff、]+)\)")


def glossary() -> dict[str, str]:
    """English term, in lower case -> Chinese term."""
    text = (chapters.ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    return {english.strip().lower(): chinese.strip() for english, chinese in rows}


@every
def test_a_chapter_has_all_parts_in_order(name):
    assert chapters.missing_parts(chapters.source_cells(name)) == []


@every
def test_a_chapter_shows_pictures_and_lines_of_the_package(name):
    code = "\n".join(cell.source for cell in chapters.source_cells(name) if cell.cell_type == "code")
    assert re.search(r"\b(?:show|Film|film)\(", code), "no figure and no film"
    assert _calls(code, "source") or name in chapters.WITHOUT_SOURCE, "no source(...) of the package"


@every
def test_a_prediction_is_measured_later_in_the_chapter(name):
    code = "\n".join(cell.source for cell in chapters.source_cells(name) if cell.cell_type == "code")
    asked = [(call.args[0].value, call.lineno) for call in _calls(code, "predict")]
    measured = {call.args[0].value: call.lineno for call in _calls(code, "reveal")}
    assert {key for key, _ in asked} == set(measured)
    assert all(line < measured[key] for key, line in asked)


@every
def test_a_chapter_asks_all_of_its_questions_and_no_others(name):
    asked = {call.args[0].value for cell in chapters.source_cells(name) if cell.cell_type == "code"
             for call in _calls(cell.source, "predict")}
    assert asked == set(questions.of(name).PREDICTIONS)
    assert asked <= set(questions.predictions())  # raises for an id that two chapters use


def _calls(code: str, name: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name) and node.func.id == name]


@every
def test_numbers_of_the_text_are_inserted_or_given(name):
    """Digits with a unit come from the run, or stand with their reason in notebooks/given/NAME.txt."""
    found = prose.raw_numbers(chapters.text_of(chapters.source_cells(name)))
    path = chapters.NOTEBOOKS / "given" / f"{name}.txt"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    given = dict(line.split(": ", 1) for line in lines if line.strip())
    assert [number for number in found if number not in given] == [], \
        f"write these as {{{{...}}}}, or give them with a reason in notebooks/given/{name}.txt"
    assert [number for number in given if number not in found] == [], "given, but no longer in the text"


@every
def test_code_cells_fit_a_screen(name):
    """JupyterLab cuts longer lines off, and a longer cell is a wall."""
    cells = [cell.source.splitlines() for cell in chapters.source_cells(name) if cell.cell_type == "code"]
    assert [line for lines in cells for line in lines if len(line) > MOST_COLUMNS] == []
    assert [lines[0] for lines in cells if len(lines) > MOST_LINES] == []


@every
def test_the_text_reads_easily(name):
    found = prose.grade(chapters.text_of(chapters.source_cells(name)))
    assert found <= MOST_GRADE, f"{name} reads at grade {found:.1f}; shorter sentences, plainer words"


@every
def test_a_chinese_term_stands_once_and_as_in_the_glossary(name):
    text = chapters.text_of(chapters.source_cells(name))
    terms = CHINESE.findall(text)
    known = glossary()
    for english, chinese in terms:
        word, row = english.lower(), f"| {english} | {chinese} |"
        assert chinese in (known.get(word), known.get(word.removesuffix("s"))), f"docs/glossary.md has no row {row}"
        assert text.count(f"({chinese})") == 1, f"{chinese} stands more than once"
    assert len(terms) >= 2, "key terms carry the Chinese word once: **block table** (块表)"


@every
def test_every_link_leads_somewhere(name):
    notebook = chapters.built(name)
    outputs = [output.data.get("text/markdown", "") for cell in notebook.cells if cell.cell_type == "code"
               for output in cell.outputs if "data" in output]
    for target in re.findall(r"\]\(([^)\s]+)\)", "\n".join([chapters.text_of(notebook.cells), *outputs])):
        if target.startswith("https://"):
            continue
        path = (chapters.NOTEBOOKS / target.partition("#")[0]).resolve()
        planned = path.parent == chapters.NOTEBOOKS and path.stem in chapters.CHAPTERS and path.suffix == ".ipynb"
        assert path.exists() or planned, f"{name}: {target} does not exist"


@every
def test_two_exercises_or_more_are_linked(name):
    outputs = [output.data.get("text/markdown", "") for cell in chapters.built(name).cells
               if cell.source.startswith("exercise_links(") for output in cell.outputs]
    links = re.findall(r"\]\((\.\./exercises/[\w.]+)\)", "\n".join(outputs))
    assert len(links) >= 2


def test_the_skeleton_notices_what_is_missing_or_misplaced():
    """The rule itself can fail: each part taken out of a chapter is named."""
    name = chapters.HERE[0]
    cells = chapters.source_cells(name)
    for what, kind, pattern in chapters.SKELETON:
        cut = [cell for number, cell in enumerate(cells) if not chapters._fits(cells, number, kind, pattern)]
        assert what in chapters.missing_parts(cut), what
    assert chapters.missing_parts(cells[::-1])


def test_all_chapters_are_there():
    assert chapters.HERE == chapters.CHAPTERS
