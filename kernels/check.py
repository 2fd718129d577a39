"""``minipaged kernels --check``: run everything that can run on this machine, and say what could not. Chapter 13."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from . import build, cuda_ops, grid, reference
from .checks import KernelUnavailable


@dataclass(frozen=True)
class Row:
    """One part of the check and how it went; ``seconds`` is what it took."""

    name: str
    status: str  # "ok", "FAILED" or "skipped"
    detail: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.status:8s} {self.name:44s} {self.seconds:6.1f} s  {self.detail}"


class Skip(Exception):
    """This part cannot run here; the text says why."""


def rows(full: bool = False) -> Iterator[Row]:
    """Run the parts one after the other. On a GPU, or with ``full``, the grid is whole."""
    gpu = torch.cuda.is_available()
    cases = list(grid.every_case()) if full or gpu else grid.pairwise_cases()
    parts: list[tuple[str, Callable[[], str]]] = [
        ("reference: page by page == gather first", partial(_online, grid.pairwise_cases())),
        (
            "CUDA on this CPU: v4, decode and prefill",
            partial(_cuda, cases if full else grid.pairwise_cases(), "cpu"),
        ),
        ("CUDA on this CPU: v1, v2, v3", partial(_ladder, grid.pairwise_cases())),
        ("CUDA on this CPU: blocks move bit for bit", partial(_moves, "cuda", "cpu")),
        ("races: found in v0, none in v1 to v4", _races),
        (
            f"Triton {'on the GPU' if gpu else 'interpreted'}: decode and prefill",
            partial(_triton, cases, gpu),
        ),
        ("Triton: blocks move bit for bit", partial(_moves, "triton", "cuda" if gpu else "cpu")),
        ("Triton compiles for sm_80 and sm_90", _ahead_of_time),
        ("nvcc compiles for sm_80 and sm_90", _nvcc),
        ("CUDA on the GPU: v4, decode and prefill", partial(_cuda, cases, "cuda")),
        ("CUDA on the GPU: blocks move bit for bit", partial(_moves, "cuda", "cuda")),
        ("compute-sanitizer on the GPU", _compute_sanitizer),
    ]
    for name, part in parts:
        start = time.perf_counter()
        try:
            status, detail = "ok", part()
        except (Skip, KernelUnavailable) as reason:
            status, detail = "skipped", str(reason)
        except Exception as error:  # one broken part must not hide the others; it is reported as a failure
            status, detail = "FAILED", f"{type(error).__name__}: {str(error).strip()[:300]}"
        yield Row(name, status, detail, time.perf_counter() - start)


def _needs_gpu(device: str) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        raise Skip("no GPU here")


def _judge(calls: Iterable[tuple[str, Callable, grid.Case, grid.Inputs]]) -> str:
    count, closest = 0, 0.0
    for kind, kernel, case, inputs in calls:
        verdict = grid.judge(kind, kernel, inputs, case.window)
        if not verdict.passed:
            raise AssertionError(f"{kind}, {case}: off by {verdict.error:.3g}, allowed {verdict.allowed:.3g}")
        count, closest = count + 1, max(closest, verdict.error / verdict.allowed)
    return f"{count} calls within twice torch's error (worst at {closest:.0%} of the limit)"


def _online(cases: list[grid.Case]) -> str:
    worst = 0.0
    for case in cases:
        inputs = grid.make_inputs(case)
        for row, context in enumerate(inputs.context_lens.tolist()):
            first, last = inputs.query_start_loc[row : row + 2].tolist()
            arguments = (
                inputs.new_query[first:last],
                inputs.key_cache,
                inputs.value_cache,
                inputs.block_tables[row],
                context,
            )
            gathered = reference.paged_attention(*arguments, window=case.window)
            online = reference.paged_attention_online(
                *arguments, window=case.window, compute_dtype=torch.float64
            )
            worst = max(worst, float((online - gathered).abs().max()) if last > first else 0.0)
    if not worst < 1e-12:
        raise AssertionError(f"they differ by {worst:.3g}")
    return f"{len(cases)} cases, largest difference {worst:.1g}"


def _cuda(cases: list[grid.Case], device: str) -> str:
    _needs_gpu(device)

    def calls():
        for case in cases:
            inputs = grid.make_inputs(case).to(device)
            yield "decode", partial(cuda_ops.paged_decode, num_splits=2), case, inputs
            if device == "cuda" or case.block_size <= 32:
                yield "prefill", cuda_ops.paged_prefill, case, inputs

    return _judge(calls())


def _ladder(cases: list[grid.Case]) -> str:
    return _judge(
        ("decode", partial(cuda_ops.paged_decode, step=step), case, grid.make_inputs(case))
        for case in cases
        if case.dtype == "float32"
        for step in ("v1_repaired", "v2_warp", "v3_online")
    )


def _triton(cases: list[grid.Case], gpu: bool) -> str:
    from . import triton as kernels

    def calls():
        for case in cases:
            page = case.block_size
            few = None if gpu else [0, page + 1, min(2 * page + 19, page + 60)]  # the interpreter is slow
            inputs = grid.make_inputs(case, few).to("cuda" if gpu else "cpu")
            yield "decode", partial(kernels.paged_decode, num_splits=2), case, inputs
            yield "prefill", kernels.paged_prefill, case, inputs

    return _judge(calls())


def _moves(backend: str, device: str) -> str:
    _needs_gpu(device)
    from . import copy_blocks, reshape_and_cache, swap_blocks

    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        ours = torch.randn(8, 16, 2, 64, device=device).to(dtype)
        theirs, pairs = ours.clone(), [(1, 2), (2, 3), (5, 1)]
        copy_blocks([ours], pairs, backend=backend)
        reference.copy_blocks([theirs], pairs)
        token, slots = (
            torch.randn(3, 2, 64, device=device).to(dtype),
            torch.tensor([7, -1, 100], device=device),
        )
        reshape_and_cache(token, token, ours, ours.clone(), slots, backend=backend)
        reference.reshape_and_cache(token, token, theirs, theirs.clone(), slots)
        host = torch.zeros(4, 16, 2, 64, dtype=dtype)
        swap_blocks(ours, host, [(6, 3), (0, 1)], backend=backend)
        if device == "cuda":
            torch.cuda.synchronize()
        if not (
            torch.equal(ours, theirs)
            and torch.equal(host[3], ours[6].cpu())
            and torch.equal(host[1], ours[0].cpu())
        ):
            raise AssertionError(f"wrong contents in {dtype}")
    return "copies, writes and swaps in three number formats"


def _races() -> str:
    from .race import race

    report = race(build.CUDA_FOLDER / "v0_source.cu", looks=("tsan",), cases=("plain",))
    if not any(found.kind == "race" for found in report.findings):
        raise AssertionError("the races of v0_source.cu were not found")
    for step in build.LADDER[1:]:
        found = race(build.CUDA_FOLDER / f"{step}.cu", looks=("tsan",), cases=("plain", "grouped")).findings
        if found:
            raise AssertionError(f"{step}: {found[0].text}")
    return f"ThreadSanitizer: {sum(f.kind == 'race' for f in report.findings)} pairs of lines in v0"


def _ahead_of_time() -> str:
    if importlib.util.find_spec("triton") is None:
        raise Skip("Triton is not installed")
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "-P", "-m", f"{__package__}.triton.aot", "--few", "sm_80", "sm_90"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise AssertionError(done.stderr.strip()[-300:])
    kernels = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [k for k in kernels if k["stack"] or k["shared"] > 99 * 1024]
    if wrong:
        raise AssertionError(f"spills or too much shared memory: {wrong[0]}")
    return (
        f"{len(kernels)} cubins, no spills, at most {max(k['shared'] for k in kernels) / 1024:.0f} KB shared"
    )


def _nvcc() -> str:
    count = 0
    for source in [*build.LADDER, "cache_kernels"]:
        for arch in ("sm_80", "sm_90"):
            for kernel in build.resource_usage(build.CUDA_FOLDER / f"{source}.cu", arch, {"PAGED_RACE": 1}):
                count += 1
                if kernel["spills"] or kernel["stack"]:
                    raise AssertionError(f"{source} for {arch} spills: {kernel}")
    return f"{count} kernels, no spills"


_SANITIZED = """
from functools import partial
from {package} import cuda_ops, grid
for case in grid.pairwise_cases()[:6]:
    inputs = grid.make_inputs(case).to("cuda")
    assert grid.judge("decode", partial(cuda_ops.paged_decode, num_splits=2), inputs, case.window).passed
"""


def _compute_sanitizer() -> str:
    _needs_gpu("cuda")
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        raise Skip("compute-sanitizer is not on the PATH (it comes with the CUDA toolkit)")
    script = _SANITIZED.format(package=__package__)
    for check in ("memcheck", "racecheck"):
        command = [tool, "--tool", check, "--error-exitcode", "9", sys.executable, "-P", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{check}: {(done.stdout + done.stderr).strip()[-300:]}")
    return "memcheck and racecheck: nothing found"
