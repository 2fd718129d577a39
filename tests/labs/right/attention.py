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


# %% attention.groups: repeat_interleave and einsum
import torch


def kv_head(head, num_heads, num_kv_heads):
    if num_heads % num_kv_heads != 0:
        raise ValueError("unequal groups")
    return head * num_kv_heads // num_heads


def grouped_scores(queries, keys):
    repeated = keys.repeat_interleave(len(queries) // keys.shape[1], dim=1)
    return torch.einsum("hd,khd->hk", queries, repeated) * queries.shape[-1] ** -0.5


# %% attention.groups: a list of groups
import math

import torch


def kv_head(head, num_heads, num_kv_heads):
    size = num_heads / num_kv_heads
    if size != int(size):
        raise ValueError(size)
    groups = [range(int(size) * kv, int(size) * (kv + 1)) for kv in range(num_kv_heads)]
    return next(kv for kv, group in enumerate(groups) if head in group)


def grouped_scores(queries, keys):
    scores = torch.empty(queries.shape[0], keys.shape[0], dtype=queries.dtype)
    for head, query in enumerate(queries):
        for position, rows in enumerate(keys):
            scores[head, position] = torch.dot(query, rows[kv_head(head, len(queries), len(rows))])
    return scores / math.sqrt(queries.shape[1])


# %% attention.groups: the queries in groups
import torch


def kv_head(head, num_heads, num_kv_heads):
    try:
        return int(torch.arange(num_heads).view(num_kv_heads, -1).eq(head).nonzero()[0, 0])
    except RuntimeError:
        raise ValueError("no equal groups") from None


def grouped_scores(queries, keys):
    groups = queries.unflatten(0, (keys.shape[1], -1))
    scores = groups @ keys.permute(1, 2, 0)
    return scores.flatten(0, 1) / queries.shape[1] ** 0.5


# %% attention.causal-chunk: query by query
import torch


def chunk_attention(queries, keys, values, start):
    rows = []
    for index, query in enumerate(queries):
        sees = start + index + 1
        weights = torch.softmax(keys[:sees] @ query / len(query) ** 0.5, dim=0)
        rows.append(weights @ values[:sees])
    return torch.stack(rows)


# %% attention.causal-chunk: tril with a diagonal, torch's own attention
import torch
from torch.nn.functional import scaled_dot_product_attention


def chunk_attention(queries, keys, values, start):
    end = start + queries.shape[0]
    visible = torch.ones(queries.shape[0], end, dtype=torch.bool).tril(diagonal=start)
    return scaled_dot_product_attention(queries[None], keys[None, :end], values[None, :end], attn_mask=visible)[0]


# %% attention.causal-chunk: sums of exponentials by hand
import math

import torch


def chunk_attention(queries, keys, values, start):
    out = torch.zeros_like(queries)
    for index in range(len(queries)):
        scores = [float(queries[index] @ keys[position]) / math.sqrt(queries.shape[1])
                  for position in range(start + index + 1)]
        largest = max(scores)
        weights = [math.exp(score - largest) for score in scores]
        for position, weight in enumerate(weights):
            out[index] += weight / sum(weights) * values[position]
    return out


# %% attention.online: keeps everything (right, though it misses the point)
import torch


class OnlineSoftmax:
    def __init__(self, head_dim):
        self.blocks = []

    def add(self, scores, values):
        self.blocks.append((scores, values))

    def result(self):
        scores, values = (torch.cat(parts) for parts in zip(*self.blocks))
        return scores.softmax(0) @ values


# %% attention.online: an answer and the logarithm of its weight
import torch


class OnlineSoftmax:
    """Keeps the result itself; a new block is mixed in by its share, as split kernels merge their parts."""

    def __init__(self, head_dim):
        self.log_total = torch.tensor(float("-inf"), dtype=torch.float64)
        self.mean = torch.zeros(head_dim, dtype=torch.float64)

    def add(self, scores, values):
        block = torch.logsumexp(scores, dim=0)
        if torch.isinf(block):
            return
        both = torch.logaddexp(self.log_total, block)
        self.mean = torch.exp(self.log_total - both) * self.mean + torch.exp(scores - both) @ values
        self.log_total = both

    def result(self):
        return self.mean


# %% attention.online: token by token, in plain numbers
import math

import torch


class OnlineSoftmax:
    def __init__(self, head_dim):
        self.largest, self.total, self.sums = None, 0.0, [0.0] * head_dim

    def add(self, scores, values):
        for score, value in zip(scores.tolist(), values.tolist()):
            if score == -math.inf:
                continue
            if self.largest is None or score > self.largest:
                scale = 0.0 if self.largest is None else math.exp(self.largest - score)
                self.total *= scale
                self.sums = [item * scale for item in self.sums]
                self.largest = score
            weight = math.exp(score - self.largest)
            self.total += weight
            self.sums = [item + weight * other for item, other in zip(self.sums, value)]

    def result(self):
        return torch.tensor([item / self.total for item in self.sums], dtype=torch.float64)
