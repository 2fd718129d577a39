"""Building and calling page_walk.cpp, where there is a C++ compiler (chapter 04). Never required.

The library is compiled once and kept in the user's cache folder under a hash of source, compiler, flags and
processor. `MINIPAGED_CXX` names another compiler; set to nothing it turns this backend off.
"""
from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import torch

from minipaged.runtime.inputs import StepInputs
from minipaged.runtime.torch_backend import TorchBackend

logger = logging.getLogger(__name__)
SOURCE = Path(__file__).with_name("page_walk.cpp")
FLAGS = ("-O3", "-march=native", "-fopenmp-simd", "-std=c++17", "-shared", "-fPIC")
_NAMES = {torch.float32: "page_walk_float32", torch.float64: "page_walk_float64"}


def compiler() -> str | None:
    """The path of the C++ compiler, or None."""
    name = os.environ.get("MINIPAGED_CXX")
    if name is not None:
        return shutil.which(name) if name else None
    return next((found for found in map(shutil.which, ("g++", "clang++")) if found), None)


def cache_folder() -> Path:
    """Where the compiled library is kept: the user's cache folder, as the system has it."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "minipaged"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minipaged"


@cache
def library() -> ctypes.CDLL:
    """The compiled library. Raises ValueError saying why there is none."""
    cxx = compiler()
    if cxx is None:
        raise ValueError("attention_backend 'cpp' needs a C++ compiler (g++ or clang++), and there is none here; use "
                         "'torch'")
    try:
        key = "\n".join([SOURCE.read_text(encoding="utf-8"), cxx, *FLAGS, _version(cxx), _processor()])
        path = cache_folder() / f"page_walk-{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
        if not path.is_file():
            _compile(cxx, path)
        return ctypes.CDLL(str(path))
    except (OSError, subprocess.SubprocessError) as error:
        output = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        raise ValueError(f"page_walk.cpp can't be built with {cxx}: {output[-1] if output else error}; use "
                         "attention_backend 'torch'") from None


def _compile(cxx: str, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made = Path(folder) / path.name
        subprocess.run([cxx, *FLAGS, str(SOURCE), "-o", str(made)], check=True, capture_output=True, text=True,
                       timeout=120)
        os.replace(made, path)  # in one step: another process may be doing the same


def _version(cxx: str) -> str:
    return subprocess.run([cxx, "-dumpfullversion", "-dumpversion"], capture_output=True, text=True, timeout=30).stdout


def _processor() -> str:
    """What -march=native depends on: a home folder may be shared between machines."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.is_file() else []
    return next((line for line in lines if line.startswith("flags")), platform.processor() + platform.machine())


def is_available() -> bool:
    """True when "auto" may take this backend."""
    if platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64"):
        return False
    try:
        library()
    except ValueError as error:
        logger.info("%s", error)
        return False
    return True


class PageWalkBackend(TorchBackend):
    """Decoding requests through page_walk.cpp, float32 or float64 on a CPU; the rest as the parent does it."""

    def __init__(self) -> None:
        super().__init__()
        self._library = library()

    def begin(self, inputs: StepInputs) -> None:
        """Prompts and chunks go to the parent; the tables of single tokens become one flat row of blocks."""
        decodes = [part for part in inputs.sequences if part.num_tokens == 1]
        chunks = [part for part in inputs.sequences if part.num_tokens > 1]
        super().begin(StepInputs(inputs.token_ids, inputs.positions, inputs.slot_mapping, inputs.sample_rows,
                                 chunks, inputs.block_size))
        tables: list[int] = []
        requests: list[int] = []
        for part in decodes:
            requests += (part.first_row, part.context_len, len(tables))
            tables += part.block_table
        self._num_decodes = len(decodes)
        self._tables = torch.tensor(tables, dtype=torch.int64)
        self._requests = torch.tensor(requests, dtype=torch.int64)
        self._all = inputs

    def attend(self, query: torch.Tensor, key_blocks: torch.Tensor, value_blocks: torch.Tensor,
               scale: float, window: int | None) -> torch.Tensor:
        name = _NAMES.get(query.dtype)
        if name is None or query.device.type != "cpu":
            if self._inputs is not self._all:
                super().begin(self._all)
            return super().attend(query, key_blocks, value_blocks, scale, window)
        query = query.contiguous()
        out = super().attend(query, key_blocks, value_blocks, scale, window) if self._inputs.sequences \
            else torch.empty_like(query)
        if self._num_decodes:
            num_heads, head_dim = query.shape[1:]
            getattr(self._library, name)(
                *map(ctypes.c_void_p, (query.data_ptr(), key_blocks.data_ptr(), value_blocks.data_ptr(),
                                       out.data_ptr(), self._tables.data_ptr(), self._requests.data_ptr())),
                *map(ctypes.c_int64, (self._num_decodes, num_heads, key_blocks.shape[2], head_dim,
                                      key_blocks.shape[1], window or 0)), ctypes.c_double(scale))
        return out
