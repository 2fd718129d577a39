"""How many bytes a KV cache takes, how many blocks fit, what is wasted or saved. Chapters 01 to 05.

Pure functions on plain numbers: no torch, no files. Two rules keep the results honest:

* bytes are integers; one KiB is 1,024 B and one kB is 1,000 B, and a printed size always names its unit;
* a *token slot* is the room for one token in every layer; waste is counted in slots, so that it does not
  depend on the model.

The first formula of the field, for a model in which every query head has its own K and V head::

    KV bytes = 2 (K and V) x layers x KV heads x head_dim x tokens x bytes per element

:class:`KVShape` is that formula with today's exceptions: fewer KV heads than query heads, layers that see
only a sliding window, one shared latent vector in place of K and V, and quantised elements with scales.

``units`` reads and writes sizes, ``kv_shape`` knows bytes, ``blocks`` counts and shares blocks, ``waste`` counts slots.
"""

from minipaged.formulas.blocks import (
    PrefixSharing,
    blocks_for_tokens,
    blocks_that_fit,
    max_concurrency,
    prefix_sharing,
)
from minipaged.formulas.kv_shape import KVShape, kv_bytes_per_token, weight_bytes
from minipaged.formulas.units import DTYPE_BITS, canonical_dtype, cdiv, format_bytes, parse_bytes
from minipaged.formulas.waste import Reservation, WasteSplit, expected_tail_waste, split_waste

__all__ = [
    "DTYPE_BITS",
    "KVShape",
    "PrefixSharing",
    "Reservation",
    "WasteSplit",
    "blocks_for_tokens",
    "blocks_that_fit",
    "canonical_dtype",
    "cdiv",
    "expected_tail_waste",
    "format_bytes",
    "kv_bytes_per_token",
    "max_concurrency",
    "parse_bytes",
    "prefix_sharing",
    "split_waste",
    "weight_bytes",
]
