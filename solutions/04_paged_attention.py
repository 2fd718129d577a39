# %% [markdown]
# # Lab 04 · Paged attention
#
# The keys and values of a request lie in blocks anywhere in memory. Attention has to find them through the block table,
# and must not look at what lies behind the end of the request. You begin with the heads that share keys, read blocks
# through a table, attend a chunk of tokens, and end with the trick that all fast kernels use.

# %% tags=["setup"]
import torch

from minipaged.lab import check, hint, use

# %% [markdown]
# {{exercise attention.groups}}
#
# With grouped-query attention (分组查询注意力) several query heads read the same keys and values: neighbours form a group,
# and a group has one KV head.
#
# - `kv_head(head, num_heads, num_kv_heads)` gives the KV head of query head `head`. When the query heads can't be divided
#   evenly, it raises `ValueError`.
# - `grouped_scores(queries, keys)`: `queries` is `[num_heads, head_dim]`, one new token; `keys` is `[context, num_kv_heads,
#   head_dim]`, in order. The result is `[num_heads, context]`: query times key, divided by the root of `head_dim`.
#
# **Example.** 8 query heads and 2 KV heads: groups of 4. `kv_head(3, 8, 2)` is 0 and `kv_head(4, 8, 2)` is 1. With 28 and 4
# a group has 7 heads, and `kv_head(27, 28, 4)` is 3.

# %% nbgrader={"grade": false, "grade_id": "attention_groups", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kv_head(head, num_heads, num_kv_heads):
    """The KV head that a query head reads; ValueError when the groups would not be equal."""
    ### BEGIN SOLUTION
    group, rest = divmod(num_heads, num_kv_heads)
    if rest:
        raise ValueError(f"{num_heads} query heads do not divide into {num_kv_heads} equal groups")
    return head // group
    ### END SOLUTION


def grouped_scores(queries, keys):
    """Scores [num_heads, context] of one token's queries."""
    ### BEGIN SOLUTION
    num_heads, head_dim = queries.shape
    mine = [kv_head(head, num_heads, keys.shape[1]) for head in range(num_heads)]
    return torch.stack([keys[:, kv] @ query for kv, query in zip(mine, queries)]) / head_dim ** 0.5
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "attention_groups_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("attention.groups")

# %% [markdown]
# {{exercise attention.gather}}
#
# - `query` is `[num_heads, head_dim]`: one new token.
# - `key_blocks` and `value_blocks` are `[num_blocks, block_size, num_kv_heads, head_dim]`: the whole pool.
# - `block_table` lists the request's blocks in order; `context_len` counts its tokens, the new one included.
# - The result is `[num_heads, head_dim]`. Neighbouring query heads share a KV head, `num_heads / num_kv_heads` of them.
#
# **Example.** Block size 4, table `[2, 0]`, 7 tokens: positions 0 to 3 are block 2, positions 4 to 6 are the first
# three slots of block 0. The fourth slot of block 0 belongs to nobody; in our pool it holds NaN.

# %% nbgrader={"grade": false, "grade_id": "attention_gather", "locked": false, "schema_version": 3, "solution": true, "task": false}
def paged_attention(query, key_blocks, value_blocks, block_table, context_len):
    """Attention of one token over its paged context: softmax(q k / sqrt(head_dim)) v, head by head."""
    ### BEGIN SOLUTION
    num_heads, head_dim = query.shape
    group = num_heads // key_blocks.shape[2]
    keys = torch.cat([key_blocks[block] for block in block_table])[:context_len]
    values = torch.cat([value_blocks[block] for block in block_table])[:context_len]
    out = torch.zeros_like(query)
    for head in range(num_heads):
        kv_head = head // group
        weights = torch.softmax(keys[:, kv_head] @ query[head] / head_dim ** 0.5, dim=0)
        out[head] = weights @ values[:, kv_head]
    return out
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "attention_gather_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("attention.gather")

# %% [markdown]
# And now the engine writes its story with *your* attention, every layer, every token. It takes a while: you attend one
# token at a time, and chapter 12 is about doing better.

# %%
from minipaged import SamplingParams

with use(paged_attention=paged_attention) as mine:
    llm = mine.llm(num_blocks=32, block_size=4)
    print(llm.generate(["Once upon a time"], SamplingParams(temperature=0, max_tokens=24))[0].outputs[0].text)

