"""notebooks/build.py: the same bytes twice, and rules that notice what they are for."""
from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import nbformat
import pytest

HELLO = '''\
# %% [markdown]
# # A title
#
# Text with *stress*.

# %%
from matplotlib import pyplot
from minipaged.viz.show import show
print("hello")

# %%
fig, axes = pyplot.subplots(figsize=(2, 1))
axes.plot([1, 2, 3])
show(fig, "A line that rises from one to three in two steps.", data=[1, 2, 3])

# %% tags=["extra"]
40 + 2
'''


@pytest.fixture(scope="module")
def builder(root: Path):
    spec = importlib.util.spec_from_file_location("notebook_builder", root / "notebooks" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "source").mkdir()
    return tmp_path


def write(folder: Path, text: str, name: str = "00_x") -> Path:
    path = folder / "source" / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    return path


def run(builder, folder: Path, *arguments: str) -> int:
    return builder.main([*arguments, "--source", str(folder / "source"), "--out", str(folder)])


def cells(builder, folder: Path, text: str) -> list:
    return builder.read_source(write(folder, text)).cells


def test_two_builds_give_the_same_bytes(builder, folder, monkeypatch):
    write(folder, HELLO)
    assert run(builder, folder) == 0
    target = folder / "00_x.ipynb"
    first = target.read_bytes()
    target.unlink()
    monkeypatch.setenv("MPLBACKEND", "agg")  # the reader's setting must not reach the notebook
    assert run(builder, folder) == 0
    assert target.read_bytes() == first
    assert b"\r" not in first

    notebook = nbformat.read(target, as_version=4)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code", "code"]
    assert notebook.cells[0].source == "# A title\n\nText with *stress*."
    assert notebook.cells[1].outputs[0].text == "hello\n"
    (figure,) = notebook.cells[2].outputs  # one output: the picture is not drawn a second time
    assert figure.data["text/plain"] == "A line that rises from one to three in two steps."
    assert figure.data["image/png"]
    assert figure.data["application/vnd.minipaged.figure+json"] == "[1,2,3]"
    assert figure.metadata["image/png"]["alt"] == figure.data["text/plain"]
    assert notebook.cells[3].metadata == {"tags": ["extra"]}
    assert "version" not in notebook.metadata.language_info and "widgets" not in notebook.metadata
    assert run(builder, folder, "--check") == 0


def test_ids_stay_when_a_cell_comes_before_and_differ_for_equal_cells(builder, folder):
    before = [cell.id for cell in cells(builder, folder, "# %%\nx = 1\n\n# %%\nx = 1\n\n# %%\nx\n")]
    after = [cell.id for cell in cells(builder, folder, "# %%\ny = 0\n\n# %%\nx = 1\n\n# %%\nx = 1\n\n# %%\nx\n")]
    assert len(set(before)) == 3
    assert after[1:] == before


def test_check_says_what_is_stale(builder, folder, capsys):
    write(folder, "# %%\nx = 1\n\n# %%\nx\n")
    assert run(builder, folder, "--check") == 1
    assert "00_x: not built yet" in capsys.readouterr().err
    assert run(builder, folder) == 0
    write(folder, "# %%\nx = 1\n\n\n\n# %%\nx\n")  # blank lines mean nothing
    assert run(builder, folder, "--check") == 0
    write(folder, "# %%\nx = 1\n\n# %%\nx + 1\n")
    assert run(builder, folder, "--check") == 1
    assert "00_x: stale: cell 2 differs" in capsys.readouterr().err
    (folder / "source" / "00_x.py").rename(folder / "source" / "01_y.py")
    assert run(builder, folder, "--check") == 1
    assert "00_x: a notebook without a source" in capsys.readouterr().err


def test_a_notebook_that_was_never_run_is_noticed(builder, folder, capsys):
    notebook = builder.read_source(write(folder, "# %%\n1 + 1\n"))
    (folder / "00_x.ipynb").write_text(builder.to_text(notebook), encoding="utf-8")
    assert run(builder, folder, "--check") == 1
    assert "never run" in capsys.readouterr().err


@pytest.mark.parametrize("cell, complaint", [
    ("x = 1;", "ends in `;`"),
    ("x = 1;  # a comment", "ends in `;`"),
    ("import sys\nprint('oh', file=sys.stderr)", "writes to stderr: oh"),
    ("import os\nprint(os.path.expanduser('~'))", "a path of this machine"),
    ("from matplotlib import pyplot\npyplot.plot([1, 2])\npyplot.show()", "use show(fig, alt)"),
    ("1 / 0", "ZeroDivisionError"),
])
def test_a_broken_rule_stops_the_build(builder, folder, capsys, cell, complaint):
    write(folder, f"# %%\n{cell}\n")
    assert run(builder, folder) == 1
    assert complaint in capsys.readouterr().err
    assert not (folder / "00_x.ipynb").exists()


def test_a_semicolon_elsewhere_is_fine(builder, folder):
    notebook = builder.read_source(write(folder, "# %%\nx = 1; y = 2\nprint('a;')  # ends here;\n"))
    assert builder.problems(notebook) == []


def test_widget_state_and_equal_ids_are_problems(builder, folder):
    notebook = builder.read_source(write(folder, "# %%\nx = 1\n\n# %%\nx\n"))
    notebook.metadata["widgets"] = {}
    notebook.cells[1].id = notebook.cells[0].id
    found = "\n".join(builder.problems(notebook))
    assert "metadata.widgets" in found and "used 2 times" in found


