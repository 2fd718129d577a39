"""What a teacher hands out or uploads: a zip of notebooks, an nbgrader course, a Gradescope autograder.

Each is made from the built labs, and is the same bytes each time. The zip holds no solution. The nbgrader course and
the autograder are for the teacher and do: nbgrader takes the solutions out itself, Gradescope never shows its files.
"""
from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import minipaged
from minipaged.lab.grader.batch import exercises_of

PACKAGE = Path(minipaged.__file__).resolve().parent
_LEFT_OUT = {"__pycache__", "museum", "data", "train_tiny.py", "lesson", "widgets", "film", "figures"}
_TEXTS = {".py", ".json", ".cu", ".cuh", ".h", ".cpp"}
_WHEN = (2020, 1, 1, 0, 0, 0)  # zip files carry times; ours are all this one

_HANDOUT = """How to work on {labs}

1. The notebook needs the course, minipaged: a clone of it, set up as its README says. Put the notebook into the
   folder exercises of the clone; what lies there under its name is the same lab.
2. Open it in JupyterLab (`make lab` starts it) and run its cells from the top.
3. Write your answers where it says YOUR CODE HERE. Keep the cells where they are: copy none and delete none.
4. The cell below an answer checks it as often as you like.
5. Hand in the notebook, under any file name.
"""
_NBGRADER_CONFIG = """c = get_config()
c.CourseDirectory.course_id = "minipaged"
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE\\nraise NotImplementedError()"}
c.ExecutePreprocessor.timeout = 120
c.IncludeHeaderFooter.header = ""
"""
_SETUP = """#!/usr/bin/env bash
# Runs once, when Gradescope builds the image; the only step that needs the network.
set -euo pipefail
apt-get update
apt-get install -y --no-install-recommends python3.11{compiler}
{torch}"""
_TORCH = """apt-get install -y --no-install-recommends python3.11-venv
python3.11 -m venv /autograder/venv
/autograder/venv/bin/pip install --index-url https://download.pytorch.org/whl/cpu \\
    --extra-index-url https://pypi.org/simple torch==2.13.0 numpy{triton}
"""
_RUN = """#!/usr/bin/env bash
# Gradescope calls this for each submission. AUTOGRADER_ROOT names another folder of the same form, for a trial at home.
root="${AUTOGRADER_ROOT:-/autograder}"
for python in "$root/venv/bin/python" python3.11 python3; do
    command -v "$python" >/dev/null && break
done
exec "$python" -B "$root/source/grade.py" "$root"
"""
_GRADE = """import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from minipaged.lab.grader.gradescope import main

main(Path(sys.argv[1]))
"""


class ReleaseError(ValueError):
    """Something that a release needs is not there. The message says what to do."""


def course_folder(start: Path) -> Path:
    """The folder with exercises/ and solutions/: here, above, or where this package was installed from."""
    for folder in (start.resolve(), *start.resolve().parents, PACKAGE.parent):
        if (folder / "exercises").is_dir() and (folder / "solutions").is_dir():
            return folder
    raise ReleaseError("there is no course here: go to the clone that has the folders exercises and solutions, or name "
                       "it with --course")


def as_zip(course: Path, labs: Sequence[str], target: Path) -> Path:
    """Notebooks for learners, with a page on how to hand in."""
    files = {f"{lab}.ipynb": _read(course / "exercises" / f"{lab}.ipynb") for lab in labs}
    files["README.txt"] = _HANDOUT.format(labs=", ".join(labs)).encode()
    return _write_zip(target, files)


def as_nbgrader(course: Path, labs: Sequence[str], target: Path) -> Path:
    """A course folder: `nbgrader generate_assignment LAB` and `nbgrader autograde LAB` run in it as they are."""
    if target.exists() and any(target.iterdir()):
        raise ReleaseError(f"{target} is there already and not empty; name another folder with -o")
    for lab in labs:
        notebook = json.loads(_read(course / "solutions" / f"{lab}.ipynb"))
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
        path = target / "source" / lab / f"{lab}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n")
    (target / "nbgrader_config.py").write_text(_NBGRADER_CONFIG, encoding="utf-8", newline="\n")
    return target


def as_gradescope(labs: Sequence[str], key: bytes, target: Path) -> Path:
    """An autograder: setup.sh, run_autograder, this package, the class key and the names of the labs."""
    needs = {need for exercise in exercises_of(labs) for need in exercise.needs}
    torch = _TORCH.replace("{triton}", " 'triton>=3.7,<3.10'" if "triton" in needs else "") if "torch" in needs else ""
    files = {"setup.sh": _SETUP.format(compiler=" g++" if "g++" in needs else "", torch=torch).encode(),
             "run_autograder": _RUN.encode(), "grade.py": _GRADE.encode(), "class.key": key + b"\n",
             "labs.json": (json.dumps(list(labs)) + "\n").encode()}
    for folder, name in ((PACKAGE, "minipaged"), (PACKAGE.parent / "kernels", "minipaged/kernels")):
        for path in _sources(folder):
            files[f"{name}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    return _write_zip(target, files, executable=("setup.sh", "run_autograder"))


def _sources(folder: Path) -> Iterable[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix in _TEXTS
            and not _LEFT_OUT & set(path.relative_to(folder).parts))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise ReleaseError(f"{path} is not there; `make labs` builds it") from None


def _write_zip(target: Path, files: dict[str, bytes], executable: Sequence[str] = ()) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(target.name + ".tmp")
    with zipfile.ZipFile(half, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _WHEN)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (0o100755 if name in executable else 0o100644) << 16
            archive.writestr(entry, files[name])
    shutil.move(half, target)
    return target
