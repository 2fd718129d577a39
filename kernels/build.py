"""Build the .cu files: with nvcc for a GPU, with g++ and cpu/cuda_on_cpu.h for a CPU. Chapter 13.

A build is a shared library with plain C functions, called through ctypes: no torch headers, so it compiles in
seconds and fits any torch. Built files are kept in a cache folder under a name that is a hash of everything
that went in (source, headers, flags, compiler), so nothing is built twice and nothing stale is loaded.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .checks import KernelUnavailable

HERE = Path(__file__).resolve().parent
CUDA_FOLDER = HERE / "cuda"
CPU_FOLDER = HERE / "cpu"
LADDER = ("v0_source", "v1_repaired", "v2_warp", "v3_online", "v4_split")

# Several of these libraries live in one process, each with its own simulated GPU: g++ would otherwise make
# one copy of every inline variable for all of them (-fno-gnu-unique). setjmp between fibers is what
# _FORTIFY_SOURCE takes for a stack attack.
COMMON = (
    "-std=c++17",
    "-U_FORTIFY_SOURCE",
    "-Wno-unknown-pragmas",
    "-fPIC",
    "-fno-gnu-unique",
    "-fno-threadsafe-statics",
)
SANITIZED = ("-O1", "-g", "-fno-omit-frame-pointer")
CPU_MODES: dict[str, tuple[str, ...]] = {
    "cpu": ("-O2",),
    "tsan": (*SANITIZED, "-fsanitize=thread"),
    "asan": (*SANITIZED, "-fsanitize=address,undefined"),
    # The compiler calls a hook at every memory access and basic block; cpu/traffic.h counts there.
    "count": ("-O1", "-g", "-DCUDA_ON_CPU_COUNT", "-fsanitize=thread", "-fsanitize-coverage=trace-pc"),
}


class BuildError(RuntimeError):
    """The compiler refused a source file. The message ends with what it said."""


def cache_folder() -> Path:
    """Where built files are kept: ``MINIPAGED_CACHE`` or the user's cache folder."""
    chosen = os.environ.get("MINIPAGED_CACHE")
    if chosen:
        return Path(chosen) / "kernels"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "minipaged" / "kernels"


def find_cpu_compiler() -> str:
    """Path of a C++ compiler that can run CUDA on this CPU; ``CXX`` chooses another one than g++."""
    if platform.system() != "Linux":
        raise KernelUnavailable(
            f"CUDA on a CPU needs Linux (fibers and ELF thread-local memory); this is {platform.system()}. "
            "Use WSL or a Linux container"
        )
    wanted = os.environ.get("CXX", "g++")
    found = shutil.which(wanted)
    if not found:
        raise KernelUnavailable(
            f"CUDA on a CPU needs a C++ compiler; {wanted!r} was not found. Install g++ "
            "(Debian: apt install g++; conda: conda install gxx) or set CXX"
        )
    return found


def find_nvcc() -> str:
    """Path of nvcc: from ``CUDA_HOME``, the PATH, or NVIDIA's pip packages."""
    if os.name == "nt":
        raise KernelUnavailable("the CUDA kernels are built with nvcc and g++; on Windows use them in WSL")
    name = "nvcc"
    places = [Path(os.environ[v]) / "bin" / name for v in ("CUDA_HOME", "CUDA_PATH") if v in os.environ]
    if found := shutil.which("nvcc"):
        places.append(Path(found))
    for site in sys.path:
        places += sorted(Path(site).glob(f"nvidia/*/bin/{name}")) if site else []
    for place in places:
        if place.is_file():
            return str(place)
    raise KernelUnavailable(
        "CUDA on a GPU needs nvcc; it is neither in CUDA_HOME nor on the PATH nor among the pip packages. "
        "Install the CUDA toolkit, or: pip install nvidia-cuda-nvcc"
    )


@functools.lru_cache
def _version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout


def _key(parts: list[str], files: list[Path]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() + b"\0")
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()[:20]


def _run(command: list[str], source: Path) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", errors="replace", check=False
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise BuildError(f"{source.name} does not compile:\n" + "\n".join(said[:30]))


