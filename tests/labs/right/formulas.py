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
