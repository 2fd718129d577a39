"""Compile every Triton kernel to a cubin with no GPU, and read what the compiler used. Chapter 12.

``python -m minipaged.kernels.triton.aot [--few | --only=NAME] sm_80 sm_90`` prints one JSON line a kernel: registers,
stack (spills), shared memory, tensor-core instructions, asynchronous copies. It needs a process of its own: Triton
compiles or interprets, for the whole process (see runtime.py); `report` starts one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from ..checks import KernelUnavailable

POINTERS_32 = {"block_tables", "context_lens", "seq_lens", "query_start_loc"}
POINTERS_64 = {"slot_mapping", "sources", "targets"}
POINTERS_FLOAT = {"partial_out", "partial_lse"}
SCALARS = {"num_blocks", "window", "num_heads", "elements"}
ARCHS = ("sm_80", "sm_90")
# (element type, head size, query heads a KV head)
SHAPES = (
    ("bf16", 128, 4), ("fp16", 128, 8), ("bf16", 128, 1), ("bf16", 80, 3), ("bf16", 192, 6), ("fp16", 64, 1),
    ("fp32", 64, 4), ("fp32", 128, 1),
)  # fmt: skip
# Tensor cores multiply by one of three instructions: of a warp (sm_80, sm_120, and everywhere for few rows), of four
# warps (sm_90), of a block with its own tensor memory (sm_100). PTX ISA, "Warp-level matrix instructions" and next.
MATRIX_MULTIPLY = re.compile(r"\b(?:mma\.sync|wgmma\.mma_async|tcgen05\.mma)\b")


class Case(NamedTuple):
    """A kernel as a serving engine launches it: the element type, the constants, the options of the launch."""

    name: str
    kernel: Any
    dtype: str
    constants: dict[str, Any]
    options: dict[str, Any]


def cases() -> list[Case]:
    """Everything that a serving engine launches, in the order of the report."""
    from . import _keys_per_tile, _power_of_2, prefill_launch
    from .cache import copy_blocks_kernel, reshape_and_cache_kernel
    from .decode import combine_kernel, paged_decode_kernel
    from .prefill import paged_prefill_kernel

    found: list[Case] = []
    plain = dict(num_warps=4, num_stages=2)
    for dtype, head_dim, group in SHAPES:
        size = 4 if dtype == "fp32" else 2
        pad = max(16, _power_of_2(head_dim))
        common = dict(HEAD_DIM=head_dim, HEAD_PAD=pad, BLOCK_SIZE=16, UPCAST=False, GROUP=group)
        label = f"{dtype} D{head_dim} G{group}"
        for splits in (1, 8):
            decode = dict(common, GROUP_PAD=max(16, _power_of_2(group)), SPLITS=splits,
                          TILE=_keys_per_tile(pad, size, interpreted=False))  # fmt: skip
            found.append(Case(f"paged_decode {label} splits {splits}", paged_decode_kernel, dtype, decode, plain))
        launch = prefill_launch(group, size, pad, max_query_len=512)
        prefill = dict(common, ROWS=launch.rows, QUERIES=launch.rows // group, TILE=launch.keys)
        options = dict(plain, num_warps=launch.num_warps, maxnreg=launch.max_registers)
        found.append(Case(f"paged_prefill {label}", paged_prefill_kernel, dtype, prefill, options))
    combine = dict(HEAD_DIM=128, HEAD_PAD=128, SPLITS=8, SPLITS_PAD=8)
    write = dict(BLOCK_SIZE=16, NUM_KV_HEADS=8, HEAD_DIM=128, TOTAL_PAD=1024)
    found.append(Case("combine D128", combine_kernel, "bf16", combine, plain))
    found.append(Case("reshape_and_cache", reshape_and_cache_kernel, "bf16", write, plain))
    found.append(Case("copy_blocks", copy_blocks_kernel, "i16", dict(CHUNK=4096), plain))
    return found


def compile_case(case: Case, arch: str) -> dict[str, Any]:
    """Compile one case for one target and report its resources."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    name, kernel, dtype, constants, options = case
    signature, aligned = {}, {}
    for position, argument in enumerate(kernel.arg_names):
        if argument in constants:
            signature[argument] = "constexpr"
        elif argument in POINTERS_32:
            signature[argument] = "*i32"
        elif argument in POINTERS_64:
            signature[argument] = "*i64"
        elif argument in POINTERS_FLOAT:
            signature[argument] = "*fp32"
        elif argument == "scale_log2e":
            signature[argument] = "fp32"
        elif argument in SCALARS or "stride" in argument:
            signature[argument] = "i32"
        else:
            signature[argument] = f"*{dtype}"
        # What the launcher finds out by itself: pointers and strides that are multiples of 16.
        if signature[argument].startswith("*") or ("stride" in argument and "table" not in argument):
            aligned[(position,)] = [["tt.divisibility", 16]]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(kernel.arg_names.index(key),): value for key, value in constants.items()},
        attrs=aligned,
    )
    target = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32)
    built = triton.compile(source, target=target, options=options)
    used = _resources(built.asm["cubin"])
    ptx = built.asm["ptx"]
    return {
        "kernel": name, "arch": arch, **used, "shared": built.metadata.shared,
        "mma": len(MATRIX_MULTIPLY.findall(ptx)), "cp_async": ptx.count("cp.async.c"),
        "cubin_bytes": len(built.asm["cubin"]),
    }  # fmt: skip


def _resources(cubin: bytes) -> dict[str, int]:
    """Registers and stack as the ``cuobjdump`` in Triton's own wheel reads them."""
    import triton

    tool = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        said = subprocess.run(
            [str(tool), "-res-usage", str(file)], capture_output=True, text=True, check=True
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", said)
    if not found:
        raise RuntimeError(f"cuobjdump reported no resources: {said.strip()[:200]}")
    return {"registers": int(found[1]), "stack": int(found[2])}


def report(names: tuple[str, ...], archs: tuple[str, ...] = ARCHS) -> list[dict[str, Any]]:
    """Compile these cases in a process of its own, whatever mode this one is in. Names as `cases` has them.

    Raises :class:`KernelUnavailable` without Triton, RuntimeError with the end of what the compiler said.
    """
    if importlib.util.find_spec("triton") is None:
        raise KernelUnavailable("compiling needs Triton, which is not installed: pip install 'triton>=3.7,<3.10'")
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", __spec__.name, *(f"--only={name}" for name in names), *archs]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(f"Triton did not compile the kernels: {done.stderr.strip()[-500:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


FEW = ("bf16 D128 G4", "fp16 D64 G1", "fp32 D64 G4", "combine", "reshape_and_cache", "copy_blocks")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m minipaged.kernels.triton.aot", description=__doc__.splitlines()[0],
        epilog="example: python -m minipaged.kernels.triton.aot --few sm_90",
    )  # fmt: skip
    parser.add_argument("archs", nargs="*", default=ARCHS, metavar="sm_NN", help=f"default: {' '.join(ARCHS)}")
    parser.add_argument("--few", action="store_true", help="a short run: one shape of each kind")
    parser.add_argument("--only", action="append", metavar="NAME", help="this case; again for more")
    args = parser.parse_args(arguments)
    for arch in args.archs:
        for case in cases():
            if args.only and case.name not in args.only:
                continue
            if args.few and not any(name in case.name for name in FEW):
                continue
            print(json.dumps(compile_case(case, arch)), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
