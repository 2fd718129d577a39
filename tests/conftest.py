"""What all tests share: the module path, and the programs that some of them need."""
from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# `python -m pytest` puts the root on the path, where our folder kernels/ would answer `import kernels`.
sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != ROOT]

# What tests check, also in notebooks that they run, is not the progress of the one who runs them.
os.environ["MINIPAGED_PROGRESS"] = os.path.join(tempfile.gettempdir(), "minipaged-no-progress", "")

if os.environ.get("MINIPAGED_MUSEUM"):  # run any test with a bug of the museum switched on
    from minipaged import museum

    BUG = museum.piece(os.environ["MINIPAGED_MUSEUM"]).switched_on()
    BUG.__enter__()  # kept until the end of the process


def _program(path: str | None, name: str, advice: str) -> str:
    """The path, or a skip that says so; in CI, where everything was installed, a failure."""
    if path is None and os.environ.get("CI"):
        pytest.fail(f"{name} is missing; .ci/run should have installed it")
    if path is None:
        pytest.skip(f"{name} is not here: {advice}")
    return path


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of Chromium or Chrome."""
    from minipaged.doctor import CHROMIUM, find_chromium
    return _program(find_chromium(), "Chromium", CHROMIUM)


@pytest.fixture(scope="session")
def cxx() -> str:
    """Path of a C++ compiler."""
    from minipaged.doctor import COMPILER, find_compiler
    return _program(find_compiler(), "a C++ compiler", COMPILER)
