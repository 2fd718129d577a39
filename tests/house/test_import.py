"""`import minipaged` is quick and light, and the folder kernels/ never answers `import kernels`."""
from __future__ import annotations

import shutil
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import minipaged


def python(code: str, folder: Path, *options: str) -> str:
    done = subprocess.run([sys.executable, *options, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_takes_under_300_ms(tmp_path):
    """The best of five: the machine may be busy, a slow import is slow each time."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        python("import minipaged", tmp_path)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.3, seconds


@pytest.mark.parametrize("module", ["minipaged", "minipaged.cli", "minipaged.doctor", "minipaged.kernels",
                                    "minipaged.viz", "minipaged.formulas", "minipaged.core"])
def test_light_modules_load_nothing_heavy(tmp_path, module):
    heavy = "torch numpy transformers triton matplotlib IPython tokenizers safetensors rich".split()
    loaded = python(f"import sys, {module}\nprint([name for name in {heavy} if name in sys.modules])", tmp_path)
    assert loaded == "[]"


def test_public_names():
    assert minipaged.__all__ == ["LLM", "BeamSearchParams", "RequestOutput", "SamplingParams", "__version__"]
    assert set(minipaged.__all__) <= set(dir(minipaged))
    assert minipaged.SamplingParams is import_module("minipaged.core").SamplingParams
    assert minipaged.LLM.__name__ == "LLM" and minipaged.RequestOutput.__name__ == "RequestOutput"
    with pytest.raises(AttributeError, match="no attribute 'LLMs'; it has LLM"):
        _ = minipaged.LLMs


def test_kernels_is_not_importable_under_pytest():
    assert find_spec("kernels") is None
    assert find_spec("minipaged.kernels") is not None


def test_kernels_is_not_importable_from_a_benchmark(root, tmp_path):
    """`python -m` puts the current folder on the path; the package benchmarks takes it off again."""
    shutil.copytree(root / "kernels", tmp_path / "kernels")
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(root / "benchmarks" / "__init__.py", tmp_path / "benchmarks")
    (tmp_path / "benchmarks" / "probe.py").write_text(
        "from importlib.util import find_spec\nprint(find_spec('kernels'), find_spec('minipaged.kernels').name)\n")
    done = subprocess.run([sys.executable, "-m", "benchmarks.probe"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "None minipaged.kernels\n", done.stderr


def test_kernels_is_not_importable_where_a_learner_starts(root, tmp_path):
    code = "import minipaged, importlib.util as u\nprint(u.find_spec('kernels'))"
    assert python(code, tmp_path) == "None"
    assert python(code, root / "notebooks") == "None"
