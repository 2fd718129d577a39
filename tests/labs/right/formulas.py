"""Right answers of different structure for the lab of chapter 01. Each cell is a whole answer."""

# %% formulas.kv-bytes: math.prod
import math


def kv_bytes(num_layers, num_kv_heads, head_dim, num_tokens, bytes_per_element):
    return math.prod((2, num_layers, num_kv_heads, head_dim, num_tokens, bytes_per_element))


# %% formulas.kv-bytes: keys and values apart
def kv_bytes(layers, heads, dim, tokens, size):
    vector = heads * dim * size
    keys = values = vector * layers * tokens
    return keys + values


# %% formulas.kv-bytes: layer by layer
def kv_bytes(num_layers, num_kv_heads, head_dim, num_tokens, bytes_per_element):
    total = 0
    for _ in range(num_layers):
        for _ in ("key", "value"):
            total += num_tokens * num_kv_heads * head_dim * bytes_per_element
    return total


# %% formulas.fits: one after the other
def fits(card, weights, layers, heads, kv_heads, head_dim, tokens):
    left, count = card * 1024 ** 3 - weights * 1000 ** 3, 0
    if left < 0:
        return [0, 0]
    a_token = 4 * layers * kv_heads * head_dim
    count = left // a_token // tokens
    return [count, left - count * a_token * tokens]


# %% formulas.fits: the course's own shape
from minipaged.formulas import KVShape


def fits(card_gib, weights_gb, num_layers, num_heads, num_kv_heads, head_dim, num_tokens):
    room = (card_gib << 30) - weights_gb * int(1e9)
    each = KVShape(num_layers, num_kv_heads, head_dim).sequence_bytes(num_tokens)
    return (room // each, room % each) if room > 0 else (0, 0)


# %% formulas.fits: exact fractions
from fractions import Fraction
from math import floor


def fits(card_gib, weights_gb, num_layers, num_heads, num_kv_heads, head_dim, num_tokens):
    free_bytes = Fraction(card_gib) * 2 ** 30 - Fraction(weights_gb) * 10 ** 9
    per_head = Fraction(2 * 2 * head_dim)
    request = per_head * num_kv_heads * num_layers * num_tokens
    count = max(0, floor(free_bytes / request))
    return count, int(max(0, free_bytes - count * request))
