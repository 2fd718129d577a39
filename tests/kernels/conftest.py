"""Without a GPU, Triton is interpreted, and that is decided before anything imports it."""

from __future__ import annotations

import importlib.util
import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


@pytest.fixture
def triton_kernels():
    """The Triton kernels, or a skip where Triton is not installed. Installed but not working is a failure."""
    if importlib.util.find_spec("triton") is None and not os.environ.get("CI"):
        pytest.skip("Triton is not installed")
    from minipaged.kernels import triton as kernels
    from minipaged.kernels.triton import runtime

    runtime.prepare(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    return kernels


@pytest.fixture
def device() -> str:
    """Where Triton runs here."""
    return "cuda" if torch.cuda.is_available() else "cpu"
