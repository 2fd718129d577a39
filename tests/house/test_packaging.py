"""pyproject.toml, the lock, environment.yml and the wheel say the same."""
from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import minipaged


def by_name(lines: list[str]) -> dict[str, Requirement]:
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in requirements}


@pytest.fixture(scope="module")
def project(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def direct(project) -> dict[str, Requirement]:
    """The run-time dependencies and those of every extra."""
    extras = [line for lines in project["optional-dependencies"].values() for line in lines]
    return by_name(project["dependencies"] + extras)


@pytest.fixture(scope="module")
def lock(root: Path) -> dict[str, Requirement]:
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    return by_name([line for line in lines if line and not line.startswith("#")])


def test_the_lock_satisfies_pyproject(direct, lock):
    for name, requirement in direct.items():
        assert name in lock, f"{name} is in pyproject.toml, not in the lock"
        if name != "triton":
            (pin,) = lock[name].specifier
            assert pin.operator == "==", f"{name} is not pinned"
            assert requirement.specifier.contains(pin.version), f"{lock[name]} is outside {requirement}"


def test_torch_is_pinned_and_triton_is_a_range_for_linux(direct, lock):
    assert str(lock["torch"].specifier) == "==2.13.0"
    assert lock["triton"].specifier == direct["triton"].specifier
    assert not any(one.operator == "==" for one in lock["triton"].specifier)
    for where in (lock, direct):
        assert where["triton"].marker.evaluate({"platform_system": "Linux"})
        assert not where["triton"].marker.evaluate({"platform_system": "Windows"})


def test_what_is_installed_is_the_lock(root, lock):
    """In the .venv that make makes: the suite speaks for these versions only if it runs with them."""
    from importlib.metadata import version
    if Path(sys.prefix).resolve() != (root / ".venv").resolve():
        pytest.skip("this is not the .venv of make setup; other versions are allowed here")
    wrong = [f"{name} {version(name)}" for name, one in lock.items()
             if (one.marker is None or one.marker.evaluate()) and not one.specifier.contains(version(name))]
    assert wrong == []


def test_the_lock_names_no_host(root):
    text = (root / "requirements.lock").read_text(encoding="utf-8")
    assert "://" not in text and "\n-" not in text and "@" not in text


def test_environment_yml_agrees_with_pyproject(root, project, direct):
    environment = yaml.safe_load((root / "environment.yml").read_text(encoding="utf-8"))
    assert set(environment) == {"name", "channels", "dependencies"}
    assert environment["channels"] == ["conda-forge"]
    (pip_lines,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    conda_lines = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    for line in conda_lines:
        assert re.fullmatch(r"[a-z0-9_.-]+((>=|<|==)[0-9.]+)*", line), f"{line!r} is no conda specification of ours"
    conda, pip = by_name(conda_lines), by_name(pip_lines)
    assert conda.pop("python").specifier == project["requires-python"]
    assert str(conda.pop("pip").specifier) == ""
    assert not set(conda) & set(pip)
    described = {**conda, **pip}
    assert set(described) == set(direct)
    for name, requirement in direct.items():
        assert described[name].specifier == requirement.specifier, name
        if name in pip:
            assert described[name].marker == requirement.marker, name


def test_version_and_licence(root, project):
    assert project["version"] == minipaged.__version__
    assert project["license"] == "Apache-2.0"
    assert "Apache License" in (root / "LICENSE").read_text(encoding="utf-8")[:200]


def test_the_wheel_holds_everything(root, tmp_path):
    """A plain `pip install .` has the kernels as minipaged.kernels, the model and the data files."""
    copy = tmp_path / "copy"
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("minipaged", "kernels"):
        shutil.copytree(root / name, copy / name, ignore=skip)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(root / name, copy)
    done = subprocess.run([sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index",
                           "-q", "-w", str(tmp_path), str(copy)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = set()
    for folder, prefix in (("minipaged", "minipaged"), ("kernels", "minipaged/kernels")):
        for path in (root / folder).rglob("*"):
            inside = path.relative_to(root / folder)
            if path.suffix in {".py", ".cu", ".cuh", ".h", ".cpp", ".js", ".json", ".safetensors"}:
                expected.add(f"{prefix}/{inside.as_posix()}")
    assert expected - held == set()
    assert not [name for name in held if name.startswith("kernels/")]
