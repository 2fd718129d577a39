"""Plain data: what may be an answer, and what two answers have to have in common to be the same (all labs).

A learner's value is turned into a copy made of None, bool, int, float, str, bytes, list, tuple, dict and
`Array`, of exactly these types: an object that calls itself equal to everything, or a float with an `==` of
its own, becomes `Odd` and equals nothing. Neither torch nor numpy is imported here.
"""
from __future__ import annotations

import math
import sys
from typing import NamedTuple

MAX_ITEMS = 100_000  # of one answer, all levels together
MAX_DEPTH = 30
_KEYS = (bool, int, float, str, bytes, tuple)
#: dtype -> largest relative and absolute difference of two arrays that count as equal
TOLERANCES = {"float64": 1e-9, "float32": 2e-5, "float16": 1e-2, "bfloat16": 3e-2}
FLOAT_TOLERANCE = 1e-9
STAND_IN = 1e300  # for NaN in `without_nan`


class Array(NamedTuple):
    """A tensor or an array. `library`: "torch" or "numpy"; `values`: all elements in row-major order."""

    library: str
    dtype: str
    shape: tuple[int, ...]
    values: tuple

    def __repr__(self) -> str:
        shown = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in self.values[:6])
        more = ", ..." if len(self.values) > 6 else ""
        return f"{self.dtype} [{' x '.join(map(str, self.shape)) or 'one number'}]: {shown}{more}"


class Odd(NamedTuple):
    """A value that is no plain data: the name of its type, or some words. Equal to nothing."""

    what: str

    def __repr__(self) -> str:
        return self.what if " " in self.what else f"an object of type {self.what}"


class Said(NamedTuple):
    """What a drive makes of an answer, in words: "a free block". Never what an answer itself is."""

    text: str

    def __repr__(self) -> str:
        return self.text


def plain(value: object) -> object:
    """A copy of `value` that consists of plain data only. Never raises; what can't be copied becomes `Odd`."""
    return _copy(value, [MAX_ITEMS], 0)


def _copy(value: object, left: list[int], depth: int) -> object:
    kind = type(value)
    left[0] -= 1
    if value is None or kind in (bool, int, float, str, bytes, Array, Odd):
        return value
    if depth > MAX_DEPTH or left[0] < 0 or (kind in (list, tuple, dict) and len(value) > left[0]):
        return Odd("something too large or too deep for an answer")
    if kind in (list, tuple):
        return kind(_copy(item, left, depth + 1) for item in value)
    if kind is dict:
        return {_copy(key, left, depth + 1) if type(key) in _KEYS else Odd("an odd key"): _copy(item, left, depth + 1)
                for key, item in value.items()}
    return _array(value, left) or Odd(_name(kind))


def _array(value: object, left: list[int]) -> Array | None:
    """Only the libraries' own classes: a subclass may lie."""
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch is not None and type(value) is getattr(torch, "Tensor", None):
        copied = value.detach().to("cpu", copy=True)
        if copied.is_sparse or copied.numel() > left[0]:
            return None
        if copied.is_floating_point():
            items = copied.double().flatten().tolist()
        else:
            items = copied.flatten().tolist()
        left[0] -= len(items)
        return Array("torch", str(value.dtype).removeprefix("torch."), tuple(value.shape), tuple(items))
    if numpy is not None and type(value) is getattr(numpy, "ndarray", None) and value.dtype.kind in "biuf":
        if value.size > left[0]:
            return None
        left[0] -= value.size
        return Array("numpy", value.dtype.name, tuple(value.shape), tuple(value.ravel().tolist()))
    return None


def _name(kind: type) -> str:
    module = getattr(kind, "__module__", "")
    return kind.__name__ if module in ("builtins", "__main__") else f"{module}.{kind.__name__}"


def same(expected: object, got: object) -> bool:
    """Is `got` as good as `expected`? Both are plain data.

    Numbers have the same type, but where a float is expected a whole number will do; floats may differ in the
    last digits; a tuple is as good as a list; NaN, Odd and infinities of the wrong sign equal nothing.
    """
    return difference(expected, got) is None


