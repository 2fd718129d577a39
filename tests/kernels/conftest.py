"""Without a GPU, Triton is interpreted, and that is decided before anything imports it."""

from __future__ import annotations

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")


@pytest.fixture
def triton_kernels():
    """The Triton kernels, or a skip that says why."""
    from minipaged.kernels import triton as kernels
    from minipaged.kernels.checks import KernelUnavailable
    from minipaged.kernels.triton import runtime

    try:
        runtime.prepare(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    except KernelUnavailable as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))  # there everything was installed
        pytest.skip(str(missing))
    return kernels


@pytest.fixture
def device() -> str:
    """Where Triton runs here."""
    return "cuda" if torch.cuda.is_available() else "cpu"
