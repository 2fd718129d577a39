"""The figures of one ``minipaged calc`` run, as data: bytes, blocks, what a prefix saves, how many requests fit."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

from minipaged.formulas import (
    KVShape,
    blocks_for_tokens,
    blocks_that_fit,
    cdiv,
    format_bytes,
    max_concurrency,
    parse_bytes,
    prefix_sharing,
    weight_bytes,
)
from minipaged.hf_config import load_config
from minipaged.models import BUNDLED, model_path
from minipaged.presets import Preset, preset, preset_names


def known_models() -> list[Preset]:
    """The models known by name: presets, in their order, then those that come with minipaged."""
    return [preset(name) for name in preset_names()] + [_bundled(name) for name in BUNDLED]


def calculate(args: argparse.Namespace) -> dict:
    """All figures of one ``calc`` run. Keys that end in ``_bytes`` are integers in bytes, for one rank."""
    model = _find(args.model)
    shape = replace(model.shape, scale_bytes=args.kv_scale_bytes)
    if args.kv_dtype != "auto":
        shape = replace(shape, kv_dtype=args.kv_dtype)
    rank = shape.per_rank(args.tp)
    if args.shared_prefix > args.seq_len:
        raise ValueError(f"--shared-prefix {args.shared_prefix} is longer than --seq-len {args.seq_len}")

    block_bytes = rank.block_bytes(args.block_size)
    sequence_bytes = rank.sequence_bytes(args.seq_len)
    figures = {
        "model": model.name,
        "source": model.source,
        "attention": rank.attention_kind,
        "num_layers": rank.num_layers,
        "num_query_heads": rank.num_query_heads,
        "num_kv_heads": rank.num_kv_heads,
        "head_dim": rank.head_dim,
        "latent_dim": rank.latent_dim,
        "num_window_layers": rank.num_window_layers,
        "window": rank.window,
        "layers_without_kv": rank.layers_without_kv,
        "max_model_len": rank.max_model_len,
        "kv_dtype": rank.kv_dtype,
        "tensor_parallel_size": args.tp,
        "seq_len": args.seq_len,
        "requests": args.requests,
        "block_size": args.block_size,
        "bytes_per_token": rank.bytes_per_token,
        "bytes_per_token_and_layer": rank.layer_bytes_per_token,
        "expanded_bytes_per_token": rank.expanded().bytes_per_token if rank.latent_dim else None,
        "sequence_bytes": sequence_bytes,
        "sequence_bytes_all_full": rank.all_full().sequence_bytes(args.seq_len) if rank.num_window_layers else None,
        "requests_bytes": args.requests * sequence_bytes,
        "block_bytes": block_bytes,
        "blocks_per_request": blocks_for_tokens(args.seq_len, args.block_size),
        "blocks_for_requests": args.requests * blocks_for_tokens(args.seq_len, args.block_size),
    }
    if args.shared_prefix:
        figures["sharing"] = _sharing(args, rank, block_bytes)
    weights = _weights(args, model)
    figures["weights_bytes"] = None if weights is None else cdiv(weights, args.tp)
    if args.memory is not None:
        figures["memory"] = _memory(args, rank, figures)
    return figures


def _sharing(args: argparse.Namespace, rank: KVShape, block_bytes: int) -> dict:
    own = args.seq_len - args.shared_prefix
    whole = prefix_sharing(args.requests, args.shared_prefix, args.block_size, own)
    return {
        "prefix_tokens": args.shared_prefix,
        "prefix_bytes_apart": args.requests * args.shared_prefix * rank.bytes_per_token,
        "prefix_bytes_once": args.shared_prefix * rank.bytes_per_token,
        "tail_tokens": args.shared_prefix % args.block_size,
        "blocks_apart": whole.blocks_apart,
        "blocks_shared": whole.blocks_shared,
        "blocks_copied_on_write": whole.copies,
        "blocks_saved": whole.blocks_saved,
        "saved_bytes": whole.blocks_saved * block_bytes,
        "saved_percent": 100 * whole.saving,
    }


def _memory(args: argparse.Namespace, rank: KVShape, figures: dict) -> dict:
    memory = parse_bytes(args.memory)
    usable = int(memory * args.gpu_memory_utilization)
    note = _memory_note(args.memory)
    weights = figures["weights_bytes"] or 0
    left = usable - weights
    if left < 0:
        raise ValueError(f"the weights take {format_bytes(weights, exact=False)} on each GPU, more than the usable "
                         f"{format_bytes(usable, exact=False)}; use more GPUs (--tp), more --memory or a smaller type"
                         + (f"; {note}" if note else ""))
    blocks = blocks_that_fit(left, figures["block_bytes"])
    return {
        "memory_bytes": memory,
        "note": note,
        "usable_bytes": usable,
        "left_for_kv_bytes": left,
        "requests_percent_of_memory": 100 * figures["requests_bytes"] / memory,
        "num_blocks": blocks,
        "num_tokens": blocks * args.block_size,
        "max_requests": max_concurrency(blocks, args.seq_len, args.block_size),
        "max_requests_shared": (max_concurrency(blocks, args.seq_len, args.block_size, args.shared_prefix)
                                if args.shared_prefix else None),
        "max_requests_windowed": (left // rank.sequence_bytes(args.seq_len, block_size=args.block_size)
                                  if rank.num_window_layers else None),
    }


def _find(name: str) -> Preset:
    """A known name, or the config at a path. A name that is also a file in this folder needs a ``./``."""
    if name in BUNDLED:
        return _bundled(name)
    looks_like_path = name.endswith(".json") or name.startswith(".") or "\\" in name or os.path.isabs(name)
    if not looks_like_path:
        try:
            return preset(name)
        except ValueError:
            if not Path(name).exists():
                raise
    config = load_config(name)
    return Preset(name, KVShape.from_config(config), None, None, "the config itself")


def _bundled(name: str) -> Preset:
    config = load_config(model_path(name))
    return Preset(name, KVShape.from_config(config), None, None, "comes with minipaged")


def _weights(args: argparse.Namespace, model: Preset) -> int | None:
    """Bytes of all weights, over all ranks; None where nobody says it."""
    if args.weights == "none":
        return None
    if args.weights != "auto":
        return parse_bytes(args.weights)
    if model.parameters is None:
        return None
    dtype = args.weights_dtype if args.weights_dtype != "auto" else model.dtype or "fp16"
    return weight_bytes(model.parameters, dtype)


def _memory_note(text: str) -> str | None:
    """A hint for ``--memory 80``, which says 80 bytes and means 80 GiB."""
    if parse_bytes(text) >= 2**20 or not text.strip()[-1].isdigit():
        return None
    return f"--memory {text.strip()} has no unit and means bytes; write one, as in 80GiB"