def difference(expected: object, got: object, where: str = "") -> str | None:
    """None when they are the same, else what differs, in words that follow "your answer"."""
    at = f" at {where}" if where else ""
    if isinstance(expected, Said) or isinstance(got, Said):
        return None if expected == got and type(expected) is type(got) else f"is {show(got)}, not {show(expected)}"
    if isinstance(got, Odd):
        return f"is {got}{at}; {_describe(expected)} is expected"
    if isinstance(expected, Array):
        return _array_difference(expected, got, at)
    if type(expected) is float:
        if type(got) not in (int, float):
            return f"is {show(got)} ({_kind(got)}){at}; the number {show(expected)} is expected"
        return None if _close(expected, got, FLOAT_TOLERANCE) else f"is {show(got)}{at}, not {show(expected)}"
    if isinstance(expected, (list, tuple)) and type(got) in (list, tuple):
        if len(expected) != len(got):
            return f"has {len(got)} item(s){at}, not {len(expected)}: {show(got)}, not {show(expected)}"
        return _first(difference(a, b, f"{where}[{index}]") for index, (a, b) in enumerate(zip(expected, got)))
    if type(expected) is not type(got):
        hint = ""
        if type(expected) is int and type(got) is float:
            hint = "; // and round-up by -(-a // b) keep whole numbers whole"
        return f"is {show(got)} ({_kind(got)}){at}; {_describe(expected)} is expected{hint}"
    if isinstance(expected, dict):
        if expected.keys() != got.keys():
            return f"has the keys {show(list(got))}{at}, not {show(list(expected))}"
        return _first(difference(item, got[key], f"{where}[{key!r}]") for key, item in expected.items())
    return None if expected == got else f"is {show(got)}{at}, not {show(expected)}"


def without_nan(value: object) -> object:
    """Plain data in which equal things compare equal: NaN and infinities become numbers that nobody computes."""
    if isinstance(value, Array):
        return value._replace(values=tuple(map(without_nan, value.values)))
    if type(value) in (list, tuple):
        return type(value)(map(without_nan, value))
    if type(value) is dict:
        return {key: without_nan(item) for key, item in value.items()}
    return STAND_IN if isinstance(value, float) and not math.isfinite(value) else value


def _first(differences) -> str | None:
    return next((text for text in differences if text is not None), None)


def _array_difference(expected: Array, got: object, at: str) -> str | None:
    if not isinstance(got, Array):
        return f"is {show(got)} ({_kind(got)}){at}; a {expected.library} array of shape {_shape(expected)} is expected"
    if got.shape != expected.shape:
        return f"has the shape {_shape(got)}{at}, not {_shape(expected)}"
    if (got.library, got.dtype) != (expected.library, expected.dtype):
        return (f"is a {got.library} array of {got.dtype}{at}; a {expected.library} array of {expected.dtype} is "
                "expected")
    tolerance = TOLERANCES.get(expected.dtype, 0.0)
    for index, (a, b) in enumerate(zip(expected.values, got.values)):
        if not _close(a, b, tolerance):
            place = ", ".join(map(str, _unravel(index, expected.shape)))
            return f"is {show(b)} at [{place}]{at}, not {show(a)}"
    return None


def _close(a: float, b: float, tolerance: float) -> bool:
    if a == b:
        return True
    try:
        return math.isfinite(a) and math.isfinite(b) and abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))
    except OverflowError:  # an int that no float can hold
        return False


def _unravel(index: int, shape: tuple[int, ...]) -> list[int]:
    place = []
    for size in reversed(shape):
        index, offset = divmod(index, size)
        place.append(offset)
    return place[::-1]


def _shape(array: Array) -> str:
    return "[" + ", ".join(map(str, array.shape)) + "]"


def _kind(value: object) -> str:
    return {"NoneType": "nothing was returned"}.get(type(value).__name__, type(value).__name__)


def _describe(value: object) -> str:
    return "None" if value is None else f"the {type(value).__name__} {show(value)}"


def show(value: object, width: int = 90) -> str:
    """Short text of plain data; the middle of a long one is left out. Huge whole numbers by their length."""
    if type(value) is int and value.bit_length() > 4000:
        return f"a whole number of {value.bit_length()} bits"
    if type(value) is float:
        return f"{value:.6g}" if not value.is_integer() or abs(value) > 1e15 else f"{value:.1f}"
    if isinstance(value, (Array, Odd, Said)) or not isinstance(value, (list, tuple, dict)):
        text = repr(value)
    elif isinstance(value, dict):
        text = "{" + ", ".join(f"{show(key)}: {show(item, 40)}" for key, item in list(value.items())[:40]) + "}"
    else:
        shown = ", ".join(show(item, 60) for item in value[:40]) + (", ..." if len(value) > 40 else "")
        text = f"[{shown}]" if isinstance(value, list) else f"({shown}{',' if len(value) == 1 else ''})"
    return text if len(text) <= width else f"{text[:width * 2 // 3]} ... {text[-width // 4:]}"
