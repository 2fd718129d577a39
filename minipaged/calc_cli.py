"""``minipaged calc``: the formulas of :mod:`minipaged.formulas` for a model known by name or config."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path

from minipaged.formulas import (
    DTYPE_BITS,
    KVShape,
    blocks_for_tokens,
    blocks_that_fit,
    canonical_dtype,
    format_bytes,
    max_concurrency,
    parse_bytes,
    prefix_sharing,
    weight_bytes,
)
from minipaged.hf_config import load_config
from minipaged.models import BUNDLED, model_path
from minipaged.presets import Preset, preset, preset_names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model", nargs="?", help="a name from --list, a config.json, or the folder that holds one"
    )
    parser.add_argument("--list", action="store_true", help="list the models known by name, and stop")
    parser.add_argument(
        "--seq-len",
        type=_count,
        default=4096,
        metavar="TOKENS",
        help="tokens of each request, prompt and output together (default 4096)",
    )
    parser.add_argument(
        "--requests", type=_count, default=1, metavar="N", help="requests at once (default 1)"
    )
    parser.add_argument(
        "--shared-prefix",
        type=_count_or_zero,
        default=0,
        metavar="TOKENS",
        help="tokens at the start that all requests have in common (default 0)",
    )
    parser.add_argument(
        "--block-size", type=_count, default=16, metavar="TOKENS", help="tokens a block (default 16)"
    )
    parser.add_argument(
        "--kv-dtype",
        default="auto",
        metavar="TYPE",
        help=f"auto (as the model says), {', '.join(DTYPE_BITS)}",
    )
    parser.add_argument(
        "--kv-scale-bytes",
        type=_count_or_zero,
        default=0,
        metavar="BYTES",
        help="scales kept beside each quantised vector, such as 4 for one fp32 (default 0)",
    )
    parser.add_argument(
        "--tp",
        type=_count,
        default=1,
        metavar="RANKS",
        help="tensor-parallel GPUs; all figures are then for one of them (default 1)",
    )
    parser.add_argument(
        "--memory", type=_memory_size, metavar="SIZE", help="memory of one GPU, as in 80GiB or 80GB"
    )
    parser.add_argument(
        "--gpu-memory-utilization",
        type=_fraction,
        default=1.0,
        metavar="F",
        help="part of it to use (default 1; real engines keep a reserve)",
    )
    parser.add_argument(
        "--weights",
        default="auto",
        metavar="SIZE",
        help="memory of all weights: a size, none, or auto (parameters x type, if known)",
    )
    parser.add_argument("--weights-dtype", default="auto", metavar="TYPE", help="element type of the weights")
    parser.add_argument("--json", action="store_true", help="print one JSON object; all sizes are in bytes")


def run(args: argparse.Namespace) -> int:
    if args.list:
        _print_list(args.json)
        return 0
    if args.model is None:
        raise ValueError("name a model, or see the known ones with `minipaged calc --list`")
    figures = calculate(args)
    print(json.dumps(figures) if args.json else _table(figures))
    return 0


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
        "sequence_bytes_all_full": rank.all_full().sequence_bytes(args.seq_len)
        if rank.num_window_layers
        else None,
        "requests_bytes": args.requests * sequence_bytes,
        "block_bytes": block_bytes,
        "blocks_per_request": blocks_for_tokens(args.seq_len, args.block_size),
        "blocks_for_requests": args.requests * blocks_for_tokens(args.seq_len, args.block_size),
    }
    if args.shared_prefix:
        figures["sharing"] = _sharing(args, rank, block_bytes)
    weights = _weights(args, model)
    figures["weights_bytes"] = None if weights is None else -(-weights // args.tp)
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
        raise ValueError(
            f"the weights take {format_bytes(weights, exact=False)} on each GPU, more than the usable "
            f"{format_bytes(usable, exact=False)}; use more GPUs (--tp), more --memory or a smaller type"
            + (f"; {note}" if note else "")
        )
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
        "max_requests_shared": (
            max_concurrency(blocks, args.seq_len, args.block_size, args.shared_prefix)
            if args.shared_prefix
            else None
        ),
        "max_requests_windowed": (
            left // rank.sequence_bytes(args.seq_len, block_size=args.block_size)
            if rank.num_window_layers
            else None
        ),
    }


# ---------------------------------------------------------------- input


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


def _checked(convert, what: str | None = None):
    def parse(text: str):
        try:
            return convert(text)
        except ValueError as error:
            message = str(error) if what is None else f"{text!r:.60} is not {what}"
            raise argparse.ArgumentTypeError(message) from None

    return parse


def _at_least(minimum: int):
    def convert(text: str) -> int:
        value = int(text)
        if not minimum <= value <= _MOST:
            raise ValueError
        return value

    return convert


def _at_least_a_byte(text: str) -> str:
    """The text of a size, unchanged: whether a unit was written matters later."""
    if parse_bytes(text) < 1:
        raise ValueError(f"{text!r} is no memory at all; write a size, as in 80GiB")
    return text


def _part(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return value


_MOST = 10**12
_count = _checked(_at_least(1), f"a whole number from 1 to {_MOST:,}")
_count_or_zero = _checked(_at_least(0), f"a whole number from 0 to {_MOST:,}")
_fraction = _checked(_part, "a number above 0 and at most 1")
_memory_size = _checked(_at_least_a_byte)


# ---------------------------------------------------------------- output


def _table(f: dict) -> str:
    """The figures as aligned rows, in groups. Every size is exact, then in GiB-like and GB-like units."""
    rows: list[tuple[str, str] | None] = []

    def row(label: str, value: str) -> None:
        rows.append((label, value))

    row("model", f["model"])
    row("KV heads", _heads(f))
    if f["num_window_layers"]:
        sliding = f"{f['num_window_layers']} of {f['num_layers']}"
        row("sliding layers", f"{sliding} keep the last {f['window']:,} tokens")
    if f["layers_without_kv"]:
        row("layers without KV", f"{f['layers_without_kv']}, not counted (fixed state or shared KV)")
    ranks = f["tensor_parallel_size"]
    row("element type", f["kv_dtype"] + (f", figures for one of {ranks} ranks" if ranks > 1 else ""))
    rows.append(None)
    row("one token", format_bytes(f["bytes_per_token"]))
    if f["expanded_bytes_per_token"]:
        row("  if K and V are expanded", format_bytes(f["expanded_bytes_per_token"]))
    row(f"one block of {f['block_size']}", format_bytes(f["block_bytes"]))
    row(f"one request of {f['seq_len']:,}", format_bytes(f["sequence_bytes"]))
    if f["sequence_bytes_all_full"] is not None:
        row("  if every layer keeps all", format_bytes(f["sequence_bytes_all_full"]))
    if f["requests"] > 1:
        row(f"{f['requests']:,} requests", format_bytes(f["requests_bytes"]))
    row("blocks a request", f"{f['blocks_per_request']:,}  (together {f['blocks_for_requests']:,})")
    if f["max_model_len"] and f["seq_len"] > f["max_model_len"]:
        row("note", f"{f['seq_len']:,} tokens are more than the model's own limit of {f['max_model_len']:,}")

    if "sharing" in f:
        s = f["sharing"]
        rows.append(None)
        row(f"prefix of {s['prefix_tokens']:,}, apart", format_bytes(s["prefix_bytes_apart"]))
        row("prefix, stored once", format_bytes(s["prefix_bytes_once"]))
        if s["tail_tokens"]:
            tail = f"{s['tail_tokens']} tokens in a last, part-filled block"
            row("tail", f"{tail}: {s['blocks_copied_on_write']} copies on write")
        else:
            row("tail", "none: the prefix ends with a full block, nothing to copy")
        row("blocks, apart -> shared", f"{s['blocks_apart']:,} -> {s['blocks_shared']:,}")
        row("saved", f"{format_bytes(s['saved_bytes'])} ({s['saved_percent']:.1f}% of the blocks)")

    if f["weights_bytes"] is not None or "memory" in f:
        rows.append(None)
        row(
            "weights",
            format_bytes(f["weights_bytes"])
            if f["weights_bytes"] is not None
            else "not counted; pass --weights SIZE to take them off",
        )
    if "memory" in f:
        m = f["memory"]
        row("memory", format_bytes(m["memory_bytes"]))
        if m["note"]:
            row("note", m["note"])
        row("requests take", f"{m['requests_percent_of_memory']:.1f}% of it")
        row("left for KV", format_bytes(m["left_for_kv_bytes"]))
        row("blocks that fit", f"{m['num_blocks']:,}  ({m['num_tokens']:,} tokens)")
        row("requests that fit", f"{m['max_requests']:,}")
        if m["max_requests_shared"] is not None:
            row("  with the prefix shared", f"{m['max_requests_shared']:,}")
        if m["max_requests_windowed"] is not None:
            row(
                "  if windows are freed",
                f"{m['max_requests_windowed']:,} (above: every layer keeps all its blocks)",
            )
    width = max(len(label) for label, _ in filter(None, rows))
    return "\n".join(f"{r[0]:<{width}}  {r[1]}" if r else "" for r in rows)


def _heads(f: dict) -> str:
    if f["latent_dim"]:
        return f"latent: one vector of {f['latent_dim']} elements a layer and token, {f['num_layers']} layers"
    heads = f"{f['num_kv_heads']} for {f['num_query_heads']} query heads"
    return f"{f['attention']}: {heads}, head_dim {f['head_dim']}, {f['num_layers']} layers"


def _print_list(as_json: bool) -> None:
    models = [preset(name) for name in preset_names()] + [_bundled(name) for name in BUNDLED]
    if as_json:
        print(
            json.dumps(
                [
                    {
                        "model": m.name,
                        "bytes_per_token": m.shape.bytes_per_token,
                        "kv_dtype": m.shape.kv_dtype,
                        "parameters": m.parameters,
                        "source": m.source,
                    }
                    for m in models
                ]
            )
        )
        return
    width = max(len(m.name) for m in models)
    print(f"{'model':<{width}}  {'attention':<14} {'KV bytes a token':>17}  type  parameters")
    for m in models:
        parameters = f"{m.parameters:>15,}" if m.parameters else f"{'not listed':>15}"
        print(
            f"{m.name:<{width}}  {m.shape.attention_kind:<14} {m.shape.bytes_per_token:>15,} B  "
            f"{canonical_dtype(m.shape.kv_dtype)}  {parameters}"
        )
