"""Starting learners' processes: a keeper that forks them, or one after the other where there is no fork.

What a process may read, import and see of the environment is decided here; how it is held, in sandbox.py.
"""
from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import minipaged
from minipaged.lab.grader import protocol
from minipaged.lab.grader.remote import START_SECONDS, RemoteAnswer

CHILD = Path(__file__).with_name("child.py")
MAX_OUTPUT = 64 * 1024  # characters of prints that are kept
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1",
               "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1",
               "PYTHONDONTWRITEBYTECODE": "1"}


def configuration(needs: Sequence[str], hidden: Sequence[Path] = ()) -> dict:
    """What a keeper is told: files that may be read, files in them that may not, what to load beforehand."""
    paths = sysconfig.get_paths()
    packages = sorted({paths["purelib"], paths["platlib"]})
    package = Path(minipaged.__file__).resolve().parent
    ours = [package, *hidden, *([package.parent] if (package.parent / "solutions").is_dir() else [])]
    ours += [path for folder in packages for path in Path(folder).glob("*minipaged*")]
    roots = [sys.base_prefix, *packages, "/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"]
    roots = [path for path in dict.fromkeys(roots) if os.path.exists(path)]
    real = {root: Path(root).resolve() for root in roots}
    found = {(root, path) for one in map(Path.resolve, ours) for root, target in real.items()
             if one.is_relative_to(target) for path in _around(one, set(real.values()))}
    # a root may be a link, or lie behind one: what is hidden has a name there as well
    return {"roots": roots, "hidden": sorted({name for root, path in found for name in (
                str(path), os.path.join(root, path.relative_to(real[root])).rstrip("/."))}),
            "packages": packages,
            "preload": ["numpy", "torch"] if "torch" in needs else [],
            "environment": ENVIRONMENT}


def _around(path: Path, roots: set[Path]) -> list[Path]:
    """A path that shall be hidden, or all in it but the roots that lie there, as packages do inside of a course."""
    if not any(path in root.parents for root in roots):
        return [path]
    return [found for entry in sorted(path.iterdir()) if entry not in roots for found in _around(entry, roots)]


class Keeper:
    """A process that forks one learner's process after the other. A context manager; `alone` never forks.

    `base`: where its empty folder is made, if that is a folder on this machine; else where temporary files go.
    `namespaces`: False does without them, as in a container that forbids them.
    """

    def __init__(self, needs: Sequence[str] = (), hidden: Sequence[Path] = (), alone: bool | None = None,
                 base: Path | None = None, namespaces: bool = True) -> None:
        self.needs = tuple(needs)
        self.folder = Path(tempfile.mkdtemp(prefix="minipaged-grade-", dir=base if base and base.is_dir() else None))
        self.folder.chmod(0o755)  # another user may have to stand in it; it stays empty
        self.config = {**configuration(needs, hidden), "folder": str(self.folder), "namespaces": namespaces}
        self.alone = not hasattr(os, "fork") if alone is None else alone
        self._slot = os.getpid() % 1_000_000
        self._process, self._control = None, None
        if not self.alone:
            self._start()

    def _start(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(CHILD), "keeper", str(theirs.fileno())],
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=ENVIRONMENT, cwd="/", start_new_session=True)
        self._control.settimeout(START_SECONDS)
        self._control.sendall(protocol.frame(json.dumps(self.config).encode()))
        if self._control.recv(5) != b"ready":
            raise RuntimeError("the grader's child process did not start")

    def answer(self, seconds: float, processes: bool = False) -> RemoteAnswer:
        """A fresh process. `seconds`: of computing that it may use in all; `processes`: may it start others?

        A learner's Python never may. What compiles a learner's text (`RemoteAnswer.fresh`) may where the lab needs it.
        """
        options = {"slot": self._slot, "cpu": int(seconds) + 1, "processes": processes}

        def again() -> RemoteAnswer:
            return self.answer(seconds, processes="g++" in self.needs)

        if self.alone:
            return RemoteAnswer(_AloneLine(self.config, options), again)
        return RemoteAnswer(_ForkedLine(self._control, options), again)

    def close(self) -> None:
        if self._process is not None:
            self._control.close()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_) -> None:
        self.close()


class _ForkedLine:
    """Sockets to a learner's process that a keeper forks."""

    def __init__(self, control: socket.socket, options: dict) -> None:
        self._data, data = socket.socketpair()
        self._life, life = socket.socketpair()
        read, write = os.pipe()
        self._output = _Output(read)
        try:
            socket.send_fds(control, [json.dumps(options).encode()], [data.fileno(), write, life.fileno()])
        finally:
            data.close()
            life.close()
            os.close(write)

    def send(self, data: bytes, seconds: float) -> None:
        self._data.settimeout(seconds)
        self._data.sendall(data)

    def receive(self, seconds: float) -> bytes:
        end = time.monotonic() + seconds

        def read(count: int) -> bytes:
            self._data.settimeout(max(end - time.monotonic(), 0.001))
            return self._data.recv(count)

        return protocol.read_frame(read)

    def unasked(self) -> bool:
        """Has the process sent something that was not asked for?"""
        self._data.settimeout(0)
        try:
            return bool(self._data.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def close(self) -> str:
        """End every process on the line and wait until that is done. What was printed."""
        self._life.shutdown(socket.SHUT_WR)
        self._life.settimeout(START_SECONDS)
        self._life.recv(8)
        self._life.close()
        self._data.close()
        return self._output.text()


class _AloneLine:
    """Pipes to a process of its own, where there is no fork. A timer kills it when its time is over."""

    def __init__(self, config: dict, options: dict) -> None:
        flags = {"start_new_session": True, "cwd": "/"} if os.name == "posix" else {"cwd": config["folder"]}
        environment = {**ENVIRONMENT, **{name: os.environ[name] for name in ("SYSTEMROOT",) if name in os.environ}}
        self._process = subprocess.Popen([sys.executable, "-I", "-S", "-B", str(CHILD), "alone"], env=environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         bufsize=0, **flags)
        self._output = _Output(os.dup(self._process.stderr.fileno()))
        self._process.stdin.write(protocol.frame(json.dumps({"config": config, "options": options}).encode()))

    def _within(self, seconds: float, work):
        timer = threading.Timer(seconds, self._process.kill)
        timer.start()
        try:
            return work()
        except EOFError:
            if not timer.is_alive():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()

    def send(self, data: bytes, seconds: float) -> None:
        self._within(seconds, lambda: self._process.stdin.write(data))

    def receive(self, seconds: float) -> bytes:
        return self._within(seconds, lambda: protocol.read_frame(self._process.stdout.read))

    def unasked(self) -> bool:
        return False  # a pipe cannot be looked into on every system; the reply's number tells it too

    def close(self) -> str:
        if os.name == "posix":
            try:
                os.killpg(self._process.pid, 9)
            except ProcessLookupError:
                pass  # it has ended by itself
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            pipe.close()
        return self._output.text()


class _Output:
    """Reads what a process prints, so that it never blocks, and keeps the beginning."""

    def __init__(self, number: int) -> None:
        self._kept = bytearray()
        self._thread = threading.Thread(target=self._read, args=(number,), daemon=True)
        self._thread.start()

    def _read(self, number: int) -> None:
        with open(number, "rb", buffering=0) as pipe:
            while piece := pipe.read(1 << 16):
                self._kept += piece[:MAX_OUTPUT - len(self._kept)]

    def text(self) -> str:
        self._thread.join(1)
        return bytes(self._kept).decode("utf-8", "replace")
