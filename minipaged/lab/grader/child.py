"""The process in which a learner's code runs: a server of values that knows no expected answer.

Started by file name as `python -I -S -B child.py keeper FD` (or `alone`): it imports its two neighbours and nothing
of minipaged. Three roles, each a fork of the one before:

- the *keeper* lives as long as a batch: it loads torch once if the lab needs it, and waits for work;
- the *nurse* makes the namespaces for one exercise, waits, and ends every process in them when the grader hangs
  up, is killed, or the answer is done;
- the *learner's process* gives up all rights, then loads the answer and serves calls: (number, what, ...) comes in,
  (number, "value" | "raises" | "refused", ...) goes out. Where there is no fork (`alone`) it is the only role.
"""
from __future__ import annotations

import builtins
import itertools
import json
import linecache
import os
import random
import signal
import socket
import sys
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import protocol  # noqa: E402
import sandbox  # noqa: E402

if sys.platform.startswith("linux"):
    import linux  # noqa: E402, F401  (loaded while files can still be read)

sys.path.pop(0)
#: What answers import most: loaded once, and at hand even where Python lies under a home that only root may enter.
COMMON = ("abc array bisect collections.abc contextlib copy dataclasses decimal enum fractions functools hashlib heapq "
          "inspect itertools json math numbers operator queue random re statistics string struct textwrap time types "
          "typing").split()
MAX_OBJECTS = 20_000
MAX_ITEMS = 100_000
CELL = "<cell "  # how the label of a cell starts


class Server:
    """Objects of the learner by number, and the calls that the grader makes on them."""

    def __init__(self, read, write) -> None:
        self.read, self.write = read, write
        self.objects: list[object] = []
        self.names: dict[str, object] = {}

    def serve(self) -> None:
        while True:
            try:
                number, what, *arguments = protocol.decode(protocol.read_frame(self.read))
            except EOFError:
                return
            try:
                reply = protocol.encode((number, *getattr(self, "do_" + what)(*arguments)), names_for_odd=True)
            except protocol.ProtocolError as error:
                reply = protocol.encode((number, "refused", str(error)))
            except BaseException as error:  # whatever a learner's code does, and its objects when looked at
                reply = protocol.encode((number, *self.raised(error)))
            self.write(protocol.frame(reply))

    def raised(self, error: BaseException) -> tuple:
        """("raises", names of the class and those above, first line of the message, line in a cell, the cell)."""
        kinds = [kind for kind in type(error).__mro__ if kind not in (BaseException, object)]
        names = [kind.__name__ for kind in kinds[:20] if type(kind.__name__) is str]
        try:
            text = str(error)
            lines = text.strip().splitlines() if type(text) is str else []
        except BaseException:
            lines = []
        return "raises", names, lines[0][:300] if lines else "", *_place_of(error)

    def do_load(self, modules: dict, cells: list) -> tuple:
        """Make the modules that the answer may import, then run its cells in order in one namespace."""
        for name, source in modules.items():
            module = types.ModuleType(name)
            module.__path__ = []
            sys.modules[name] = module
            exec(compile(source, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
            parent, _, last = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], last, module)
        main = types.ModuleType("__main__")
        main.display = lambda *things, **options: None
        sys.modules["__main__"] = main
        self.names = main.__dict__
        problems = []
        for label, source, must_run in cells:
            linecache.cache[label] = (len(source), None, source.splitlines(True), label)
            try:
                exec(compile(source, label, "exec", dont_inherit=True), self.names)
            except BaseException as error:
                if must_run:
                    raise
                problems.append(self.raised(error)[1:])
        return "value", problems

    def do_has(self, names: list) -> tuple:
        """Which of these names the answer does not define."""
        return "value", [name for name in names if name not in self.names]

    def do_make(self, name: str, arguments: list, options: dict) -> tuple:
        if len(self.objects) >= MAX_OBJECTS:
            raise protocol.ProtocolError(f"more than {MAX_OBJECTS:,} objects were made")
        self.objects.append(self.names[name](*arguments, **options))
        return "value", len(self.objects) - 1

    def do_call(self, target: str | int, method: str | None, arguments: list, options: dict, writes: list) -> tuple:
        """(value, arguments named in `writes` as they are now, positions of others that the call changed)"""
        function = self.names[target] if method is None else getattr(self.objects[target], method)
        before = [protocol.encode(argument) for argument in arguments]
        value = function(*arguments, **options)
        if type(value) is types.GeneratorType:
            value = list(itertools.islice(value, MAX_ITEMS))
        changed = [at for at, argument in enumerate(arguments)
                   if at not in writes and protocol.encode(argument, names_for_odd=True) != before[at]]
        return "value", value, [arguments[at] for at in writes], changed

    def do_get(self, target: int, name: str) -> tuple:
        return "value", getattr(self.objects[target], name)


def _place_of(error: BaseException) -> tuple[int, str]:
    """The line and the cell in which the error arose, the innermost if several; (0, "") if in none."""
    if isinstance(error, SyntaxError) and type(error.lineno) is int and type(error.filename) is str:
        return error.lineno, error.filename
    found, trace = (0, ""), error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(CELL):
            found = trace.tb_lineno, trace.tb_frame.f_code.co_filename
        trace = trace.tb_next
    return found


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
    Server(read, write).serve()


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

        select.select([watch, life], [], [])
    _end(pid)
    life.sendall(b"ended")


def _end(pid: int) -> None:
    """Kill the learner's process, its group, and every descendant that became ours; return when none is left."""
    for _ in range(1000):
        for kill, target in ((os.killpg, pid), (os.kill, pid), *((os.kill, child) for child in _children())):
            try:
                kill(target, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _children() -> list[int]:
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
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
