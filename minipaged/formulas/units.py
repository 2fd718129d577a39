"""Sizes with their units, element types, and whole numbers that are what they should be. Chapter 01."""

from __future__ import annotations

import re
from fractions import Fraction

DTYPE_BITS = {"fp64": 64, "fp32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "int4": 4}
"""Bits of one element, by short name."""

_DTYPE_ALIASES = {
    "float64": "fp64",
    "double": "fp64",
    "float32": "fp32",
    "float": "fp32",
    "float16": "fp16",
    "half": "fp16",
    "bfloat16": "bf16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


def canonical_dtype(name: str) -> str:
    """The short name of an element type: ``"torch.bfloat16"`` -> ``"bf16"``. ValueError if unknown."""
    short = str(name).lower().removeprefix("torch.")
    short = _DTYPE_ALIASES.get(short, short)
    if short not in DTYPE_BITS:
        raise ValueError(f"unknown element type {name!r:.60}; known: {', '.join(DTYPE_BITS)}")
    return short


def parse_bytes(text: str | int) -> int:
    """``"80GiB"``, ``"80 GB"``, ``"1.5MiB"`` or a plain number of bytes -> bytes (a fraction is cut off).

    ``"80G"`` is refused: the reader must say GB (10^9) or GiB (2^30), 7.4% apart.
    """
    match = re.fullmatch(r"\s*([0-9][0-9_,]{0,30}(?:\.[0-9]{1,30})?)\s*([A-Za-z]*)\s*", str(text))
    unit = match.group(2).lower() if match else None
    if unit in ("k", "m", "g", "t"):
        big = unit.upper()
        raise ValueError(
            f"size {str(text)!r} is ambiguous: write {big}B (powers of 1000) or {big}iB (of 1024)"
        )
    if unit not in _UNITS:
        raise ValueError(
            f"cannot read {str(text)!r:.60} as a size; write bytes or a unit, as in 80GiB, 80GB, 512MiB"
        )
    return int(Fraction(re.sub("[_,]", "", match.group(1))) * _UNITS[unit])


def format_bytes(num_bytes: int, *, exact: bool = True) -> str:
    """``3355443200`` -> ``"3,355,443,200 B = 3.125 GiB = 3.355 GB"``; not ``exact``: the last two parts."""
    if abs(num_bytes) < 1000:
        return f"{num_bytes} B"
    power = min(4, max(1, (len(str(abs(num_bytes))) - 1) // 3))
    prefix = "_KMGT"[power]
    decimal_unit = "kB" if prefix == "K" else f"{prefix}B"
    short = f"{num_bytes / 1024**power:,.3f} {prefix}iB = {num_bytes / 1000**power:,.3f} {decimal_unit}"
    return f"{num_bytes:,} B = {short}" if exact else short


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up, for integers of any size."""
    return -(-a // b)


def check_positive(**values: int) -> None:
    """ValueError that names the first of ``values`` that is not a whole number of at least 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} is {value!r:.40}; it must be a whole number of at least 1")


def check_not_negative(**values: int) -> None:
    """ValueError that names the first of ``values`` that is not a whole number of at least 0."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} is {value!r:.40}; it must be a whole number of at least 0")
