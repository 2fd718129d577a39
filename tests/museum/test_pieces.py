"""Every piece of the museum shows its symptom, and is noticed by its judge and by its named test."""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minipaged import museum
from minipaged.event_file import to_json

IDS = [piece.name for piece in museum.PIECES]
CHAPTERS = ("01_kv_cache 02_waste 03_blocks 04_paged_attention 05_copy_on_write 06_prefix_cache 07_continuous_batching "
            "08_scheduling 09_preemption 10_chunked_prefill 11_engine 12_triton 13_cuda").split()
GROUPS = sorted({piece.test.split("/")[1] for piece in museum.PIECES})


@pytest.mark.parametrize("piece", museum.PIECES, ids=IDS)
def test_the_judges_are_silent_without_the_bug_and_the_named_one_speaks_with_it(piece):
    assert piece.right().faults == []
    wrong = piece.wrong()
    assert wrong.fault(piece.caught_by) is not None, wrong.faults
    assert piece.right().faults == [], "the bug is still there after it was switched off"


@pytest.mark.parametrize("piece", museum.PIECES, ids=IDS)
def test_a_run_is_the_same_each_time(piece):
    first, second = piece.wrong(), piece.wrong()
    assert (first.tokens, first.faults, first.facts) == (second.tokens, second.faults, second.facts)
    if first.events is not None:
        assert to_json(first.events) == to_json(second.events)


@pytest.mark.parametrize("folder", GROUPS)
def test_the_named_test_fails_with_the_bug_and_passes_without(root, folder):
    """All named tests of a folder in one process, each as it is and with every piece that names it."""
    pieces = [piece for piece in museum.PIECES if piece.test.startswith(f"tests/{folder}/")]
    script = Path(__file__).with_name("switched.py")
    done = subprocess.run([sys.executable, "-P", str(script), *(piece.name for piece in pieces)], cwd=root,
                          capture_output=True, text=True, timeout=300, encoding="utf-8",
                          env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""})
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["clean"] == dict.fromkeys({piece.test for piece in pieces}, True)
    assert sorted({piece.name for piece in pieces} - set(found["killed"])) == [], "these pieces survive their test"
    odd = {name: how for name, how in found["killed"].items() if "unexpected keyword" in how or "positional" in how}
    assert odd == {}, "noticed only because the wrong lines take other arguments"


def test_core_alone_has_sixty_pieces_and_each_is_in_its_own_words():
    assert len([piece for piece in museum.PIECES if piece.test.startswith("tests/core/")]) >= 60
    for field in ("name", "title", "symptom", "rule"):
        texts = [getattr(piece, field) for piece in museum.PIECES]
        assert len(set(texts)) == len(texts), field
    for piece in museum.PIECES:
        assert piece.symptom != piece.rule


def test_each_says_where_it_comes_from_and_where_the_course_meets_it():
    source = re.compile(r"[\w.-]+/[\w.-]+(#\d+|, | \()|paper: |source text, sections? \d")
    for piece in museum.PIECES:
        assert source.match(piece.reference), piece.name
        assert piece.chapter in CHAPTERS, piece.name


def test_nothing_of_the_package_but_the_labs_knows_the_museum(root):
    """And the museum itself loads neither torch nor numpy before a piece needs them."""
    package = root / "minipaged"
    asks = re.compile(r"^\s*(from|import) minipaged\.museum|import museum\b", re.MULTILINE)
    users = {path.relative_to(package).parts[0] for path in package.rglob("*.py")
             if asks.search(path.read_text(encoding="utf-8"))}
    assert users <= {"museum", "lab"}
    code = "import sys, minipaged.museum; print([name for name in ('torch', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root / "tests")
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("piece", museum.PIECES, ids=IDS)
def test_the_wrong_lines_are_few(piece):
    lines = [line for line in piece.source.splitlines() if line.strip()]
    assert 2 <= len(lines) <= 15
