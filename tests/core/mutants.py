"""How good are the tests of core/? Put one-line faults in, one at a time, and count how many they notice.

    python tests/core/mutants.py            300 faults in 2 processes; goes on where it stopped
    python tests/core/mutants.py --list     only show the faults

Faults are made from the syntax tree (`faults_of`) and drawn with a seed. Each goes into a copy of the package
in a temporary folder, where the tests of this folder run until one fails (to save time only a fifth of the
random walk, and not the state machine). A test that hangs is a failure. Texts of errors and reports,
docstrings, annotations and `__repr__` are left alone. The result goes to benchmarks/results/mutants.json;
faults that no test could notice are explained in mutants_equivalent.json.
"""
from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import Queue
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CORE = ROOT / "minipaged" / "core"
RESULTS = ROOT / "benchmarks" / "results" / "mutants.json"
EQUIVALENT = HERE / "mutants_equivalent.json"
FIRST = ["test_cancel.py", "test_allocator.py", "test_cases_c.py", "test_scheduler.py", "test_events.py",
         "test_defaults.py"]  # quick, and they notice most
SLOW = ["test_vllm_schedules.py", "test_random_walk.py", "test_state_machine.py"]
WALK = [f"test_random_walk.py::test_random_walk[{part}]" for part in range(4)]  # a fifth of it
SECONDS_A_TEST = 90  # a test that takes longer hangs

COMPARE = {ast.Lt: ("<", ["<=", ">="]), ast.LtE: ("<=", ["<", ">"]), ast.Gt: (">", [">=", "<="]),
           ast.GtE: (">=", [">", "<"]), ast.Eq: ("==", ["!="]), ast.NotEq: ("!=", ["=="]),
           ast.Is: ("is", ["is not"]), ast.IsNot: ("is not", ["is"]), ast.In: ("in", ["not in"]),
           ast.NotIn: ("not in", ["in"])}
ARITHMETIC = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "//"), ast.FloorDiv: ("//", "*"),
              ast.Mod: ("%", "//"), ast.Div: ("/", "*"), ast.BitOr: ("|", "&"), ast.BitAnd: ("&", "|"),
              ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<")}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "appendleft": "append", "popleft": "pop",
         "reversed": "list", "sorted": "list"}
NOT_MUTATED = {"__repr__", "__str__", "_short", "_show"}


class Fault(NamedTuple):
    """Replace bytes start .. end of a file. `name` stays the same when other lines change."""

    file: str
    line: int
    name: str
    start: int
    end: int
    text: str


