"""Importing is light and always works; the choice between compiling and interpreting is made in time."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU Triton compiles")
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton is not installed"
)

DECODE = """
import torch
from minipaged.kernels import grid, triton
inputs = grid.make_inputs(grid.Case(16, 32, 2, {dtype!r}), [5, 18])
verdict = grid.judge("decode", triton.paged_decode, inputs, None)
print("PASSED" if verdict.passed else verdict)
"""


def python(code, **environment):
    base = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        env=base | environment,
        check=False,
    )


def test_import_loads_nothing_heavy():
    done = python(
        "import sys, minipaged.kernels as k; print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_every_module_imports_without_triton():
    code = """
import sys
sys.modules["triton"] = None
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "triton" else find(name, *a)
import minipaged.kernels.triton as kernels
import minipaged.kernels.cuda_ops, minipaged.kernels.race, minipaged.kernels.traffic
import minipaged.kernels.triton.aot
from minipaged.kernels import grid
try:
    kernels.paged_decode(*grid.make_inputs(grid.Case(), [3]).decode)
except minipaged.kernels.KernelUnavailable as missing:
    print(missing)
"""
    done = python(code)
    assert done.stdout.startswith("Triton is not installed. On Linux: pip install"), done.stderr


@no_gpu
@needs_triton
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_interpreting_is_chosen_without_being_asked(dtype):
    assert python(DECODE.format(dtype=dtype)).stdout.strip() == "PASSED"


@no_gpu
@needs_triton
def test_too_late_to_interpret():
    done = python("import triton\n" + DECODE.format(dtype="float32"))
    assert "Restart the kernel (the Python process) and set TRITON_INTERPRET=1" in done.stderr


@no_gpu
@needs_triton
def test_a_wrong_interpreter_is_noticed():
    """The self-test compares with plain torch before the first result goes out."""
    code = """
from minipaged.kernels import triton as kernels, grid
kernels._upcast = lambda *_: False      # what the interpreter does to bfloat16 by itself
kernels.paged_decode(*grid.make_inputs(grid.Case(), [3]).decode)
"""
    assert "this Triton's interpreter gives wrong numbers here" in python(code).stderr


def test_names_of_the_package():
    from minipaged import kernels

    for name in kernels.__all__:
        assert getattr(kernels, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'flash'"):
        kernels.flash  # noqa: B018
