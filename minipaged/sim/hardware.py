"""Cards and models of the simulator: what is in a datasheet, and what follows from it (chapters 01 and 14)."""
from __future__ import annotations

import difflib
from dataclasses import dataclass

from minipaged.formulas import KVShape, blocks_that_fit, weight_bytes
from minipaged.presets import preset


@dataclass(frozen=True)
class Card:
    """A device as its datasheet has it.

    memory       bytes of device memory
    bandwidth    bytes a second to that memory
    flops        dense 16-bit matrix operations a second, accumulated in fp32, without sparsity
    host_link    bytes a second to host memory, one direction (what a swap goes through)
    source       where the numbers are from
    """

    name: str
    memory: int
    bandwidth: float
    flops: float
    host_link: float
    source: str


_PCIE4, _PCIE5 = 32e9, 64e9  # x16, one direction: 16 or 32 GT/s x 16 lanes / 8, before encoding (PCI-SIG)

CARDS = {card.name: card for card in (
    Card("a100-40g", 40 * 10**9, 1.555e12, 312e12, _PCIE4,
         "NVIDIA A100 datasheet (SXM, 40 GB): 1,555 GB/s, 312 TFLOPS BF16; the card of the PagedAttention paper"),
    Card("a100-80g", 80 * 10**9, 2.039e12, 312e12, _PCIE4,
         "NVIDIA A100 datasheet (SXM, 80 GB): 2,039 GB/s, 312 TFLOPS BF16, PCIe 4.0 x16"),
    Card("h100", 80 * 10**9, 3.35e12, 989.4e12, _PCIE5,
         "NVIDIA H100 datasheet (SXM): 3.35 TB/s, 1,979 TFLOPS BF16 with sparsity = 989 without, PCIe 5.0 x16"),
    Card("h200", 141 * 10**9, 4.8e12, 989.4e12, _PCIE5,
         "NVIDIA H200 datasheet (SXM): 141 GB, 4.8 TB/s, 1,979 TFLOPS BF16 with sparsity = 989 without, PCIe 5.0"),
    Card("rtx-4090", 24 * 10**9, 1.008e12, 165.2e12, _PCIE4,
         "NVIDIA Ada GPU architecture whitepaper, appendix: 1,008 GB/s, 165.2 TFLOPS FP16 with FP32 accumulate"),
    Card("laptop-cpu", 16 * 10**9, 76.8e9, 768e9, 76.8e9,
         "by arithmetic: dual-channel DDR5-4800 = 2 x 8 B x 4.8 GT/s; 8 cores x 2 AVX2 FMA x 8 fp32 x 2 x 3.0 GHz; "
         "its 'host link' is its own memory"),
)}


def card(name: str) -> Card:
    """The card of that name. ValueError with the closest names for another."""
    key = name.lower().replace("_", "-").replace("a100-80gb", "a100-80g").replace("rtx4090", "rtx-4090")
    if key in CARDS:
        return CARDS[key]
    close = difflib.get_close_matches(key, CARDS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ValueError(f"unknown card {name!r}; {hint}there are {', '.join(CARDS)}")


#: of these presets a step reads and computes only some experts, which the roofline does not model
_MIXTURES = ("mixtral-8x7b", "qwen3-30b-a3b", "qwen3-235b-a22b", "gpt-oss-20b", "gpt-oss-120b", "deepseek-v2-lite",
             "deepseek-v2", "deepseek-v3")


@dataclass(frozen=True)
class ServedModel:
    """What serving needs to know of a model: the shape of its KV cache and its number of parameters."""

    name: str
    shape: KVShape
    parameters: int

    @property
    def weight_bytes(self) -> int:
        """Weights in the KV cache's own element type, 16 bits for every preset."""
        return weight_bytes(self.parameters, self.shape.kv_dtype)

    def num_blocks(self, on: Card, block_size: int = 16, share: float = 0.9) -> int:
        """Blocks that fit beside the weights in `share` of a card's memory. ValueError when none does.

        Activations are not subtracted; a real server keeps some room for them.
        """
        left = int(on.memory * share) - self.weight_bytes
        blocks = blocks_that_fit(max(0, left), self.shape.block_bytes(block_size))
        if blocks < 1:
            raise ValueError(f"{self.name} has {self.weight_bytes / 1e9:.1f} GB of weights; {share:.0%} of {on.name} "
                             f"is {on.memory * share / 1e9:.1f} GB, so no block fits. Take a larger card or a "
                             "smaller model")
        return blocks


def served_model(name: str) -> ServedModel:
    """A preset by name. ValueError for a mixture of experts and where the number of parameters is unknown."""
    found = preset(name)
    if found.name in _MIXTURES:
        raise ValueError(f"{found.name} is a mixture of experts; the simulator's costs are for dense models. Take a "
                         "dense one, such as llama-3.1-8b")
    if found.parameters is None:
        raise ValueError(f"the number of parameters of {found.name} is not on record; take another model, such as "
                         "llama-3.1-8b")
    return ServedModel(found.name, found.shape, found.parameters)
