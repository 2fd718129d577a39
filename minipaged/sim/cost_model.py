"""How long a step takes: from a datasheet, or from measured operators (chapters 10 and 14).

Both models are told the same of a step (`StepWork`), which is read off the scheduler's plan. Nothing here
is fitted to the latencies that it is meant to predict.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from minipaged.formulas import KVShape
from minipaged.sim.hardware import Card, ServedModel


@dataclass(slots=True)
class StepWork:
    """What one step computes and moves.

    chunks        (new tokens, tokens already in the cache) of each request with more than one new token
    num_decodes   requests with one new token
    decode_kv     tokens that these attend in all, the new ones included
    num_sampled   requests that get a token from this step
    swap_blocks   blocks moved to or from the host; copied_blocks: blocks copied on the device
    """

    chunks: list[tuple[int, int]] = field(default_factory=list)
    num_decodes: int = 0
    decode_kv: int = 0
    num_sampled: int = 0
    swap_blocks: int = 0
    copied_blocks: int = 0

    @property
    def num_tokens(self) -> int:
        return self.num_decodes + sum(count for count, _ in self.chunks)

    @property
    def num_requests(self) -> int:
        return self.num_decodes + len(self.chunks)


class CostModel(Protocol):
    """What a simulator asks of a cost model."""

    def step_seconds(self, work: StepWork) -> float:
        """Seconds from the start of a step to the moment at which its tokens are known."""

    def describe(self) -> dict:
        """Name, constants and sources, for the output."""


@dataclass(frozen=True)
class Moves:
    """Costs of moving KV blocks: swaps through the host link, copies inside device memory (read and write)."""

    block_bytes: int
    host_link: float
    bandwidth: float

    @classmethod
    def on(cls, card: Card, shape: KVShape, block_size: int) -> Moves:
        return cls(shape.block_bytes(block_size), card.host_link, card.bandwidth)

    def seconds(self, work: StepWork) -> float:
        if not (work.swap_blocks or work.copied_blocks):
            return 0.0
        return self.block_bytes * (work.swap_blocks / self.host_link + 2 * work.copied_blocks / self.bandwidth)


class Roofline:
    """A step is the larger of two times, for its matrices and again for its attention: operations over the
    card's rate, bytes over its bandwidth (Williams et al., "Roofline", CACM 2009).

    Matrices: 2 FLOPs a parameter and token, all weights read once. Attention: 4 FLOPs for each query
    element and attended token; K and V of every attended token read, of every new one written.
    `efficiency` scales both rates. 1.0 is the datasheet, so no real step is faster. For orientation: in the
    measured tables of an RTX 4090 large matrix products reach 100% of the rate and decodes 93% of the
    bandwidth (`tests/sim/test_cost_model.py` computes it). Kernel starts are not modelled;
    `host_overhead_us` is added to every step.
    """

    def __init__(self, card: Card, model: ServedModel, block_size: int = 16, *, efficiency: float = 1.0,
                 host_overhead_us: float = 0.0) -> None:
        if not 0 < efficiency <= 1:
            raise ValueError(f"efficiency is {efficiency}; it must be above 0 and at most 1 (1 is the datasheet)")
        if host_overhead_us < 0:
            raise ValueError(f"host_overhead_us is {host_overhead_us}; it must be at least 0")
        shape = model.shape
        self.card, self.model, self.efficiency, self.host_overhead_us = card, model, efficiency, host_overhead_us
        flops, bandwidth = card.flops * efficiency, card.bandwidth * efficiency
        heads = (shape.num_query_heads or shape.num_kv_heads) * shape.head_dim
        self._weights = model.weight_bytes / bandwidth
        self._token = 2 * model.parameters / flops
        self._attend = 4 * shape.num_layers * heads / flops  # a query token and an attended token
        self._kv = shape.bytes_per_token / bandwidth
        self._moves = Moves.on(card, shape, block_size)

    def step_seconds(self, work: StepWork) -> float:
        tokens, attended, pairs = work.num_decodes, work.decode_kv, work.decode_kv
        for count, before in work.chunks:
            tokens += count
            attended += before + count
            pairs += count * before + count * (count + 1) // 2
        matrices = max(self._weights, tokens * self._token) if tokens else 0.0
        attention = max(pairs * self._attend, (attended + tokens) * self._kv)
        return matrices + attention + self._moves.seconds(work) + self.host_overhead_us / 1e6

    def describe(self) -> dict:
        return {"cost_model": "roofline", "gpu": self.card.name, "model": self.model.name,
                "bandwidth_bytes_per_s": self.card.bandwidth, "flops_per_s": self.card.flops,
                "efficiency": self.efficiency, "host_overhead_us": self.host_overhead_us,
                "source": self.card.source}
