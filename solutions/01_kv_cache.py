# %% [markdown]
# # Lab 01 · The KV cache
#
# Before a cache can be managed, one must know how large it is. This lab counts its bytes.

# %% tags=["setup"]
from minipaged.lab import check, hint, use

# %% [markdown]
# {{exercise formulas.kv-bytes}}
#
# Every token that a request has read leaves a *key* and a *value* in every layer. Each is a row of
# `num_kv_heads x head_dim` numbers, and a number takes `bytes_per_element` bytes (2 for fp16).
#
# **Example.** A model of 13 billion parameters has 40 layers and 40 heads of 128 numbers. One token in fp16 takes
# `kv_bytes(40, 40, 128, 1, 2)` = 819,200 bytes: 800 KiB for a single token.

# %% nbgrader={"grade": false, "grade_id": "formulas_kv-bytes", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kv_bytes(num_layers, num_kv_heads, head_dim, num_tokens, bytes_per_element):
    """Bytes of the keys and values of one request, a whole number."""
    ### BEGIN SOLUTION
    numbers = 2 * num_layers * num_kv_heads * head_dim * num_tokens
    return numbers * bytes_per_element
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "formulas_kv-bytes_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("formulas.kv-bytes")
