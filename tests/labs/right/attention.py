"""Right answers of different structure for the lab of chapter 04. Each cell is a whole answer."""

# %% attention.gather: position by position
import torch


def paged_attention(query, key_blocks, value_blocks, block_table, context_len):
    size = key_blocks.shape[1]
    places = [(block_table[position // size], position % size) for position in range(context_len)]
    keys = torch.stack([key_blocks[block, offset] for block, offset in places])
    values = torch.stack([value_blocks[block, offset] for block, offset in places])
    repeat = query.shape[0] // keys.shape[1]
    keys, values = keys.repeat_interleave(repeat, dim=1), values.repeat_interleave(repeat, dim=1)
    scores = torch.einsum("hd,khd->hk", query, keys) / query.shape[1] ** 0.5
    return torch.einsum("hk,khd->hd", scores.softmax(dim=-1), values)


# %% attention.gather: online softmax, block after block
import torch


def paged_attention(query, key_blocks, value_blocks, block_table, context_len):
    size, kv_heads = key_blocks.shape[1:3]
    group = query.shape[0] // kv_heads
    largest = torch.full((query.shape[0],), float("-inf"), dtype=query.dtype)
    total = torch.zeros(query.shape[0], dtype=query.dtype)
    weighted = torch.zeros_like(query)
    for start in range(0, context_len, size):
        block, count = block_table[start // size], min(size, context_len - start)
        for offset in range(count):
            for head in range(query.shape[0]):
                score = query[head] @ key_blocks[block, offset, head // group] / query.shape[1] ** 0.5
                new = torch.maximum(largest[head], score)
                scale, weight = torch.exp(largest[head] - new), torch.exp(score - new)
                total[head] = total[head] * scale + weight
                weighted[head] = weighted[head] * scale + weight * value_blocks[block, offset, head // group]
                largest[head] = new
    return weighted / total[:, None]


# %% attention.gather: flat slots and torch's own attention
import torch
from torch.nn.functional import scaled_dot_product_attention


def paged_attention(query, key_blocks, value_blocks, block_table, context_len):
    size = key_blocks.shape[1]
    slots = torch.tensor([block_table[p // size] * size + p % size for p in range(context_len)])
    keys = key_blocks.flatten(0, 1)[slots].transpose(0, 1)
    values = value_blocks.flatten(0, 1)[slots].transpose(0, 1)
    group = query.shape[0] // keys.shape[0]
    rows = query.unflatten(0, (keys.shape[0], group))
    return scaled_dot_product_attention(rows, keys, values).flatten(0, 1)
