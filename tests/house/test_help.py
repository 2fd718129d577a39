"""Every --help has an example, and the examples of the table of commands run."""
from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest

from minipaged import cli
from minipaged.cli import COMMANDS

# One process for all scripts: what they import (torch, transformers) is loaded once.
HELP = """
import contextlib, io, json, runpy, sys
said = {}
for kind, name in json.loads(sys.argv[1]):
    text, sys.argv = io.StringIO(), [name, "--help"]
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        (runpy.run_path if kind == "path" else runpy.run_module)(name, run_name="__main__")
    said[name] = text.getvalue()
print(json.dumps(said))
"""
BEFORE = {"film": [["demo", "--events", "run.json"]]}
LONG = {"kernels", "race", "gallery"}  # minutes, and they have tests of their own


def show_help(argv: list[str], capsys) -> str:
    assert cli.main([*argv, "--help"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_shows_an_example_of_itself(name, capsys):
    text = show_help([name], capsys)
    assert re.search(rf"examples?:\n +minipaged {name}", text), text
    for action in re.findall(r"^    (\w+)  ", text.partition("  ACTION\n")[2].partition("options:")[0], re.MULTILINE):
        assert f"example:\n  minipaged {name} {action}" in show_help([name, action], capsys)


def test_each_script_shows_an_example_of_itself(root):
    """A script takes options and has a `__main__`."""
    scripts = [path.relative_to(root) for folder in ("minipaged", "kernels", "benchmarks", "notebooks", "solutions",
                                                     "docs", "tests") for path in sorted((root / folder).rglob("*.py"))
               if re.search(r'^if __name__ == "__main__"', text := path.read_text(encoding="utf-8"), re.MULTILINE)
               and "add_argument(" in text and path.name != "cli.py"]
    named = [("module", ".".join(path.with_suffix("").parts).replace("kernels.", "minipaged.kernels.", 1))
             if path.parts[0] in ("minipaged", "kernels") else ("path", str(root / path)) for path in scripts]
    code = "import sys; sys.path.append(sys.argv.pop(1))" + HELP  # the root comes last, for `tests` and `benchmarks`
    done = subprocess.run([sys.executable, "-P", "-c", code, str(root), json.dumps(named)], capture_output=True,
                          text=True, env={**os.environ, "COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    silent = [name for name, text in said.items()
              if not re.search(rf"example: python (-m )?\S*{re.split('[./]', name.removesuffix('.py'))[-1]}", text)]
    assert silent == [] and len(said) >= 14


def examples(names) -> list[list[str]]:
    return [shlex.split(COMMANDS[name].example)[1:] for name in names]


def play(names, root, folder, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(folder / "progress.json"))
    (folder / "submitted").mkdir()  # a class of one for `grade`, whose results `stats` reads
    (folder / "submitted" / "ben.ipynb").write_bytes((root / "solutions" / "03_blocks.ipynb").read_bytes())
    for name, argv in zip(names, examples(names), strict=True):
        for line in [*BEFORE.get(name, []), argv]:
            assert cli.main(line) == 0, line


def test_short_examples_run(root, tmp_path, monkeypatch, capsys):
    play(["calc", "learn", "predictions", "release", "museum"], root, tmp_path, monkeypatch)
    assert (tmp_path / "mine.csv").exists() and (tmp_path / "handout.zip").exists()


@pytest.mark.full
def test_all_other_examples_run(root, tmp_path, monkeypatch, capsys):
    play([name for name in COMMANDS if name not in LONG], root, tmp_path, monkeypatch)
    assert (tmp_path / "sweep.csv").exists() and (tmp_path / "film.html").exists()
