"""What a chapter costs: at most 15 seconds and 2 GB, and no torch where none is needed. Prints the table.

The limit is on processor time, of the kernel and of what it starts: other work on the machine cannot fail it.
"""
from __future__ import annotations

import importlib.util
import json
import time
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell

spec = importlib.util.spec_from_file_location("chapters", Path(__file__).with_name("chapters.py"))
chapters = importlib.util.module_from_spec(spec)
spec.loader.exec_module(chapters)

MOST_SECONDS, MOST_BYTES = 15.0, 2_000_000_000
PROBE = """
import json, os, sys
spent = sum(os.times()[:4])
try:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
except ImportError:  # Windows
    peak = 0
print(json.dumps({"seconds": spent, "peak": peak, "torch": "torch" in sys.modules}))
"""


@pytest.mark.parametrize("name", chapters.HERE)
def test_a_chapter_is_quick_small_and_imports_what_it_needs(name, capsys):
    build = chapters.builder()
    notebook = build.read_source(chapters.NOTEBOOKS / "source" / f"{name}.py")
    build.complete(notebook, name)
    notebook.cells.append(new_code_cell(PROBE))
    start = time.perf_counter()
    build.execute(notebook, chapters.NOTEBOOKS)
    wall = time.perf_counter() - start
    found = json.loads(notebook.cells[-1].outputs[0].text)
    with capsys.disabled():
        rest = f"{found['peak'] / 1e6:6.0f} MB{'  torch' if found['torch'] else ''}"
        print(f"\n{name:<24} {found['seconds']:5.1f} s ({wall:5.1f} s wall) {rest}", end="")
    assert found["seconds"] <= MOST_SECONDS
    assert found["peak"] <= MOST_BYTES
    assert not found["torch"] or name in chapters.WITH_TORCH, "this chapter should run without torch"
