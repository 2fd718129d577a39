"""Read a model: a folder in Hugging Face layout (config.json, safetensors, generation_config.json), or a GGUF
file (chapter 11).

Every tensor that the config implies must be there, in its shape, and every tensor that is there must be
used: a dropped bias or a forgotten shard would give a model that speaks, but nonsense.
"""
from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from minipaged.errors import ModelFormatError, whole_number
from minipaged.models import model_path
from minipaged.runtime.config import ModelConfig, eos_token_ids
from minipaged.runtime.gguf_file import GGUFFile
from minipaged.runtime.gguf_loader import SMOLLM2, find_smollm2, gguf_config, gguf_tensors, gguf_tokenizer
from minipaged.runtime.model import DecoderModel, tensor_shapes
from minipaged.runtime.tokenizer import Tokenizer

logger = logging.getLogger(__name__)
DTYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(device: str = "auto") -> torch.device:
    """"auto" is the GPU where torch finds one, else the CPU. Errors: ValueError for an unknown device."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device) if isinstance(device, (str, torch.device)) else None
    except RuntimeError:
        chosen = None
    if chosen is None or chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r:.60}; it must be 'auto', 'cpu', 'cuda' or 'cuda:N'")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {str(device)!r}, and torch finds no CUDA GPU here; use 'cpu' or 'auto'")
    return chosen


def choose_dtype(dtype: str, config: ModelConfig, device: torch.device) -> torch.dtype:
    """"auto" is the checkpoint's type, on a CPU at least float32 (16-bit arithmetic is slow there)."""
    if dtype == "auto":
        stored = DTYPES.get(config.dtype, torch.float32)
        return torch.float32 if device.type == "cpu" and stored.itemsize < 4 else stored
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r:.60}; it must be 'auto', {', '.join(map(repr, DTYPES))}")
    return DTYPES[dtype]


def find_model(model: str | os.PathLike[str]) -> Path:
    """A folder or a GGUF file: "smollm2", a path that ends in .gguf, or what `model_path` knows."""
    if not isinstance(model, (str, os.PathLike)):
        raise ValueError(f"model is {model!r:.60}; it must be a name or a path")
    if model == SMOLLM2:
        return find_smollm2()
    path = Path(model).expanduser()
    if path.suffix.lower() == ".gguf" and not path.is_dir():
        if not path.is_file():
            raise ModelFormatError(f"no model {str(model)!r}: there is no such file")
        return path
    return model_path(model)


def load(model: str | os.PathLike[str], *, device: str = "auto", dtype: str = "auto",
         max_model_len: int | None = None) -> tuple[DecoderModel, Tokenizer | None]:
    """The decoder and the tokenizer of a model, by name or path. Errors: ModelFormatError, ValueError."""
    source = find_model(model)
    if source.is_dir():
        loaded = load_model(source, device=device, dtype=dtype, max_model_len=max_model_len)
        return loaded, Tokenizer.from_folder(source)
    file = GGUFFile(source)
    config = gguf_config(file)
    return (_make_model(config, gguf_tensors(file, config), source, device, dtype, max_model_len),
            gguf_tokenizer(file))


def load_model(folder: Path, *, device: str = "auto", dtype: str = "auto",
               max_model_len: int | None = None) -> DecoderModel:
    """The decoder of a model folder. Errors: ModelFormatError naming the file and the key or tensor."""
    return _make_model(load_config(folder), _stored_tensors(folder), folder, device, dtype, max_model_len)


def _make_model(config: ModelConfig, stored: Iterator[tuple[str, torch.Tensor]], source: Path, device: str, dtype: str,
                max_model_len: int | None) -> DecoderModel:
    if max_model_len is not None and not 1 <= whole_number("max_model_len", max_model_len, 0) <= config.max_model_len:
        raise ValueError(f"max_model_len is {max_model_len}; the model in {source.name} takes 1 to "
                         f"{config.max_model_len} tokens")
    chosen_device = choose_device(device)
    chosen = choose_dtype(dtype, config, chosen_device)
    return DecoderModel(config, take_weights(stored, source, config, chosen, chosen_device),
                        max_model_len=max_model_len)