class _Finder(ast.NodeVisitor):
    """Collects the faults of one file."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.scope: list[str] = []
        self.found: list[Fault] = []

    # ---- places and texts ----

    def start(self, node: ast.AST) -> int:
        return self.starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.AST) -> int:
        return self.starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        return self.source[self.start(node):self.end(node)].decode()

    def put(self, start: int, end: int, text: str) -> None:
        old = " ".join(self.source[start:end].decode().split())
        line = self.source.count(b"\n", 0, start) + 1
        whole = " ".join(self.source[self.starts[line - 1]:self.starts[line]].decode().split())
        where = ".".join(self.scope) or "module"
        name = f"{self.file} {where}: {old} => {' '.join(text.split())} in: {whole}"
        self.found.append(Fault(self.file, line, name, start, end, text))

    def swap(self, node: ast.AST, text: str) -> None:
        self.put(self.start(node), self.end(node), text)

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replace an operator that stands between two nodes."""
        start, end = self.end(left), self.start(right)
        pattern = re.escape(old) if not old[0].isalpha() else rf"\b{old}\b"
        place = re.search(pattern, self.source[start:end].decode())
        if place:
            self.put(start + place.start(), start + place.end(), new)

    # ---- what is not mutated ----

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in NOT_MUTATED:
            return
        self.scope.append(node.name)
        for default in [*node.args.defaults, *(item for item in node.args.kw_defaults if item)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.append(node.name)
        for statement in node.body:
            self.visit(statement)
        self.scope.pop()

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Yield(self, node: ast.Yield) -> None:
        if self.file != "invariants.py":
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    # ---- statements ----

    def visit_Raise(self, node: ast.Raise) -> None:
        self.swap(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or (isinstance(node.value, (ast.Yield, ast.YieldFrom))
                                                    and self.file == "invariants.py"):
            return
        self.swap(node, "pass")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        targets = [item for target in node.targets
                   for item in (target.elts if isinstance(target, ast.Tuple) else [target])]
        if not all(isinstance(target, ast.Name) for target in targets):  # a missing name is too plain
            self.swap(node, "pass")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.swap(node, "pass")
        if type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self.between(node.target, node.value, old + "=", new + "=")
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        self.swap(node, "pass")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self.swap(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.swap(node, "break")

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self.swap(node, "pass")
        else:
            text = self.text(node.value)
            if text not in ("None", "True", "False"):
                self.swap(node.value, "None")
            self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        self.swap(node.test, f"not ({self.text(node.test)})")
        self.generic_visit(node)

    # ---- expressions ----

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.swap(node.test, f"(not ({self.text(node.test)}))")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            old, others = COMPARE[type(operator)]
            for new in others:
                self.between(left, right, old, new)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in ARITHMETIC and not isinstance(node.right, ast.JoinedStr):
            self.between(node.left, node.right, *ARITHMETIC[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:]):
            self.between(left, right, old, new)
        for value in node.values:  # one condition is not asked
            self.swap(value, str(old == "and"))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            self.swap(node, f"({self.text(node.operand)})")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.swap(node, str(not node.value))
        elif isinstance(node.value, int):
            self.swap(node, str(node.value + 1))
            self.swap(node, f"({node.value - 1})")

    def visit_Call(self, node: ast.Call) -> None:
        first, second = (*node.args, None, None)[:2]
        same = ("min", "max", "isinstance")  # the order changes nothing, or is always noticed
        if second is not None and self.text(node.func) not in same and not isinstance(first, ast.Starred):
            gap = self.source[self.end(first):self.start(second)].decode()
            self.put(self.start(first), self.end(second), self.text(second) + gap + self.text(first))
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in NAMES:
            self.swap(node, NAMES[node.id])

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if node.attr in NAMES:
            self.put(self.end(node) - len(node.attr), self.end(node), NAMES[node.attr])
        self.generic_visit(node)


def faults_of(file: Path) -> list[Fault]:
    """All faults of a file that leave it valid Python, each name once."""
    source = file.read_bytes()
    finder = _Finder(file.name, source)
    finder.visit(ast.parse(source))
    kept: dict[str, Fault] = {}
    for fault in finder.found:
        try:
            if ast.dump(ast.parse(mutated(source, fault))) != ast.dump(ast.parse(source)):
                name = fault.name
                while name in kept:  # the same change twice in a line
                    name += " (again)"
                kept[name] = fault._replace(name=name)
        except SyntaxError:
            continue
    return list(kept.values())


def mutated(source: bytes, fault: Fault) -> bytes:
    return source[:fault.start] + fault.text.encode() + source[fault.end:]


def sample(count: int, seed: int) -> list[Fault]:
    """`count` faults of all files of core, drawn so that an edit leaves faults elsewhere in the draw."""
    faults = [fault for file in sorted(CORE.glob("[a-z]*.py")) for fault in faults_of(file)]
    return sorted(faults, key=lambda fault: hashlib.sha256(f"{seed} {fault.name}".encode()).digest())[:count]


# ---- running the tests ----

class Workplace:
    """A copy of the package and of the tests in which faults are tried."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.core = folder / "package" / "minipaged" / "core"
        shutil.copytree(ROOT / "minipaged", folder / "package" / "minipaged", dirs_exist_ok=True,
                        ignore=shutil.ignore_patterns("__pycache__", "models"))
        shutil.copytree(HERE, folder / "tests" / "core", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "tests" / "conftest.py", folder / "tests")
        shutil.copy(ROOT / "pyproject.toml", folder)
        rest = sorted(file.name for file in HERE.glob("test_*.py") if file.name not in FIRST + SLOW)
        self.rounds = [[f"tests/core/{name}" for name in names] for names in (FIRST, [*rest, SLOW[0], *WALK])]

    def prove(self) -> None:
        """Without a fault all tests must pass. Keeps the tests' compiled files, but not those of the package:
        a fault that changes neither the length nor the second of a file would not be seen."""
        if failed := self.run():
            raise SystemExit(f"without any fault a test fails: {failed}; mend that first")
        shutil.rmtree(self.core / "__pycache__")

    def copy(self, folder: Path) -> Workplace:
        """A second workplace with the same files."""
        shutil.copytree(self.folder, folder)
        other = object.__new__(Workplace)
        other.folder, other.rounds = folder, self.rounds
        other.core = folder / self.core.relative_to(self.folder)
        return other

    def run(self, compiled: str = "") -> str:
        """"" when all tests pass, else what failed first."""
        environment = {**os.environ, "PYTHONPATH": str(self.folder / "package"), "OMP_NUM_THREADS": "1",
                       "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": compiled}
        options = ["-x", "-q", "--tb=no", "-rfE", "-p", "no:cacheprovider",
                   "-o", f"faulthandler_timeout={SECONDS_A_TEST}", "-o", "faulthandler_exit_on_timeout=true"]
        for tests in self.rounds:
            done = subprocess.run([sys.executable, "-c", _MAIN, *tests, *options], cwd=self.folder,
                                  env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace")
            if done.returncode:
                failed = re.search(r"^(?:FAILED|ERROR) (?:tests/core/)?(\S+)", done.stdout, re.MULTILINE)
                return (failed[1] if failed else "a test hangs" if "Timeout" in done.stdout
                        else f"pytest ended with code {done.returncode}: {done.stdout[-200:]!r}")
        return ""

    def try_fault(self, fault: Fault) -> tuple[str, float]:
        """(what killed it or "", seconds)"""
        target, start = self.core / fault.file, time.perf_counter()
        source = target.read_bytes()
        target.write_bytes(mutated(source, fault))
        try:
            return self.run(compiled="no"), time.perf_counter() - start
        finally:
            target.write_bytes(source)


# Runs pytest with a limit on memory, where there are such limits: a fault may make a list grow for ever.
_MAIN = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
except ImportError:
    pass
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def digest(*files: Path) -> str:
    """A name for the contents of some files."""
    contents = b"".join(file.name.encode() + file.read_bytes() for file in sorted(files))
    return hashlib.sha256(contents).hexdigest()[:16]


def load(core: str, tests: str, sources: dict[str, str]) -> dict[str, dict]:
    """Earlier results that still say something: what was noticed, while the file with the fault is the same,
    and what survived these very tests in this very core."""
    if not RESULTS.exists():
        return {}
    earlier = json.loads(RESULTS.read_text(encoding="utf-8"))
    same = (earlier["core"], earlier["tests"]) == (core, tests)
    return {row["fault"]: row for row in earlier["faults"]
            if (row["killed_by"] or same) and row["source"] == sources.get(row["file"])}


def save(core: str, tests: str, rows: list[dict]) -> None:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    killed = sum(bool(row["killed_by"]) for row in rows)
    head = {"core": core, "tests": tests, "num_faults": len(rows), "killed": killed}
    body = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    RESULTS.write_text(json.dumps(head)[:-1] + ', "faults": [\n' + body + "\n]}\n", encoding="utf-8")


def run_all(faults: list[Fault], jobs: int) -> list[dict]:
    """Try all faults that have no result yet; saves after each."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()

    core, tests = digest(*CORE.glob("*.py")), digest(*(set(HERE.glob("*.py")) - {HERE / "mutants.py"}))
    sources = {fault.file: digest(CORE / fault.file) for fault in faults}
    rows = load(core, tests, sources)
    todo = [fault for fault in faults if fault.name not in rows]
    with (tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool,
          Progress(*columns) as progress):
        places: Queue[Workplace] = Queue()
        first = Workplace(Path(folder) / "0")
        if digest(*first.core.glob("*.py")) != core:
            raise SystemExit("core/ was edited just now; start again")
        if todo:
            first.prove()
        for place in [first, *(first.copy(Path(folder) / str(number)) for number in range(1, jobs))]:
            places.put(place)

        def attempt(fault: Fault) -> tuple[Fault, str, float]:
            place = places.get()
            try:
                return fault, *place.try_fault(fault)
            finally:
                places.put(place)

        bar = progress.add_task("faults", total=len(faults), completed=len(faults) - len(todo))
        for future in as_completed([pool.submit(attempt, fault) for fault in todo]):
            fault, killed_by, seconds = future.result()
            rows[fault.name] = {"fault": fault.name, "file": fault.file, "line": fault.line,
                                "source": sources[fault.file], "killed_by": killed_by,
                                "seconds": round(seconds, 1)}
            done = [rows[fault.name] for fault in faults if fault.name in rows]
            save(core, tests, done)
            alive = sum(not row["killed_by"] for row in done)
            progress.update(bar, advance=1, description=f"faults, {alive} survive")
    done = [rows[fault.name] for fault in faults]
    save(core, tests, done)
    return done


def report(rows: list[dict]) -> Iterator[str]:
    """A table by file, the survivors and why."""
    reasons = json.loads(EQUIVALENT.read_text(encoding="utf-8")) if EQUIVALENT.exists() else {}
    total = Counter(row["file"] for row in rows)
    killed = Counter(row["file"] for row in rows if row["killed_by"])
    yield f"{'file':<22} {'faults':>6} {'killed':>6}"
    for file in sorted(total):
        yield f"{file:<22} {total[file]:>6} {killed[file]:>6}"
    yield f"{'all':<22} {len(rows):>6} {killed.total():>6} = {killed.total() / len(rows):.1%}"
    for row in (row for row in rows if not row["killed_by"]):
        yield f"\n{row['file']}:{row['line']}  {row['fault'].split(': ', 1)[1]}"
        yield f"    {reasons.get(row['fault'], 'NOT EXPLAINED')}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python tests/core/mutants.py", description=__doc__.splitlines()[0],
                                     epilog="example: python tests/core/mutants.py --list --count 10")
    parser.add_argument("--count", type=int, default=300, help="how many faults (default 300)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (default 0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--list", action="store_true", help="show the faults and stop")
    args = parser.parse_args(argv)
    faults = sample(args.count, args.seed)
    if args.list:
        print("\n".join(f"{fault.file}:{fault.line}  {fault.name.split(': ', 1)[1]}" for fault in faults))
        return 0
    rows = run_all(faults, args.jobs)
    print("\n".join(report(rows)))
    return 0 if sum(bool(row["killed_by"]) for row in rows) >= 0.95 * len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
