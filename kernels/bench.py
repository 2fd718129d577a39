"""How fast are the decode kernels on this GPU, in bytes moved over time? Chapter 12.

Decoding reads every key and value once and computes little, so a kernel can be judged by one number: the bytes
it must move, divided by its time, against what a plain copy of memory reaches on the same card. Each call
starts with a cold L2 cache (a large buffer is overwritten before it) and is one CUDA graph, so that the
time of Python and of launching is not in it. Beside ours stands torch's attention on unpaged memory.
"""

from __future__ import annotations

import datetime
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from . import cuda_ops
from .checks import KernelUnavailable


class Shape(NamedTuple):
    """One decode call to be timed: sequences, tokens of each context, heads of the query and of K and V."""

    name: str
    batch: int
    context: int
    heads: int
    kv_heads: int
    head_dim: int = 128


SHAPES = (
    Shape("Llama-3-8B B16 ctx 4096", 16, 4096, 32, 8),
    Shape("Llama-3-8B B1 ctx 32768", 1, 32768, 32, 8),
    Shape("Llama-2-13B (MHA) B16 ctx 2048", 16, 2048, 40, 40),
)
BLOCK_SIZE = 16
REPEATS = 50


def need_gpu() -> None:
    """Raises :class:`KernelUnavailable` with what to do when there is no GPU to time."""
    if not torch.cuda.is_available():
        raise KernelUnavailable(
            "no GPU here, so nothing was measured. The benchmark is ready: run `minipaged kernels --bench` on a "
            "machine with a CUDA GPU (its results go to benchmarks/results/)"
        )


def run() -> Iterator[dict[str, Any]]:
    """One record a shape and kernel: median time, bytes, bandwidth, and its share of the copy bandwidth."""
    need_gpu()
    from . import triton as triton_kernels

    copy = copy_bandwidth()
    card = {
        "card": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
        "date": datetime.date.today().isoformat(), "copy_gb_per_s": round(copy / 1e9, 1),
    }  # fmt: skip
    for shape in SHAPES:
        tensors = _inputs(shape)
        moved = _bytes(shape)
        calls: dict[str, Callable[[], Any]] = {
            "triton": lambda t=tensors: triton_kernels.paged_decode(*t),
            "cuda v4_split": lambda t=tensors: cuda_ops.paged_decode(*t),
            "torch SDPA, contiguous": _contiguous(shape),
        }
        for name, call in calls.items():
            seconds = _time(call)
            yield {
                **card, "shape": shape.name, "dtype": "bfloat16", "block_size": BLOCK_SIZE, "kernel": name,
                "bytes": moved, "microseconds": round(seconds * 1e6, 1), "gb_per_s": round(moved / seconds / 1e9, 1),
                "of_copy": round(moved / seconds / copy, 3), "repeats": REPEATS,
            }  # fmt: skip


def save(records: list[dict[str, Any]], folder: Path) -> Path:
    """Write the records as JSON lines under a name with card and date."""
    folder.mkdir(parents=True, exist_ok=True)
    card = "-".join(records[0]["card"].split())
    file = folder / f"kernels_{card}_{records[0]['date']}.jsonl"
    file.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")
    return file


def copy_bandwidth() -> float:
    """Bytes a second of a device-to-device copy: read and write count."""
    source = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / _time(lambda: target.copy_(source))


def _bytes(shape: Shape) -> int:
    kv = 2 * shape.batch * shape.context * shape.kv_heads * shape.head_dim * 2
    rows = 2 * shape.batch * shape.heads * shape.head_dim * 2  # query and result
    return kv + rows + shape.batch * (shape.context // BLOCK_SIZE) * 4


def _inputs(shape: Shape) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator(device="cuda").manual_seed(0)
    pages = shape.context // BLOCK_SIZE
    blocks = shape.batch * pages

    def normal(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=generator, device="cuda", dtype=torch.bfloat16)

    tables = torch.randperm(blocks, generator=generator, device="cuda").int().reshape(shape.batch, pages)
    lens = torch.full((shape.batch,), shape.context, dtype=torch.int32, device="cuda")
    cache_size = (blocks, BLOCK_SIZE, shape.kv_heads, shape.head_dim)
    return (
        normal(shape.batch, shape.heads, shape.head_dim),
        normal(*cache_size),
        normal(*cache_size),
        tables,
        lens,
    )


def _contiguous(shape: Shape) -> Callable[[], Any]:
    def normal(heads: int, tokens: int) -> torch.Tensor:
        return torch.randn(shape.batch, heads, tokens, shape.head_dim, device="cuda", dtype=torch.bfloat16)

    query, keys, values = (
        normal(shape.heads, 1),
        normal(shape.kv_heads, shape.context),
        normal(shape.kv_heads, shape.context),
    )
    grouped = shape.heads != shape.kv_heads
    attend = torch.nn.functional.scaled_dot_product_attention
    return lambda: attend(query, keys, values, enable_gqa=grouped)


def _time(call: Callable[[], Any]) -> float:
    """Median seconds of one call: cold L2, one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")  # larger than any L2
    times = []
    for _ in range(REPEATS):
        flush.zero_()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)