def load_config(folder: Path) -> ModelConfig:
    """config.json, with the end-of-sequence ids of generation_config.json where it has some."""
    if not (folder / "config.json").is_file():
        raise ModelFormatError(f"{folder} has no config.json; a model is a folder in Hugging Face layout")
    config = ModelConfig.from_hf(folder)
    generation = folder / "generation_config.json"
    if generation.is_file():
        ids = eos_token_ids(_read_json(generation), generation.name)
        config = replace(config, eos_token_ids=ids or config.eos_token_ids)
    return config


def take_weights(stored: Iterator[tuple[str, torch.Tensor]], folder: Path, config: ModelConfig, dtype: torch.dtype,
                 device: torch.device) -> dict[str, torch.Tensor]:
    """The tensors that the config asks for, and nothing else, of all that are stored, as (name, tensor) pairs.

    `folder` is only named in messages. Errors: ModelFormatError for a tensor that is missing, unknown or of another
    shape or type.
    """
    expected, weights, unused = tensor_shapes(config), {}, []
    tied = None
    for name, tensor in stored:
        if name in expected:
            if tuple(tensor.shape) != expected[name]:
                raise ModelFormatError(f"tensor {name} has shape {list(tensor.shape)}; config.json asks for "
                                       f"{list(expected[name])}")
            if not tensor.is_floating_point():
                raise ModelFormatError(f"tensor {name} has type {tensor.dtype}; weights must be floating point")
            weights[name] = tensor.to(device, dtype)
        elif name == "lm_head.weight" and config.tie_word_embeddings:
            tied = tensor
        elif not name.endswith(".rotary_emb.inv_freq"):  # old files store these; they follow from the config
            unused.append(name)
    missing = [name for name in expected if name not in weights]
    if missing:
        raise ModelFormatError(f"{_and_more(missing)} missing in {folder}; config.json asks for it")
    if unused:
        raise ModelFormatError(f"{_and_more(unused)} in {folder} is not part of a {config.model_type} model as "
                               "config.json describes it; nothing would use it")
    if tied is not None and not torch.equal(tied.to(device, dtype), weights["model.embed_tokens.weight"]):
        logger.warning("lm_head.weight in %s differs from the embedding that config.json ties it to; "
                       "the embedding is used", folder)
    return weights


def _stored_tensors(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    index = folder / "model.safetensors.index.json"
    if (folder / "model.safetensors").is_file():
        files = {folder / "model.safetensors": None}
    elif index.is_file():
        files = _shards(folder, index)
    else:
        raise ModelFormatError(f"{folder} has neither model.safetensors nor {index.name}")
    for path, names in files.items():
        try:
            with safe_open(path, framework="pt") as file:
                stored = list(file.keys())
                for name in names or ():
                    if name not in stored:
                        raise ModelFormatError(f"{path.name} has no tensor {name}, though {index.name} says so")
                for name in stored:
                    yield name, file.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelFormatError(f"{path} can't be read as safetensors (cut short or damaged?): {error}") from None


def _shards(folder: Path, index: Path) -> dict[Path, list[str]]:
    """shard -> the tensors that the index promises in it."""
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFormatError(f"{index.name} key 'weight_map' is {weight_map!r:.60}; it must map tensors to files")
    shards: dict[Path, list[str]] = {}
    for name, file in weight_map.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise ModelFormatError(f"{index.name} says that {name} is in {file!r}; it must be a file of this folder")
        shards.setdefault(folder / file, []).append(name)
    for path in shards:
        if not path.is_file():
            raise ModelFormatError(f"shard {path.name} is missing in {folder}; {index.name} names it")
    return shards


def _read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelFormatError(f"{path} is not valid JSON: {error}") from None
    if not isinstance(content, dict):
        raise ModelFormatError(f"{path} holds a JSON {type(content).__name__}; it must be an object")
    return content


def _and_more(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"tensor {names[0]}{more}"