# %% [markdown]
# {{exercise attention.causal-chunk}}
#
# A prompt is computed in chunks, and each chunk attends to all that came before it. One head is enough here.
#
# - `queries` is `[count, head_dim]`: the new tokens. The first one stands at position `start`.
# - `keys` and `values` are `[slots, head_dim]`: the request's blocks in order, the new tokens included. `slots` is a multiple
#   of the block size, so at the end there may be slots without a token. They hold NaN.
# - The result is `[count, head_dim]`. Each query sees all positions up to its own (causal mask, 因果掩码).
#
# **Example.** Block size 4. 6 tokens are computed, and a chunk of 3 comes: `start` is 6, and the three queries stand at
# positions 6, 7 and 8. They see 7, 8 and 9 tokens. Three blocks have 12 slots, so the last three slots belong to nobody.

# %% nbgrader={"grade": false, "grade_id": "attention_causal-chunk", "locked": false, "schema_version": 3, "solution": true, "task": false}
def chunk_attention(queries, keys, values, start):
    """Attention of a chunk, [count, head_dim]."""
    ### BEGIN SOLUTION
    count, head_dim = queries.shape
    context = start + count
    scores = queries @ keys[:context].T / head_dim ** 0.5
    position = torch.arange(start, context)[:, None]
    scores[torch.arange(context) > position] = float("-inf")
    return torch.softmax(scores, dim=1) @ values[:context]
    ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "attention_causal-chunk_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("attention.causal-chunk")

# %% [markdown]
# {{exercise attention.online}}
#
# A context of 100,000 tokens has 100,000 scores a head. A fast kernel never holds them all: it walks from block to block and
# keeps three numbers and vectors (online softmax, 在线 softmax). Write the class that does so, for one head.
#
# - `OnlineSoftmax(head_dim)` has seen nothing yet.
# - `add(scores, values)` takes one block: `scores` is `[n]`, `values` is `[n, head_dim]`, both float64. A score can be very large,
#   and it is `-inf` for a token that must not be seen; that may be all of a block.
# - `result()` is `[head_dim]`, float64: the softmax of all scores so far, times their values. It may be asked at any time
#   after a score that is not `-inf`, and more blocks may follow.
#
# **Example.** The first block has the scores 0 and 0 with the values 2 and 4: the weights are equal, the result is 3. The
# second block has one score, 1000, with the value 7. Measured from 1000 the old weights are exp(-1000) = 0: the result is 7.
#
# The check can't see what your class keeps. Keep little: no list of scores.

# %% nbgrader={"grade": false, "grade_id": "attention_online", "locked": false, "schema_version": 3, "solution": true, "task": false}
class OnlineSoftmax:
    """softmax(scores) @ values, block by block."""

    def __init__(self, head_dim):
        ### BEGIN SOLUTION
        self.largest = torch.tensor(float("-inf"), dtype=torch.float64)
        self.total = torch.zeros((), dtype=torch.float64)
        self.weighted = torch.zeros(head_dim, dtype=torch.float64)
        ### END SOLUTION

    def add(self, scores, values):
        ### BEGIN SOLUTION
        largest = torch.maximum(self.largest, scores.max())
        if largest == float("-inf"):
            return
        scale, weights = torch.exp(self.largest - largest), torch.exp(scores - largest)
        self.total = self.total * scale + weights.sum()
        self.weighted = self.weighted * scale + weights @ values
        self.largest = largest
        ### END SOLUTION

    def result(self):
        ### BEGIN SOLUTION
        return self.weighted / self.total
        ### END SOLUTION

# %% nbgrader={"grade": true, "grade_id": "attention_online_check", "locked": true, "points": 1, "schema_version": 3, "solution": false, "task": false}
check("attention.online")

# %% [markdown]
# Now the engine attends page by page, with *your* softmax. This function walks along the block table; it holds one block of
# scores at a time, however long the context is.

# %%
def page_by_page(query, key_blocks, value_blocks, block_table, context_len):
    out, size, group = torch.empty_like(query), key_blocks.shape[1], query.shape[0] // key_blocks.shape[2]
    for head in range(query.shape[0]):
        online = OnlineSoftmax(query.shape[1])
        for start in range(0, context_len, size):
            block, count = block_table[start // size], min(size, context_len - start)
            keys, values = (pool[block, :count, head // group].double() for pool in (key_blocks, value_blocks))
            online.add(keys @ query[head].double() / query.shape[1] ** 0.5, values)
        out[head] = online.result()
    return out

with use(paged_attention=page_by_page) as mine:
    llm = mine.llm(num_blocks=32, block_size=4)
    print(llm.generate(["Once upon a time"], SamplingParams(temperature=0, max_tokens=12))[0].outputs[0].text)
