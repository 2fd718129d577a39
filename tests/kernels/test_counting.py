"""Bytes counted in Triton's interpreter: what masks let through, once for each time that it is asked for."""
from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="the interpreter comes with Triton")

SCRIPT = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from minipaged.kernels.triton.counting import counted

@triton.jit
def double(out, x, n, SIZE: tl.constexpr):
    at = tl.arange(0, SIZE)
    row = tl.load(x + at, mask=at < n, other=0.0)
    again = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(out + at, row + again, mask=at < n)

x, out = torch.ones(8), torch.zeros(8)
with counted() as counts:
    double[(1,)](out, x, 5, SIZE=8)
double[(1,)](out, x, 8, SIZE=8)
print(counts.load_bytes, counts.store_bytes, counts.moved)
"""


def test_masked_elements_do_not_count_and_nothing_counts_afterwards():
    environment = {**os.environ, "TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.split() == ["40", "20", "60"], done.stderr
