"""The decoder: one file for Llama, Mistral, Qwen2 and Qwen3 (chapter 11).

The families differ only in switches of `ModelConfig`: biases (Qwen2), norms on q and k (Qwen3), windows
(Mistral). All tokens of a step are rows of one matrix, whoever they belong to; only attention, which the
caller passes in, knows which rows are one request. Sources: Touvron et al., "Llama", 2023; the Mistral 7B,
Qwen2 and Qwen3 reports; numerics follow the classes of the same names in `transformers`.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn.functional import embedding, rms_norm, silu

from minipaged.runtime.config import ModelConfig
from minipaged.runtime.inputs import StepInputs
from minipaged.runtime.linear import Linear
from minipaged.runtime.rope import rope_frequencies, rope_table, rotate

#: attention(layer, query, key, value) -> [tokens, num_heads, head_dim]
Attention = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


@dataclass(slots=True)
class Layer:
    """The weights of one layer. q, k and v stand above one another in one matrix, as do gate and up."""

    input_norm: torch.Tensor
    qkv: Linear
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    o: Linear
    post_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class DecoderModel:
    """Token ids in, logits out. It keeps no state of any request.

    `weights` has the names of a Hugging Face checkpoint (`tensor_shapes` lists them); each layer takes its own
    out of it, so that none is in memory twice for long. `num_kv_projections` counts the tokens whose K and V were
    computed, in every layer: chapter 01 compares it with and without a cache.
    """

    def __init__(self, config: ModelConfig, weights: dict[str, torch.Tensor], *,
                 max_model_len: int | None = None) -> None:
        self.config = config
        self.num_kv_projections = 0
        self.embed = weights.pop("model.embed_tokens.weight")
        self.norm = weights.pop("model.norm.weight")
        self.lm_head = Linear(self.embed if config.tie_word_embeddings else weights.pop("lm_head.weight"))
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
            qkv = layer.qkv(self._rms_norm(x, layer.input_norm))
            qkv = qkv.view(tokens, heads + 2 * kv_heads, head_dim)
            turning, value = qkv.split((heads + kv_heads, kv_heads), dim=1)  # q and k above one another
            if layer.q_norm is not None:
                query, key = turning.split((heads, kv_heads), dim=1)
                turning = torch.cat((self._rms_norm(query, layer.q_norm), self._rms_norm(key, layer.k_norm)), dim=1)
            query, key = rotate(turning, cos, sin).split((heads, kv_heads), dim=1)
            out = attention(index, query, key, value)
            x = x + layer.o(out.view(tokens, heads * head_dim))
            gate, up = layer.gate_up(self._rms_norm(x, layer.post_norm)).chunk(2, dim=-1)
            x = x + layer.down(silu(gate) * up)
        return self.lm_head(self._rms_norm(x[inputs.sample_rows], self.norm))

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """x / sqrt(mean(x^2)) x weight, over the last dimension; 16-bit types are normed in float32."""
        if x.dtype.itemsize >= 4:
            return rms_norm(x, weight.shape, weight, self.config.rms_norm_eps)
        y = x.float()
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


def _layer(weights: dict[str, torch.Tensor], prefix: str) -> Layer:
    attn, mlp = prefix + "self_attn.", prefix + "mlp."

    def joined(part: str, *names: str) -> Linear:
        matrices, biases = ([weights.pop(f"{part}{name}.{kind}") for name in names if f"{part}{name}.{kind}" in weights]
                            for kind in ("weight", "bias"))
        return Linear(torch.cat(matrices), torch.cat(biases) if biases else None)

    return Layer(
        input_norm=weights.pop(prefix + "input_layernorm.weight"), qkv=joined(attn, "q_proj", "k_proj", "v_proj"),
        q_norm=weights.pop(attn + "q_norm.weight", None), k_norm=weights.pop(attn + "k_norm.weight", None),
        o=joined(attn, "o_proj"), post_norm=weights.pop(prefix + "post_attention_layernorm.weight"),
        gate_up=joined(mlp, "gate_proj", "up_proj"), down=joined(mlp, "down_proj"))
