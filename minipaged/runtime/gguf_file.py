"""Reading a GGUF file: its metadata, and its tensors made into plain numbers (chapter 11).

A GGUF file is one header (typed key-value pairs, then name, shape, type and offset of each tensor) and the
tensors' bytes. Quantised tensors are rows of blocks of 32 weights that share a scale d, and with Q4_1 a
minimum m: weight = d x q + m. Source: the format's description in the `ggml` repository, docs/gguf.md.
"""
from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from minipaged.errors import ModelFormatError

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_BLOCK = 32  # weights a block


class GGUFTensor(NamedTuple):
    """Where a tensor lies. `shape` is [out, in], outermost first, as torch has it."""

    shape: tuple[int, ...]
    kind: int
    offset: int


def _float(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda raw: raw.view(dtype).float()


def _scale(raw: torch.Tensor, place: int) -> torch.Tensor:
    """A float16 of each block [blocks, bytes], as [blocks, 1]."""
    return raw[:, place:place + 2].contiguous().view(torch.float16).float()


def _nibbles(raw: torch.Tensor) -> torch.Tensor:
    """16 bytes -> 32 numbers of 4 bits: first all low halves, then all high ones."""
    return torch.cat((raw & 15, raw >> 4), dim=1).float()


def _q4_0(raw: torch.Tensor) -> torch.Tensor:
    return (_nibbles(raw[:, 2:]) - 8) * _scale(raw, 0)


def _q4_1(raw: torch.Tensor) -> torch.Tensor:
    return _nibbles(raw[:, 4:]) * _scale(raw, 0) + _scale(raw, 2)


def _q8_0(raw: torch.Tensor) -> torch.Tensor:
    return raw[:, 2:].contiguous().view(torch.int8).float() * _scale(raw, 0)


class _Kind(NamedTuple):
    name: str
    weights: int  # in a block
    size: int  # bytes of a block
    decode: Callable[[torch.Tensor], torch.Tensor]


_KINDS = {0: _Kind("F32", 1, 4, _float(torch.float32)), 1: _Kind("F16", 1, 2, _float(torch.float16)),
          30: _Kind("BF16", 1, 2, _float(torch.bfloat16)), 2: _Kind("Q4_0", _BLOCK, 18, _q4_0),
          3: _Kind("Q4_1", _BLOCK, 20, _q4_1), 8: _Kind("Q8_0", _BLOCK, 34, _q8_0)}


class GGUFFile:
    """`metadata`: key -> value; `tensors`: name -> where it lies. Errors: ModelFormatError naming the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        except (OSError, ValueError) as error:
            raise ModelFormatError(f"{path} can't be read: {error}") from None
        if self._bytes[:4] != b"GGUF":
            raise ModelFormatError(f"{path} is not a GGUF file: it doesn't begin with 'GGUF'")
        self._at = 4
        try:
            version, num_tensors, num_values = self._scalar("<I"), self._scalar("<Q"), self._scalar("<Q")
            if version not in (2, 3):
                raise ModelFormatError(f"{path} has GGUF version {version}; versions 2 and 3 are known")
            self.metadata = {self._string(): self._value(self._scalar("<I")) for _ in range(num_values)}
            self.tensors = dict(self._tensor() for _ in range(num_tensors))
        except (struct.error, UnicodeDecodeError, OverflowError, MemoryError):
            raise ModelFormatError(f"{path} ends or breaks off within its header; it was cut short or "
                                   "damaged") from None
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ModelFormatError(f"{path} has general.alignment {alignment!r}; it must be a whole number above 0")
        self._data = -(-self._at // alignment) * alignment
        for name in self.tensors:
            self._extent(name)

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor in float32."""
        start, end, kind = self._extent(name)
        raw = torch.frombuffer(self._bytes, dtype=torch.uint8, offset=start, count=end - start)
        if start % 4:  # a view as wider numbers needs an aligned start
            raw = raw.clone()
        return kind.decode(raw if kind.weights == 1 else raw.view(-1, kind.size)).view(self.tensors[name].shape)

    def _extent(self, name: str) -> tuple[int, int, _Kind]:
        """(first byte, byte after the last one, kind) of a tensor."""
        tensor = self.tensors[name]
        kind = _KINDS.get(tensor.kind)
        if kind is None:
            known = ", ".join(one.name for one in _KINDS.values())
            raise ModelFormatError(f"{self.path}: tensor {name} has quantisation type {tensor.kind}; there are {known}")
        if not tensor.shape or min(tensor.shape) < 1 or tensor.shape[-1] % kind.weights:
            raise ModelFormatError(f"{self.path}: tensor {name} of type {kind.name} has shape {list(tensor.shape)}; "
                                   f"its rows must be blocks of {kind.weights}")
        start = self._data + tensor.offset
        end = start + math.prod(tensor.shape) // kind.weights * kind.size
        if end > len(self._bytes):
            raise ModelFormatError(f"{self.path}: tensor {name} ends at byte {end}, the file at {len(self._bytes)}; "
                                   "it was cut short")
        return start, end, kind

    def _scalar(self, form: str) -> int | float | bool:
        value, = struct.unpack_from(form, self._bytes, self._at)
        self._at += struct.calcsize(form)
        return value

    def _string(self) -> str:
        size = self._scalar("<Q")
        if size > len(self._bytes) - self._at:
            raise struct.error
        self._at += size
        return self._bytes[self._at - size:self._at].decode("utf-8")

    def _value(self, kind: int) -> object:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            item, count = self._scalar("<I"), self._scalar("<Q")
            if item in _SCALARS:
                form = f"<{count}{_SCALARS[item][1]}"
                values = struct.unpack_from(form, self._bytes, self._at)
                self._at += struct.calcsize(form)
                return list(values)
            return [self._value(item) for _ in range(count)]
        if kind not in _SCALARS:
            raise ModelFormatError(f"{self.path} has a value of unknown type {kind} in its header")
        return self._scalar(_SCALARS[kind])

    def _tensor(self) -> tuple[str, GGUFTensor]:
        name = self._string()
        sizes = [self._scalar("<Q") for _ in range(self._scalar("<I"))]
        kind = self._scalar("<I")
        return name, GGUFTensor(tuple(reversed(sizes)), kind, self._scalar("<Q"))
