"""What a learner's process may not see, though it lies among files that it may."""
from __future__ import annotations

import sys

import pytest

from minipaged.lab.answer import AnswerError
from minipaged.lab.grader import keeper as keepers
from minipaged.lab.grader.keeper import Keeper

from .test_grader_child import start

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these guards are Linux's")


@pytest.mark.parametrize("namespaces", [True, False])
def test_a_course_inside_a_folder_of_the_system_is_hidden_but_for_the_packages_in_it(tmp_path, monkeypatch, namespaces):
    """As in a container, where the clone lies in /usr/src with its environment in it."""
    course = tmp_path / "src" / "course"
    packages = course / ".venv" / "lib" / "site-packages"
    files = {"secret": course / "solutions" / "03_blocks.py", "old": course / ".git" / "x",
             "key": course / "results" / "class.key", "package": course / "minipaged" / "__init__.py",
             "found": packages / "other" / "__init__.py"}
    for name, path in files.items():
        path.parent.mkdir(parents=True)
        path.write_text(f"found = {name!r}\n", encoding="utf-8")
    tmp_path.chmod(0o755)
    monkeypatch.setattr(keepers.minipaged, "__file__", str(files["package"]))
    monkeypatch.setattr(keepers.sysconfig, "get_paths", lambda: {"purelib": str(packages), "platlib": str(tmp_path)})
    source = """
def found():
    import other
    return other.found
def read(path):
    return open(path).read()
"""
    with Keeper(namespaces=namespaces, hidden=[course.parent / "nothing"]) as keeper, start(keeper, source) as answer:
        if "small root" in answer.layers:  # without it other users may not pass pytest's folders
            assert answer.call("found", None, (), {}).value == "found"
        elif "landlock" not in answer.layers:
            pytest.skip("this system has neither Landlock nor namespaces for us")
        for name in ("secret", "old", "key", "package"):
            with pytest.raises(AnswerError):
                answer.call("read", None, (str(files[name]),), {})


def test_packages_inside_a_hidden_folder_can_be_imported(tmp_path, monkeypatch):
    """As on Gradescope, where all lies in one folder, the environment too."""
    packages = tmp_path / "venv" / "site-packages"
    for path in (packages / "other" / "__init__.py", tmp_path / "source" / "class.key"):
        path.parent.mkdir(parents=True)
        path.write_text("found = 7\n", encoding="utf-8")
    tmp_path.chmod(0o755)
    monkeypatch.setattr(keepers.sysconfig, "get_paths", lambda: dict.fromkeys(("purelib", "platlib"), str(packages)))
    source = "def found():\n    import other\n    return other.found\ndef read(path):\n    return open(path).read()"
    with Keeper(hidden=[tmp_path]) as keeper, start(keeper, source) as answer:
        if "small root" not in answer.layers:
            pytest.skip("without a root of its own the folders of pytest cannot be passed")
        assert answer.call("found", None, (), {}).value == 7
        with pytest.raises(AnswerError):
            answer.call("read", None, (str(tmp_path / "source" / "class.key"),), {})
