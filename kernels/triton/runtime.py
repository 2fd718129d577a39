"""Compiled or interpreted? Decided once, before Triton is imported. Chapter 12.

Triton reads ``TRITON_INTERPRET`` when ``@triton.jit`` runs, its own library functions included. So the choice
must be made before ``import triton``: with a GPU the kernels are compiled, without one the variable is set
here. When something else imported Triton first, it is too late in this process, and we say so.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys

import torch

from ..checks import KernelRefused, KernelUnavailable


def prepare(device: torch.device) -> bool:
    """Make the kernels callable for tensors on ``device``; returns True when they are interpreted.

    Raises :class:`KernelUnavailable` when Triton is missing or was imported in the other mode.
    """
    interpreted = _choose()
    if not interpreted and device.type != "cuda":
        raise KernelRefused(
            f"tensors on {device}; compiled Triton kernels take CUDA tensors. Move them, or set "
            "TRITON_INTERPRET=1 before Python starts to run on the CPU"
        )
    if interpreted and not _self_test_started:
        _self_test_started.append(True)  # the test comes through here again
        _self_test()
    return interpreted


_self_test_started: list[bool] = []


@functools.cache
def _choose() -> bool:
    if importlib.util.find_spec("triton") is None:
        raise KernelUnavailable(
            "Triton is not installed. On Linux: pip install 'triton>=3.7,<3.10'. It has no wheel for other systems; "
            "the reference and CUDA-on-CPU kernels do not need it"
        )
    asked = os.environ.get("TRITON_INTERPRET", "0") in ("1", "true", "True", "on", "yes")
    wanted = asked or not torch.cuda.is_available()
    if wanted and "triton" not in sys.modules:
        os.environ["TRITON_INTERPRET"] = "1"
        # One rounding per operation, as torch: the interpreter fuses nothing, and 3.9 warns about the default.
        os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    import triton.language as tl
    from triton.runtime.interpreter import InterpretedFunction

    if isinstance(tl.cdiv, InterpretedFunction) != wanted:
        mode = "compile" if wanted else "interpret"
        raise KernelUnavailable(
            f"Triton was imported earlier in this process in {mode} mode, and that cannot be changed. Restart the "
            f"kernel (the Python process) and set TRITON_INTERPRET={int(wanted)} before anything else"
        )
    return wanted


def _self_test() -> None:
    """A few heads against plain torch: the interpreter has been silently wrong before (bfloat16)."""
    from .. import reference
    from . import paged_decode

    generator = torch.Generator().manual_seed(0)
    cache = torch.randn(2, 3, 8, 2, 16, generator=generator)
    query = torch.randn(2, 4, 16, generator=generator)
    tables, lens = torch.tensor([[2, 0], [1, 0]]), torch.tensor([11, 3])
    for dtype, limit in ((torch.float32, 1e-5), (torch.bfloat16, 5e-2)):
        args = (query.to(dtype), cache[0].to(dtype), cache[1].to(dtype), tables, lens)
        error = float((paged_decode(*args).double() - reference.paged_decode(*args)).abs().max())
        if not error < limit:
            _self_test_started.clear()
            raise KernelUnavailable(
                f"this Triton's interpreter gives wrong numbers here (error {error:.1e} in {dtype}); use the reference "
                "or CUDA kernels, or another Triton between 3.7 and 3.9"
            )
