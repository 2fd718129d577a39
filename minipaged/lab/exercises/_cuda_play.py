"""What the CUDA exercises share: they need g++, and play a kernel on the CPU."""
from __future__ import annotations

from minipaged.lab.trace import Trace

NEEDS = ("g++",)


def play(trace: Trace, function: str, main: str, numbers: list) -> dict[str, list[str]] | None:
    """Call `function` for the kernel's text and run it; see minipaged.lab.cuda_kernel.play."""
    from minipaged.lab import cuda_kernel  # loads the kernels' builder

    return cuda_kernel.play(trace, function, main, numbers)
