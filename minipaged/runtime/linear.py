"""One weight matrix and the fastest way that torch has to multiply by it here (chapter 11).

On a CPU in float32, oneDNN can lay a matrix out anew once, in the order in which its kernels read it. A batch
of 8 then takes half the time that `torch.nn.functional.linear` needs for SmolLM2's matrices, which are read
from memory anew in every step.
"""
from __future__ import annotations

import torch
from torch.nn.functional import linear

_TYPICAL_ROWS = 32  # what the layout is chosen for; any number works


class Linear:
    """x [rows, in] -> x @ weight.T + bias [rows, out]. `weight` is [out, in]; so is `shape`."""

    __slots__ = ("shape", "bias", "_weight", "_packed")

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self.shape, self.bias = tuple(weight.shape), bias
        self._packed = _pack(weight)
        self._weight = weight if self._packed is None else None

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is None:
            return linear(x, self._weight, self.bias)
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, self.bias, "none", [], "")


def _pack(weight: torch.Tensor) -> torch.Tensor | None:
    """The matrix as oneDNN wants it; None where this build of torch or this processor has no such thing."""
    if weight.device.type != "cpu" or weight.dtype is not torch.float32 or not torch.backends.mkldnn.is_available():
        return None
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)
        torch.ops.mkldnn._linear_pointwise(weight.new_zeros(1, weight.shape[1]), packed, None, "none", [], "")
    except (AttributeError, RuntimeError):
        return None
    return packed
