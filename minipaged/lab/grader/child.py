"""The process in which a learner's code runs: a server of values that knows no expected answer.

Started by file name as `python -I -S -B child.py keeper FD` (or `alone`): it imports its neighbours in this folder and
nothing of minipaged. Three roles, each a fork of the one before:

- the *keeper* lives as long as a batch: it loads torch once if the lab needs it, and waits for work;
- the *nurse* makes the namespaces for one exercise, waits, and ends every process in them when the grader hangs
  up, is killed, or the answer is done;
- the *learner's process* gives up all rights and then serves calls (server.py). Where there is no fork (`alone`) it is
  the only role.
"""
from __future__ import annotations

import builtins
import json
import os
import random
import signal
import socket
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import protocol  # noqa: E402
import sandbox  # noqa: E402
import server  # noqa: E402

if sys.platform.startswith("linux"):
    import linux  # noqa: E402, F401  (loaded while files can still be read)

sys.path.pop(0)
#: What answers import most: loaded once, and at hand even where Python lies under a home that only root may enter.
COMMON = ("abc array bisect collections.abc contextlib copy dataclasses decimal enum fractions functools hashlib heapq "
          "inspect itertools json math numbers operator queue random re statistics string struct textwrap time types "
          "typing").split()
MAX_MEMORY = 2 * 1024 ** 3  # of all processes of an answer that may start some; else a limit of its own process holds


def learner(channel, config: dict, options: dict, layers: list[str]) -> None:
    """Give up all rights, say which layers hold, then serve until the grader hangs up."""
    layers = sandbox.restrict(layers, config["roots"], config["hidden"], config["folder"], options)
    random.seed(0)
    os.environ.clear()
    os.environ.update(config["environment"], HOME=os.getcwd(), TMPDIR=os.getcwd())
    for name in ("numpy.random", "torch"):
        if name in sys.modules:
            getattr(sys.modules[name], "seed" if name == "numpy.random" else "manual_seed")(0)
    read, write = channel
    write(protocol.frame(protocol.encode(layers)))
    sys.stdout = sys.stderr = open(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    builtins.exit = builtins.quit = sys.exit
    server.Server(read, write).serve()


def nurse(data: socket.socket, output: int, life: socket.socket, config: dict, options: dict) -> None:
    """Fork the learner's process into namespaces of its own and end all that is in them when the time comes."""
    os.setsid()
    layers = sandbox.prepare(config["roots"], config["hidden"], config["folder"], config["namespaces"])
    pid = os.fork()
    if pid == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        sandbox.close_all_but({data.fileno()})
        try:
            learner((data.recv, data.sendall), config, options, layers)
        finally:
            os._exit(0)
    data.close()
    os.close(output)
    watch = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    if watch is None:
        life.recv(1)
    else:
        import select

        while not select.select([watch, life], [], [], 0.1 if options["processes"] else None)[0]:
            if _memory(pid) > MAX_MEMORY:
                break
    _end(pid)
    life.sendall(b"ended")


def _end(pid: int) -> None:
    """Kill the learner's process, its group, and every descendant that became ours; return when none is left."""
    for _ in range(1000):
        for kill, target in ((os.killpg, pid), (os.kill, pid), *((os.kill, child) for child in _children(os.getpid()))):
            try:
                kill(target, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _memory(pid: int) -> int:
    """Bytes of memory that a process and all its descendants use."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:
            own = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0  # it has just ended
    return own + sum(map(_memory, _children(pid)))


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def keeper(control: socket.socket) -> None:
    """Load once, then fork a nurse for every three files that come: data, output, life line."""
    config = json.loads(protocol.read_frame(control.recv))
    _load(config)
    control.sendall(b"ready")
    while True:
        message, files, _, _ = socket.recv_fds(control, 4096, 3)
        if not message:  # the grader is done, or was killed
            import shutil

            shutil.rmtree(config["folder"], ignore_errors=True)
            return
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            control.close()
            data, output, life = files
            try:
                nurse(socket.socket(fileno=data), output, socket.socket(fileno=life), config, json.loads(message))
            finally:
                os._exit(0)
        for number in files:
            os.close(number)


def _load(config: dict) -> None:
    sys.path[:] = [*sys.path, *config["packages"]]
    for name in (*COMMON, *config["preload"]):
        __import__(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def alone() -> None:
    """No fork on this system: one process for one exercise, values over standard input and output."""
    read_from, write_to = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)

    def write(data: bytes) -> None:
        while data:
            data = data[os.write(write_to, data):]

    def read(count: int) -> bytes:
        return os.read(read_from, count)

    first = json.loads(protocol.read_frame(read))
    _load(first["config"])
    learner((read, write), first["config"], first["options"], [])


if __name__ == "__main__":
    if sys.argv[1] == "alone":
        alone()
    else:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nurses end by themselves
        signal.signal(signal.SIGINT, signal.SIG_IGN)   # the grader decides when to end
        keeper(socket.socket(fileno=int(sys.argv[2])))
    os._exit(0)
