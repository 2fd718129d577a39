"""The figures of ``minipaged calc`` as a person reads them: aligned rows, each size exact and with both its units."""

from __future__ import annotations

from collections.abc import Sequence

from minipaged.formulas import canonical_dtype, format_bytes
from minipaged.presets import Preset

Rows = list[tuple[str, str]]


def figures_table(figures: dict) -> str:
    """The figures of one run, in groups: the model, its sizes, what a prefix saves, what fits into a memory."""
    groups = [_model(figures), _sizes(figures)]
    if "sharing" in figures:
        groups.append(_sharing(figures["sharing"]))
    if figures["weights_bytes"] is not None or "memory" in figures:
        groups.append(_memory(figures["weights_bytes"], figures.get("memory")))
    width = max(len(label) for rows in groups for label, _ in rows)
    return "\n\n".join("\n".join(f"{label:<{width}}  {value}" for label, value in rows) for rows in groups)


def _model(f: dict) -> Rows:
    rows = [("model", f["model"]), ("KV heads", _heads(f))]
    if f["num_window_layers"]:
        sliding = f"{f['num_window_layers']} of {f['num_layers']}"
        rows.append(("sliding layers", f"{sliding} keep the last {f['window']:,} tokens"))
    if f["layers_without_kv"]:
        rows.append(("layers without KV", f"{f['layers_without_kv']}, not counted (fixed state or shared KV)"))
    ranks = f["tensor_parallel_size"]
    rows.append(("element type", f["kv_dtype"] + (f", figures for one of {ranks} ranks" if ranks > 1 else "")))
    return rows


def _heads(f: dict) -> str:
    if f["latent_dim"]:
        return f"latent: one vector of {f['latent_dim']} elements a layer and token, {f['num_layers']} layers"
    heads = f"{f['num_kv_heads']} for {f['num_query_heads']} query heads"
    return f"{f['attention']}: {heads}, head_dim {f['head_dim']}, {f['num_layers']} layers"


def _sizes(f: dict) -> Rows:
    rows = [("one token", format_bytes(f["bytes_per_token"]))]
    if f["expanded_bytes_per_token"]:
        rows.append(("  if K and V are expanded", format_bytes(f["expanded_bytes_per_token"])))
    rows += [(f"one block of {f['block_size']}", format_bytes(f["block_bytes"])),
             (f"one request of {f['seq_len']:,}", format_bytes(f["sequence_bytes"]))]
    if f["sequence_bytes_all_full"] is not None:
        rows.append(("  if every layer keeps all", format_bytes(f["sequence_bytes_all_full"])))
    if f["requests"] > 1:
        rows.append((f"{f['requests']:,} requests", format_bytes(f["requests_bytes"])))
    rows.append(("blocks a request", f"{f['blocks_per_request']:,}  (together {f['blocks_for_requests']:,})"))
    if f["max_model_len"] and f["seq_len"] > f["max_model_len"]:
        rows.append(("note", f"{f['seq_len']:,} tokens are more than the model's own limit of "
                             f"{f['max_model_len']:,}"))
    return rows


def _sharing(s: dict) -> Rows:
    tail = "none: the prefix ends with a full block, nothing to copy"
    if s["tail_tokens"]:
        tail = (f"{s['tail_tokens']} tokens in a last, part-filled block: {s['blocks_copied_on_write']} copies on "
                "write")
    return [(f"prefix of {s['prefix_tokens']:,}, apart", format_bytes(s["prefix_bytes_apart"])),
            ("prefix, stored once", format_bytes(s["prefix_bytes_once"])),
            ("tail", tail),
            ("blocks, apart -> shared", f"{s['blocks_apart']:,} -> {s['blocks_shared']:,}"),
            ("saved", f"{format_bytes(s['saved_bytes'])} ({s['saved_percent']:.1f}% of the blocks)")]


def _memory(weights: int | None, m: dict | None) -> Rows:
    rows = [("weights", "not counted; pass --weights SIZE to take them off" if weights is None
             else format_bytes(weights))]
    if m is None:
        return rows
    rows.append(("memory", format_bytes(m["memory_bytes"])))
    if m["note"]:
        rows.append(("note", m["note"]))
    rows += [("requests take", f"{m['requests_percent_of_memory']:.1f}% of it"),
             ("left for KV", format_bytes(m["left_for_kv_bytes"])),
             ("blocks that fit", f"{m['num_blocks']:,}  ({m['num_tokens']:,} tokens)"),
             ("requests that fit", f"{m['max_requests']:,}")]
    if m["max_requests_shared"] is not None:
        rows.append(("  with the prefix shared", f"{m['max_requests_shared']:,}"))
    if m["max_requests_windowed"] is not None:
        rows.append(("  if windows are freed",
                     f"{m['max_requests_windowed']:,} (above: every layer keeps all its blocks)"))
    return rows


def models_table(models: Sequence[Preset]) -> str:
    """One row a model: attention, KV bytes of a token, element type, parameters."""
    width = max(len(model.name) for model in models)
    lines = [f"{'model':<{width}}  {'attention':<14} {'KV bytes a token':>17}  type  parameters"]
    for model in models:
        parameters = f"{model.parameters:>15,}" if model.parameters else f"{'not listed':>15}"
        lines.append(f"{model.name:<{width}}  {model.shape.attention_kind:<14} "
                     f"{model.shape.bytes_per_token:>15,} B  {canonical_dtype(model.shape.kv_dtype)}  {parameters}")
    return "\n".join(lines)
