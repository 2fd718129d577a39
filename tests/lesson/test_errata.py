"""The twenty claims: each is measured, the page and the chapter are made from them, and a changed number is noticed."""
from __future__ import annotations

import re

import nbformat
import pytest

from minipaged.lesson import errata_page
from minipaged.lesson.errata import ERRATA
from minipaged.lesson.erratum import VERDICTS

BY_NAME = {one.name: one for one in ERRATA}


def test_twenty_claims_with_a_source_a_verdict_and_a_lesson():
    assert len(ERRATA) == len(BY_NAME) == 20
    assert sum(one.source.startswith("source text") for one in ERRATA) == 13
    for one in ERRATA:
        assert one.verdict in VERDICTS and one.why.endswith(".")
        assert one.source.startswith(("source text, section ", "["))


@pytest.mark.parametrize("name, key, value", [
    ("thousand_tokens", "found", 819_200_000 / 2**30), ("cache_and_weights", "gib", 55.46),
    ("attention_heads", "found", 131_072), ("seventeen_tokens", "found", 47), ("static_batch", "found", 47.5),
    ("moment_of_a_new_block", "found", 1), ("shared_prefix", "found", 13.73),
    ("whole_last_block", "found", 100 * 14 / 64), ("scores_in_shared_memory", "found", 12_288),
    ("multiples_of_16", "found", 5.215)])
def test_measurements_give_the_values_known_from_elsewhere(name, key, value):
    assert BY_NAME[name].values()[key] == pytest.approx(value, rel=1e-3)


def test_each_claim_that_does_not_hold_differs_from_what_was_found():
    for one in ERRATA:
        values = one.values()
        if "claimed" in values:
            assert abs(values["claimed"] / values["found"] - 1) > 0.002, one.name


def test_the_page_is_what_the_measurements_say(root, capsys):
    assert errata_page.main(["--check", "--out", str(root / "docs" / "errata.md")]) == 0


def test_a_changed_page_is_noticed_and_written_anew(tmp_path, capsys):
    path = tmp_path / "errata.md"
    assert errata_page.main(["--out", str(path)]) == 0
    good = path.read_text(encoding="utf-8")
    path.write_text(good.replace("47.5%", "30%"), encoding="utf-8")
    assert errata_page.main(["--check", "--out", str(path)]) == 1
    assert "errata_page" in capsys.readouterr().err
    assert errata_page.main(["--out", str(path)]) == 0 and path.read_text(encoding="utf-8") == good


def test_the_chapter_shows_every_claim_with_its_measurement(root):
    notebook = nbformat.read(root / "notebooks" / "15_errata.ipynb", as_version=4)
    shown = "\n".join(output.data["text/markdown"] for cell in notebook.cells if cell.cell_type == "code"
                      for output in cell.outputs if "text/markdown" in output.get("data", {}))
    rows = dict(re.findall(r"^\| (\d+) \| (.*)$", shown, re.MULTILINE))
    assert list(map(int, rows)) == list(range(1, 21))
    for number, one in enumerate(ERRATA, 1):
        assert one.claim in rows[str(number)] and one.measured() in rows[str(number)]
