"""The decoder: one file for Llama, Mistral, Qwen2 and Qwen3 (chapter 11).

The families differ only in switches of `ModelConfig`: biases (Qwen2), norms on q and k (Qwen3), windows
(Mistral). All tokens of a step are rows of one matrix, whoever they belong to; only attention, which the
caller passes in, knows which rows are one request. Sources: Touvron et al., "Llama", 2023; the Mistral 7B,
Qwen2 and Qwen3 reports; numerics follow the classes of the same names in `transformers`.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.nn.functional import embedding, linear, silu

from minipaged.runtime.config import ModelConfig
from minipaged.runtime.inputs import StepInputs
from minipaged.runtime.rope import rope_frequencies, rope_table, rotate

#: attention(layer, query, key, value) -> [tokens, num_heads, head_dim]
Attention = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(slots=True)
class Layer:
    """The weights of one layer, [out, in]. q, k and v stand above one another, as do gate and up."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    o: torch.Tensor
    o_bias: torch.Tensor | None
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    gate_up_bias: torch.Tensor | None
    down: torch.Tensor
    down_bias: torch.Tensor | None


class DecoderModel:
    """Token ids in, logits out. It keeps no state of any request.

    `weights` has the names of a Hugging Face checkpoint (`tensor_shapes` lists them). `num_kv_projections`
    counts the tokens whose K and V were computed, in every layer: chapter 01 compares it with and without a
    cache.
    """

    def __init__(self, config: ModelConfig, weights: Mapping[str, torch.Tensor], *,
                 max_model_len: int | None = None) -> None:
        self.config = config
        self.num_kv_projections = 0
        self.embed = weights["model.embed_tokens.weight"]
        self.norm = weights["model.norm.weight"]
        self.lm_head = self.embed if config.tie_word_embeddings else weights["lm_head.weight"]
        self.layers = [_layer(weights, f"model.layers.{index}.") for index in range(config.num_layers)]
        self.dtype, self.device = self.embed.dtype, self.embed.device
        frequencies, factor = rope_frequencies(config.head_dim, config.rope_theta, config.rope_scaling)
        self.max_model_len = max_model_len or config.max_model_len
        table = rope_table(self.max_model_len, frequencies, factor)
        self.cos, self.sin = table.to(self.device, self.dtype)

    @torch.inference_mode()
    def forward(self, inputs: StepInputs, attention: Attention) -> torch.Tensor:
        """Logits [samples, vocab_size] of the rows that `inputs.sample_rows` names."""
        config = self.config
        tokens, heads, kv_heads, head_dim = (len(inputs.token_ids), config.num_heads, config.num_kv_heads,
                                             config.head_dim)
        self.num_kv_projections += tokens
        cos, sin = self.cos[inputs.positions][:, None], self.sin[inputs.positions][:, None]
        x = embedding(inputs.token_ids, self.embed)
        for index, layer in enumerate(self.layers):
            qkv = linear(self._rms_norm(x, layer.input_norm), layer.qkv, layer.qkv_bias)
            qkv = qkv.view(tokens, heads + 2 * kv_heads, head_dim)
            query, key, value = qkv.split((heads, kv_heads, kv_heads), dim=1)
            if layer.q_norm is not None:
                query, key = self._rms_norm(query, layer.q_norm), self._rms_norm(key, layer.k_norm)
            out = attention(index, rotate(query, cos, sin), rotate(key, cos, sin), value)
            x = x + linear(out.view(tokens, heads * head_dim), layer.o, layer.o_bias)
            gate, up = linear(self._rms_norm(x, layer.post_norm), layer.gate_up,
                              layer.gate_up_bias).chunk(2, dim=-1)
            x = x + linear(silu(gate) * up, layer.down, layer.down_bias)
        return linear(self._rms_norm(x[inputs.sample_rows], self.norm), self.lm_head)

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """x / sqrt(mean(x^2)) x weight, over the last dimension; 16-bit types are normed in float32."""
        y = x if x.dtype.itemsize >= 4 else x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.config.rms_norm_eps)
        return weight * y.to(x.dtype)


def tensor_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor that a checkpoint of this config must hold, by name."""
    hidden, inter, dim = config.hidden_size, config.intermediate_size, config.head_dim
    q, kv = config.num_heads * dim, config.num_kv_heads * dim
    shapes = {"model.embed_tokens.weight": (config.vocab_size, hidden), "model.norm.weight": (hidden,)}
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    for index in range(config.num_layers):
        layer, attn, mlp = f"model.layers.{index}.", f"model.layers.{index}.self_attn.", f"model.layers.{index}.mlp."
        shapes[layer + "input_layernorm.weight"] = shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
        for name, rows, has_bias in (("q_proj", q, config.qkv_bias), ("k_proj", kv, config.qkv_bias),
                                     ("v_proj", kv, config.qkv_bias)):
            shapes[f"{attn}{name}.weight"] = (rows, hidden)
            if has_bias:
                shapes[f"{attn}{name}.bias"] = (rows,)
        shapes[attn + "o_proj.weight"] = (hidden, q)
        if config.o_bias:
            shapes[attn + "o_proj.bias"] = (hidden,)
        if config.qk_norm:
            shapes[attn + "q_norm.weight"] = shapes[attn + "k_norm.weight"] = (dim,)
        for name in ("gate_proj", "up_proj", "down_proj"):
            shape = (hidden, inter) if name == "down_proj" else (inter, hidden)
            shapes[f"{mlp}{name}.weight"] = shape
            if config.mlp_bias:
                shapes[f"{mlp}{name}.bias"] = shape[:1]
    return shapes


def _layer(weights: Mapping[str, torch.Tensor], prefix: str) -> Layer:
    attn, mlp = prefix + "self_attn.", prefix + "mlp."

    def joined(part: str, names: tuple[str, ...], kind: str) -> torch.Tensor | None:
        found = [weights[f"{part}{name}.{kind}"] for name in names if f"{part}{name}.{kind}" in weights]
        return torch.cat(found) if found else None

    qkv, gate_up = ("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj")
    return Layer(
        input_norm=weights[prefix + "input_layernorm.weight"], qkv=joined(attn, qkv, "weight"),
        qkv_bias=joined(attn, qkv, "bias"), q_norm=weights.get(attn + "q_norm.weight"),
        k_norm=weights.get(attn + "k_norm.weight"), o=weights[attn + "o_proj.weight"],
        o_bias=weights.get(attn + "o_proj.bias"), post_norm=weights[prefix + "post_attention_layernorm.weight"],
        gate_up=joined(mlp, gate_up, "weight"), gate_up_bias=joined(mlp, gate_up, "bias"),
        down=weights[mlp + "down_proj.weight"], down_bias=weights.get(mlp + "down_proj.bias"))
