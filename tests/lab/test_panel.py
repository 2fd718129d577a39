"""The panel in a notebook: its buttons do what the functions do; without a kernel it is a list."""
from __future__ import annotations

import pytest

from minipaged.lab import exercises, panel, progress
from minipaged.lab.panels import _widget


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(tmp_path / "progress.json"))


def test_as_text_it_lists_the_exercises(capsys):
    progress.record_check("blocks.slot", True)
    panel("03_blocks")
    shown = capsys.readouterr().out
    assert "✓ blocks.slot: Where does a token live?" in shown and "· blocks.allocator" in shown
    panel()
    assert capsys.readouterr().out.count("\n") == len(exercises.all())
    with pytest.raises(ValueError, match="has no exercises; there are 01_kv_cache"):
        panel("99_none")


def test_the_buttons_check_and_hint():
    pytest.importorskip("ipywidgets")
    names = {"slot": lambda table, position, size: 0}
    box = _widget(exercises.of_chapter("03_blocks"), names)
    choice, (about, check, hint), said = box.children[0], box.children[1].children, box.children[2]
    choice.value = "blocks.slot"
    about.click()
    assert "slot(block_table, position, block_size)" in said.value
    check.click()
    assert "your answer is 0, not 10" in said.value and "<pre" in said.value
    hint.click()
    assert "Hint 1 of 3" in said.value
    assert choice.value == "blocks.slot"
    assert progress.read()["blocks.slot"] == {"checks": 1, "passed": False, "hints": 1}