def build(
    source: Path | str,
    mode: str = "cpu",
    defines: Mapping[str, object] | None = None,
    *,
    program: bool = False,
    include: tuple[Path, ...] = (),
    forced_header: Path | None = None,
    archs: tuple[str, ...] = (),
) -> Path:
    """Compile one source file and return the built file.

    ``mode`` is a key of ``CPU_MODES`` or ``"gpu"`` (then ``archs`` lists targets such as ``"sm_90"``).
    ``program=True`` makes an executable instead of a library. ``include`` folders come before our own, and
    their headers count into the hash; ``forced_header`` stands in front of the first line of the source.
    Raises :class:`BuildError` for a faulty source, :class:`KernelUnavailable` without a compiler.
    """
    source = Path(source).resolve()
    folders = (*include, CUDA_FOLDER, CPU_FOLDER)
    words = [f"-D{name}={value}" for name, value in sorted((defines or {}).items())]
    words += [f"-I{folder}" for folder in folders]
    words += ["-include", str(forced_header)] if forced_header else []
    gpu = mode == "gpu"
    compiler = find_nvcc() if gpu else find_cpu_compiler()
    if gpu:
        flags = ["-O3", "-std=c++17", "-lineinfo", "-Xcompiler", "-fPIC"]
        flags += [f"-gencode=arch=compute_{a[3:]},code={a}" for a in archs]
    else:
        flags = [*COMMON, *CPU_MODES[mode]]
    headers = sorted(h for f in folders for kind in ("*.h", "*.cuh", "*.cpp") for h in f.glob(kind))
    parts = [
        _version(compiler),
        mode,
        str(program),
        str(forced_header is not None),
        *flags,
        *words[: len(defines or {})],
    ]
    key = _key(parts, [source, *headers])
    folder = cache_folder()
    target = folder / f"{source.stem}-{mode}-{key}{'' if program else '.so'}"
    if target.is_file():
        return target

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch) / "built"
        shape = [] if program else ["-shared"] if gpu else ["-shared", "-Wl,-Bsymbolic"]
        if gpu:
            _run([compiler, *flags, *words, *shape, "-o", str(fresh), str(source)], source)
        elif mode == "count":
            # The hooks are defined by traffic.h, so the sanitizer's own library must stay out: link apart.
            compiled = Path(scratch) / "built.o"
            _run([compiler, *flags, *words, "-x", "c++", "-c", "-o", str(compiled), str(source)], source)
            _run([compiler, *shape, "-o", str(fresh), str(compiled)], source)
        else:
            _run([compiler, *flags, *words, "-x", "c++", *shape, "-o", str(fresh), str(source)], source)
        os.replace(fresh, target)  # two processes may build the same file; each sees a whole one
    return target


@functools.lru_cache
def _load(path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(path))
    library.launch_message.restype = ctypes.c_char_p
    library.launch_message.argtypes = [ctypes.c_int]
    return library


def load(
    source: Path | str, mode: str = "cpu", defines: Mapping[str, object] | None = None, **options
) -> ctypes.CDLL:
    """Build (or find built) and load. Sanitizer modes cannot be loaded into Python: build programs there."""
    return _load(build(source, mode, defines, **options))


def device_arch() -> str:
    """``sm_..`` of the current GPU."""
    import torch

    if not torch.cuda.is_available():
        raise KernelUnavailable("no GPU: torch.cuda.is_available() is False")
    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"


def resource_usage(
    source: Path | str, arch: str, defines: Mapping[str, object] | None = None
) -> list[dict[str, object]]:
    """Compile for ``arch`` with nvcc, no GPU needed: registers, stack, spills of every kernel in the file."""
    nvcc, source = find_nvcc(), Path(source)
    with tempfile.TemporaryDirectory() as scratch:
        command = [nvcc, "-cubin", f"-arch={arch}", "-O3", "-std=c++17", "-Xptxas", "-v", f"-I{CUDA_FOLDER}",
                   f"-I{CPU_FOLDER}", *(f"-D{k}={v}" for k, v in (defines or {}).items()),
                   "-o", str(Path(scratch) / "out.cubin"), str(source)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{source.name} does not compile for {arch}:\n{done.stderr.strip()}")
    kernels, current = [], None
    for line in done.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            current = {"kernel": found[1]}
            kernels.append(current)
        elif current is not None and (
            found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill", line)
        ):
            current["stack"], current["spills"] = int(found[1]), int(found[2])
        elif current is not None and (found := re.search(r"Used (\d+) registers", line)):
            current["registers"] = int(found[1])
            shared = re.search(r"(\d+) bytes smem", line)
            current["shared"] = int(shared[1]) if shared else 0
    return kernels
