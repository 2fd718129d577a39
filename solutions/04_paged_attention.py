# %% [markdown]
# # Lab 04 · Paged attention
#
# The keys and values of a request lie in blocks anywhere in memory. Attention has to find them through the block table,
# and must not look at what lies behind the end of the request.

# %% tags=["setup"]
import torch

from minipaged.lab import check, hint, use

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
