"""The builder of the labs: the same bytes twice, and every slip in a source is named."""
from __future__ import annotations

import importlib.util
import json
import shutil

import pytest

from minipaged.lab.cells import MarkerError, strip_solution, without_markers

HOME = "/".join(["", "home", "me"])


@pytest.fixture
def builder(root, tmp_path, monkeypatch):
    """solutions/build.py, working on a copy of two labs."""
    spec = importlib.util.spec_from_file_location("solutions_build", root / "solutions" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "solutions").mkdir()
    shutil.copy(root / "solutions" / "01_kv_cache.py", tmp_path / "solutions")
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "HERE", tmp_path / "solutions")
    monkeypatch.setattr(module, "STARTERS", tmp_path / "starters.json")
    return module


def source(builder):
    return builder.HERE / "01_kv_cache.py"


def edit(builder, old, new):
    text = source(builder).read_text(encoding="utf-8")
    assert old in text
    source(builder).write_text(text.replace(old, new), encoding="utf-8")


def outputs(builder):
    return {path.relative_to(builder.ROOT): path.read_bytes() for path in builder.ROOT.rglob("*")
            if path.suffix in (".ipynb", ".json")}


def test_the_same_bytes_twice_and_check_agrees(builder, capsys):
    assert builder.main([]) == 0, capsys.readouterr().err
    first = outputs(builder)
    assert {path.as_posix() for path in first} == {"exercises/01_kv_cache.ipynb", "solutions/01_kv_cache.ipynb",
                                                  "starters.json"}
    assert builder.main(["--check"]) == 0
    assert builder.main([]) == 0
    assert outputs(builder) == first


def test_what_is_stale_or_without_a_source_is_named(builder, capsys):
    assert builder.main(["--check"]) == 1
    assert "not built yet" in capsys.readouterr().err
    builder.main([])
    edit(builder, "819,200", "819 200")
    (builder.ROOT / "exercises" / "99_old.ipynb").write_text("{}", encoding="utf-8")
    capsys.readouterr()
    assert builder.main(["--check"]) == 1
    said = capsys.readouterr().err
    assert "01_kv_cache: exercises: stale" in said and "99_old.ipynb: a notebook without a source" in said


@pytest.mark.parametrize("old, new, complaint", [
    ("### END SOLUTION\n", "", "### BEGIN SOLUTION without ### END SOLUTION"),
    ("    ### BEGIN SOLUTION\n", "", "has no ### BEGIN SOLUTION"),
    ('check("formulas.kv-bytes")', "pass", 'should be: check("formulas.kv-bytes")'),
    ('"points": 1', '"points": 2', "should have nbgrader="),
    ('"solution": true', '"solution": false', "should have nbgrader="),
    ('"grade_id": "formulas_kv-bytes",', '"grade_id": "kv",', "the cells with nbgrader metadata are"),
    ("{{exercise formulas.kv-bytes}}", "", "headings are"),
    ("{{exercise formulas.kv-bytes}}", "{{exercise formulas.kv}}", "there is no exercise 'formulas.kv'"),
    (' tags=["setup"]', "", 'no cell has tags=["setup"]'),
    ("before a cache can be managed".capitalize(), "See " + HOME, "would show a learner '/home/'"),
])
def test_a_slip_in_a_source_is_named(builder, capsys, old, new, complaint):
    edit(builder, old, new)
    assert builder.main(["--check"]) == 1
    assert complaint in capsys.readouterr().err


def test_a_solution_that_fails_is_not_written(builder, capsys):
    edit(builder, "return numbers * bytes_per_element", "return numbers")
    assert builder.main([]) == 1
    assert "is not passed by the solution" in capsys.readouterr().err
    assert not (builder.HERE / "01_kv_cache.ipynb").exists()


def test_a_starter_runs_and_says_where_the_code_goes(builder):
    builder.main([])
    cells = json.loads(builder.STARTERS.read_text(encoding="utf-8"))["01_kv_cache"]
    starter = cells["formulas_kv-bytes"]
    assert starter.endswith("    # YOUR CODE HERE\n    raise NotImplementedError()")
    exec(starter, {})


@pytest.mark.parametrize("text, complaint", [
    ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION", "twice"),
    ("### END SOLUTION", "without ### BEGIN"),
    ("### BEGIN SOLUTION", "without ### END"),
])
def test_markers_come_in_pairs(text, complaint):
    with pytest.raises(MarkerError, match=complaint):
        strip_solution(text)


def test_markers_leave_no_trace():
    text = "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n\nx = 2"
    assert strip_solution(text) == "def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()\n\nx = 2"
    assert without_markers(text) == "def f():\n    return 1\n\nx = 2"