@pytest.mark.parametrize("text, complaint", [
    ("x = 1\n", "text before the first"),
    ("# %% [raw]\n# x\n", "no cell marker"),
    ("# %% [markdown]\nno hash\n", "lines start with `# `"),
])
def test_a_malformed_source_is_named(builder, folder, capsys, text, complaint):
    write(folder, text)
    assert run(builder, folder) == 1
    assert complaint in capsys.readouterr().err


def test_an_unknown_name_is_an_error(builder, folder, capsys):
    write(folder, HELLO)
    with pytest.raises(SystemExit) as stop:
        run(builder, folder, "07_nothing")
    assert stop.value.code == 2
    assert "there are: 00_x" in capsys.readouterr().err


PROSE = """\
# %% [markdown]
# Of {{total}} slots {{used / total:.1%}} are used. {{colab}}

# %% tags=["install"]

# %%
total, used = 8, 1
"""


def test_numbers_of_the_text_come_from_the_run(builder, folder, capsys):
    write(folder, PROSE)
    assert run(builder, folder) == 0
    notebook = nbformat.read(folder / "00_x.ipynb", as_version=4)
    assert notebook.cells[0].source.startswith("Of 8 slots 12.5% are used. [Open in Colab](https://colab.research.")
    assert notebook.cells[0].source.endswith("/blob/main/notebooks/00_x.ipynb)")
    assert notebook.cells[-1].outputs[0].text == "total = 8\nused / total:.1% = 12.5%\n"  # strict nbval compares it
    assert run(builder, folder, "--check") == 0
    capsys.readouterr()

    notebook.cells[0].source = notebook.cells[0].source.replace("12.5%", "13.5%")  # a number edited by hand
    (folder / "00_x.ipynb").write_text(builder.to_text(notebook), encoding="utf-8")
    assert run(builder, folder, "--check") == 1
    assert "stale: cell 1 differs" in capsys.readouterr().err
    notebook.cells[-1].outputs = []
    (folder / "00_x.ipynb").write_text(builder.to_text(notebook), encoding="utf-8")
    assert run(builder, folder, "--check") == 1
    assert "does not print {{total}}" in capsys.readouterr().err


def test_a_number_that_the_run_does_not_have_stops_the_build(builder, folder, capsys):
    write(folder, PROSE.replace("{{total}}", "{{wholly}}"))
    assert run(builder, folder) == 1
    assert "NameError" in capsys.readouterr().err
    assert not (folder / "00_x.ipynb").exists()


def test_the_install_cell_does_nothing_where_minipaged_is(builder, folder, monkeypatch):
    monkeypatch.setattr("subprocess.run", lambda *args, **options: pytest.fail("it ran a command"))
    cell = cells(builder, folder, PROSE)[1]
    notebook = builder.read_source(folder / "source" / "00_x.py")
    assert cell.source == "" and builder.complete(notebook, "00_x")
    before = set(sys.modules)
    exec(notebook.cells[1].source, {})
    assert "torch" not in set(sys.modules) - before


def test_the_install_cell_leaves_installed_packages_alone(builder, folder, monkeypatch):
    """Where minipaged is missing: it adds what is missing, and minipaged without its dependencies."""
    import importlib.util

    have, commands = {"safetensors", "tokenizers"}, []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if name in have else None)
    monkeypatch.setattr("subprocess.run", lambda command, **options: commands.append(command[3:]))
    monkeypatch.setenv("MINIPAGED_REPOSITORY", "https://example.org/somebody/minipaged")
    notebook = builder.read_source(write(folder, PROSE))
    builder.complete(notebook, "00_x")
    exec(notebook.cells[1].source, {})
    assert commands == [["install", "-q", "anywidget"],
                        ["install", "-q", "--no-deps", "git+https://example.org/somebody/minipaged"]]
    monkeypatch.setenv("MINIPAGED_REPOSITORY", "https://example.org/OWNER/minipaged")
    with pytest.raises(SystemExit, match="address of your copy"):
        exec(notebook.cells[1].source, {})


def test_jupytext_reads_our_sources_as_we_do(builder, root):
    """The percent form is jupytext's, so that an author may use any tool that knows it."""
    import jupytext

    sources = sorted((root / "notebooks" / "source").glob("*.py"))
    for path in sources:
        theirs = jupytext.read(path)
        assert [(cell.cell_type, cell.source) for cell in builder.read_source(path).cells] == \
            [(cell.cell_type, cell.source) for cell in theirs.cells], path.name


def test_notebooks_here_are_up_to_date(builder, root, capsys):
    """Each chapter is what its source says. `make notebooks` puts it right."""
    assert builder.main(["--check"]) == 0, capsys.readouterr().err


def test_show_wants_a_sentence_and_prints_it_outside_a_notebook(capsys):
    from matplotlib.figure import Figure

    from minipaged.viz.show import show

    with pytest.raises(ValueError, match="8 or more"):
        show(Figure(), "a figure")
    show(Figure(), "one two three four five six seven eight")
    assert capsys.readouterr().out == "one two three four five six seven eight\n"


def test_a_notebook_kernel_does_not_import_our_kernels_folder(root):
    """`kernels` is another package's name; a chapter reaches ours as minipaged.kernels."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", cwd=str(root / "notebooks"))
    try:
        answers = []
        client.execute_interactive(
            "import importlib.util, json, sys\nprint(json.dumps([importlib.util.find_spec('kernels') is None, "
            "importlib.util.find_spec('minipaged.kernels') is not None, sys.version_info[:2]]))",
            timeout=60, output_hook=lambda message: answers.append(message["content"].get("text", "")))
        assert json.loads("".join(answers)) == [True, True, list(sys.version_info[:2])]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
