"""What the tests of the chapters share: the list of chapters, their cells, the skeleton that each one keeps."""
from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "notebooks"

#: file names are fixed: exercises and chapters link to them
CHAPTERS = ("00_start_here", "01_kv_cache", "02_waste", "03_blocks", "04_paged_attention", "05_copy_on_write",
            "06_prefix_cache", "07_continuous_batching", "08_scheduling", "09_preemption", "10_chunked_prefill",
            "11_engine", "12_triton", "13_cuda", "14_capstone", "15_errata", "16_paper_on_a_laptop")
#: chapters that serve a model or look into attention itself; all others run without torch
WITH_TORCH = ("00_start_here", "04_paged_attention", "11_engine", "12_triton", "13_cuda", "15_errata",
              "16_paper_on_a_laptop")
#: chapters about the use of the engine, or about numbers, not about its lines
WITHOUT_SOURCE = ("00_start_here", "14_capstone", "15_errata", "16_paper_on_a_laptop")
HERE = tuple(name for name in CHAPTERS if (NOTEBOOKS / "source" / f"{name}.py").exists())

#: what a chapter has, in this order: (what, kind of cell, pattern)
SKELETON = (
    ("a title", "markdown", r"\A# \d\d · \S"),
    ("a painful number in the first text cell", "first", r"\{\{(?!colab)"),
    ("objectives", "markdown", r"^\*\*After this chapter you can\*\*\n+- .+(?:\n  .+)*\n- .+(?:\n  .+)*\n- "),
    ("prerequisites, minutes, level, Colab", "markdown",
     r"^\*\*Needs\*\* .+ · \*\*Time\*\* \d+ minutes · \*\*Level\*\* (?:easy|medium|hard) · \{\{colab\}\}$"),
    ("the install cell", "install", ""),
    ("a prediction", "code", r"^predict\("),
    ("its measurement", "code", r"^reveal\("),
    ("## Break it", "markdown", r"^## Break it"),
    ("a piece of the museum", "code", r"\bmuseum\b"),
    ("## Exercises", "markdown", r"^## Exercises$"),
    ("links to exercises", "code", r"^exercise_links\("),
    ("## Explore, with a question in bold", "markdown", r"^## Explore$(?:.|\n)+\*\*[^*]+\?\*\*"),
    ("a widget", "code", r"\w+_explorer\("),
    ("## Recap in five lines", "markdown", r"^## Recap\n+(?:\d\. .+\n(?:   .+\n)*){4}\d\. .+(?:\n   .+)*\s*\Z"),
    ("## What vLLM does differently", "markdown", r"^## What vLLM does differently$(?:.|\n)+`\w+"),
    ("a quiz", "code", r"^quiz\("),
    ("a way on", "markdown", r"^## Next"),
)


def builder():
    """notebooks/build.py as a module."""
    spec = importlib.util.spec_from_file_location("notebook_builder", NOTEBOOKS / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def source_cells(name: str) -> list:
    return builder().read_source(NOTEBOOKS / "source" / f"{name}.py").cells


def built(name: str):
    return nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)


def text_of(cells: list) -> str:
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def missing_parts(cells: list) -> list[str]:
    """Parts of the skeleton that are not there, or not in their place; [] for a chapter that keeps it."""
    missing, at = [], 0
    for what, kind, pattern in SKELETON:
        found = next((number for number in range(at, len(cells)) if _fits(cells, number, kind, pattern)), None)
        if found is None:
            missing.append(what)
        else:
            at = found
    return missing


def _fits(cells: list, number: int, kind: str, pattern: str) -> bool:
    cell = cells[number]
    if kind == "install":
        return cell.cell_type == "code" and "install" in cell.metadata.get("tags", [])
    if kind == "first":
        return number == 0 and re.search(pattern, cell.source) is not None
    return cell.cell_type == kind and re.search(pattern, cell.source, re.MULTILINE) is not None
