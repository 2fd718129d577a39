"""The folder of results: its class key, what may lie where, who may write in it, and files that are whole or not there.

A teacher's own files may lie beside the results, so what a grader removes has a name of its own.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

KEY_FILE = "class.key"
OURS = ".minipaged-"          # how the names of files and folders begin that a grader removes again
WORK = f"{OURS}work"
LOCK = f"{OURS}lock"


def class_key(path: Path) -> bytes:
    """The key of a class; a new one is made where there is none. Errors: ValueError for a short one."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.write(os.urandom(32).hex() + "\n")
    except FileExistsError:
        pass  # the class has one
    key = path.read_bytes().strip()
    if len(key) < 16:
        raise ValueError(f"{path} is no class key: it has {len(key)} bytes, at least 16 are needed; remove it to get a "
                         "new one (and other secret cases)")
    return key


def check_places(folder: Path, results: Path) -> None:
    """Errors: ValueError for no folder of submissions, or where one of the two lies in the other."""
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder; name the one that holds a folder or a notebook for each learner")
    if results.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{results} lies inside {folder}, where the submissions are; name another folder with -o")
    if folder.resolve().is_relative_to(results.resolve()):
        raise ValueError(f"{folder}, where the submissions are, lies inside {results}; name another folder with -o")


@contextmanager
def only_grader(results: Path) -> Iterator[None]:
    """Hold the results folder where the system can. Errors: ValueError while another grader has it."""
    hold = _hold_folder if fcntl is not None else _hold_file
    try:
        let_go = hold(results)
    except (BlockingIOError, FileExistsError):
        raise ValueError(f"another grader is at work in {results}; wait for it, or name another folder with "
                         "-o") from None
    try:
        yield
    finally:
        let_go()


def _hold_folder(results: Path) -> Callable[[], None]:
    """A lock of the folder itself, which ends with this process, however that ends."""
    handle = os.open(results, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        pass  # a file system without locks
    return lambda: os.close(handle)


def _hold_file(results: Path) -> Callable[[], None]:
    """A file that only one process can make. Windows removes it when that process ends (O_TEMPORARY)."""
    path = results / LOCK
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_TEMPORARY", 0))
    except PermissionError:  # what Windows says of a file that it will remove
        raise BlockingIOError from None

    def let_go() -> None:
        os.close(handle)
        path.unlink(missing_ok=True)

    return let_go


def sweep(results: Path) -> None:
    """Remove what a grader that was killed has left, and nothing else: the folder may hold more than results."""
    shutil.rmtree(results / WORK, ignore_errors=True)
    for folder in (results, *(results / name for name in ("submissions", "pages", "gradescope"))):
        for torn in folder.glob(f"{OURS}*.tmp"):
            torn.unlink(missing_ok=True)


def slug(learner: str) -> str:
    """A file name for any learner's name: readable where it can be, and never the same for two."""
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", learner)[:40].strip("_") or "learner"
    return f"{readable}-{hashlib.sha256(learner.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def write_atomically(path: Path, text: str) -> None:
    """The old contents or the new ones, never half of them."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=OURS, suffix=".tmp")
    with open(handle, "w", encoding="utf-8", newline="\n", errors="backslashreplace") as file:
        file.write(text)
    os.chmod(name, 0o644)
    os.replace(name, path)


def as_json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False, default=str) + "\n"
