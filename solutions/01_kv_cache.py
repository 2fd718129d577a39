# %% [markdown]
# # Lab 01 · The KV cache
#
# Before a cache can be managed, one must know how large it is. This lab counts its bytes, and then the requests that a card
# can serve with them.

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

# %% [markdown]
# {{exercise formulas.fits}}
#
# How many requests can a card serve at once (concurrency, 并发)? It has `card_gib` **GiB** of memory, as `nvidia-smi` says.
# The weights take `weights_gb` **GB**, as the model's page says. The model has `num_layers` layers, `num_heads` query heads
# and `num_kv_heads` KV heads (grouped-query attention, 分组查询注意力) of `head_dim` numbers; keys and values are fp16, 2 bytes
# each. Every request has `num_tokens` tokens.
#
# Return two whole numbers: how many requests fit beside the weights, and how many bytes are left over. When the weights
# alone do not fit, that is `(0, 0)`.
#
# **Example.** 13 billion parameters in fp16 are 26 GB. On a card of 80 GiB that leaves 85,899,345,920 - 26,000,000,000 =
# 59,899,345,920 bytes. A request of 4,096 tokens takes 3,355,443,200 with 40 layers and 40 KV heads of 128, so
# `fits(80, 26, 40, 40, 40, 128, 4096)` is `(17, 2856811520)`. The arguments are in the order of the text above.

# %% nbgrader={"grade": false, "grade_id": "formulas_fits", "locked": false, "schema_version": 3, "solution": true, "task": false}
def fits(card_gib, weights_gb, num_layers, num_heads, num_kv_heads, head_dim, num_tokens):
    """Requests that fit beside the weights, bytes that are left over."""
    ### BEGIN SOLUTION
    left = max(0, card_gib * 2 ** 30 - weights_gb * 10 ** 9)
    one_request = 2 * num_layers * num_kv_heads * head_dim * 2 * num_tokens
    return divmod(left, one_request)
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "formulas_fits_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("formulas.fits")
