"""Count what a Triton kernel reads and writes, in the interpreter. Chapter 12.

Every load and store of an interpreted kernel goes through two functions of Triton's interpreter. Here they are
watched: the bytes that a mask lets through.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np


@dataclass
class Counts:
    """Bytes moved by all kernels that ran inside ``counted``. Element sizes are those of the tensors."""

    load_bytes: int = 0
    store_bytes: int = 0

    @property
    def moved(self) -> int:
        return self.load_bytes + self.store_bytes


@contextmanager
def counted() -> Iterator[Counts]:
    """Count loads and stores of interpreted kernels. Triton must have been imported in interpret mode."""
    from triton.runtime.interpreter import interpreter_builder as builder

    counts = Counts()
    load, store = builder.create_masked_load, builder.create_masked_store

    def counting_load(ptrs, mask, *rest):
        result = load(ptrs, mask, *rest)
        counts.load_bytes += result.data.dtype.itemsize * int(np.count_nonzero(mask.data))
        return result

    def counting_store(ptrs, value, mask, *rest):
        counts.store_bytes += value.data.dtype.itemsize * int(np.count_nonzero(mask.data))
        return store(ptrs, value, mask, *rest)

    builder.create_masked_load, builder.create_masked_store = counting_load, counting_store
    try:
        yield counts
    finally:
        builder.create_masked_load, builder.create_masked_store = load, store
