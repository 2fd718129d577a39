"""Inside a learner's process: load the answer's cells, then make the calls that come over the pipe.

A request is (number, what, ...), its reply (number, "value" | "raises" | "refused", ...) with the same number. Whoever
runs here can change all of this; it knows no expected value, so the most that can be won is to send other values.
Imported by child.py by its file name, without minipaged.
"""
from __future__ import annotations

import itertools
import linecache
import sys
import types

import alias
import protocol

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
        if not self.names:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            main.display = lambda *things, **options: None
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
        """(value, arguments named in `writes` as they are now, positions of others that the call changed, does the
        value hold one list twice)"""
        function = self.names[target] if method is None else getattr(self.objects[target], method)
        before = [protocol.encode(argument) for argument in arguments]
        value = function(*arguments, **options)
        if type(value) is types.GeneratorType:
            value = list(itertools.islice(value, MAX_ITEMS))
        changed = [at for at, argument in enumerate(arguments)
                   if at not in writes and protocol.encode(argument, names_for_odd=True) != before[at]]
        return "value", value, [arguments[at] for at in writes], changed, alias.one_in_two_places(value, arguments)

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
