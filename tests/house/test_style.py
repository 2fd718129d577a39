"""Rules of the house that a machine can check."""
from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

LINES = 300  # of a file in minipaged/ or kernels/
#: a longer one -> why it is one file
LONG = {
    "minipaged/models/stories.py": "the words and sentences that the small model is trained on: data",
    "minipaged/models/train_tiny.py": "a script that is read from top to bottom, and run once",
}
TEXT = {".py", ".md", ".yml", ".toml", ".ipynb", ".json", ".cu", ".h", ".cpp", ".js", ".lock"}


@pytest.fixture(scope="module")
def tracked(root: Path) -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("not a git clone")
    return [root / name for name in done.stdout.split("\0") if name and (root / name).exists()]


def test_ruff_is_content(root):
    done = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise", "."],
                          cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_no_path_of_a_machine_in_tracked_files(root, tracked):
    pattern = re.compile(r"(?<![\w.\-/])/(?:tmp|root|home|work)/(?!x\b)[A-Za-z]")  # /tmp/x: an example
    found = [f"{path.relative_to(root)}:{number}: {line.strip()[:80]}"
             for path in tracked if path.suffix in TEXT and path.name != "test_style.py"
             for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1) if pattern.search(line)]
    assert found == []


def test_no_pickle(root, tracked):
    """Weights are safetensors or GGUF; nothing that can run code is loaded."""
    pattern = re.compile(r"^\s*(?:import|from) (?:pickle|dill|cloudpickle|shelve)\b|torch\.load\(", re.MULTILINE)
    hostile = root / "tests" / "grader_attacks"  # answers that the grader must stand
    sources = [path for path in tracked if path.suffix == ".py" and hostile not in path.parents]
    assert [path.name for path in sources if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_no_file_is_long_without_a_reason(root, tracked):
    """One concept a file; and a file that is no longer long needs no reason."""
    long = {path.relative_to(root).as_posix(): lines for path in tracked
            if path.suffix == ".py" and path.relative_to(root).parts[0] in ("minipaged", "kernels")
            and (lines := len(path.read_text(encoding="utf-8").splitlines())) > LINES}
    assert {name: lines for name, lines in long.items() if name not in LONG} == {}
    assert sorted(set(LONG) - set(long)) == []


def core_lines(root) -> int:
    """Lines of code in core/: docstrings, comments and blank lines apart."""
    total = 0
    for path in sorted((root / "minipaged" / "core").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        documented = (node for node in ast.walk(ast.parse(text))
                      if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node))
        docstrings = {line for node in documented
                      for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)}
        total += sum(1 for number, line in enumerate(text.splitlines(), 1)
                     if line.strip() and not line.strip().startswith("#") and number not in docstrings)
    return total


def test_core_is_pure_and_no_file_is_long(root):
    """No file over 250 lines, no torch, no numpy; and no more code than there is today."""
    for path in sorted((root / "minipaged" / "core").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 250, f"{path.name} has {len(text.splitlines())} lines"
        imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, (ast.Import, ast.ImportFrom))]
        imported = {name.split(".")[0] for node in imports
                    for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else
                                 [alias.name for alias in node.names])}
        assert imported <= set(sys.stdlib_module_names) | {"minipaged"}, f"{path.name} imports {imported}"
    assert core_lines(root) <= 1320, "core/ has about 1,300 lines of code and may only shrink"
