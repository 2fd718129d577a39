"""Run a CUDA kernel on the CPU under every check there is, and say in words what was found. Chapter 13.

Four looks at one source file, each a build of its own:

* values: several orders of the threads, compared with float64 (a race may need a certain order to show)
* ThreadSanitizer: two threads use the same memory, one writes, and no barrier orders them; any order shows it
* AddressSanitizer: reads and writes outside an array, the launch's shared memory included
* UndefinedBehaviorSanitizer: 32-bit overflow, indices outside an array's type

Every build defines PAGED_RACE, so that a file may leave out shapes that the cases here do not use.
cpu/cuda_on_cpu.h itself reports barriers and warp operations that do not fit together, in all four.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from . import build

CASES = ("plain", "grouped", "huge-pool")
SEEDS = (0, 1, 2, 3, 4)
LOOKS = ("values", "tsan", "asan")
VALUE_LIMIT = 1e-5
_TIMEOUT = 300


@dataclass(frozen=True)
class Finding:
    """One fault: what kind, the source lines involved (of the file under test), and a sentence."""

    kind: str  # "race", "out of bounds", "overflow", "threads", "wrong result", "crash"
    lines: tuple[int, ...]
    text: str


@dataclass
class Report:
    """What all looks found in one source file, each fault once; what was run, and what could not be."""

    source: Path
    findings: list[Finding] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    ran: list[str] = field(default_factory=list)

    def add(self, found: Finding) -> None:
        if (found.kind, found.lines, found.text) not in {(f.kind, f.lines, f.text) for f in self.findings}:
            self.findings.append(found)


def race(
    source: Path | str,
    *,
    defines: dict[str, object] | None = None,
    looks: tuple[str, ...] = LOOKS,
    cases: tuple[str, ...] = CASES,
    seeds: tuple[int, ...] = SEEDS,
) -> Report:
    """Examine one .cu file: every look at every case; the values also in every order.

    Raises ``BuildError`` when it does not compile, ``KernelUnavailable`` without g++.
    """
    source = Path(source)
    text = source.read_text(encoding="utf-8")
    if "<<<" in re.sub(r"//.*", "", text):
        raise build.BuildError(
            f"{source.name} launches with <<< >>>, which g++ does not know. Write "
            "LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...), which is <<< >>> under nvcc"
        )
    own_main = re.search(r"^\s*int\s+main\s*\(", text, re.MULTILINE) is not None
    report = Report(source)
    for look in looks:
        mode = "cpu" if look == "values" else look
        program = build.build(
            source, mode, {"PAGED_RACE": 1, **(defines or {})}, program=True, include=(source.resolve().parent,),
            forced_header=None if own_main else build.CPU_FOLDER / "race_main.h",
        )  # fmt: skip
        for case in ("",) if own_main else cases:
            for seed in seeds if look == "values" else seeds[:1]:
                _examine(report, look, program, case, seed)
    return report


def _examine(report: Report, look: str, program: Path, case: str, seed: int) -> None:
    environment = dict(
        os.environ,
        CUDA_ON_CPU_SEED=str(seed),
        # Report every pair of lines, also when they meet at an address that was reported before.
        TSAN_OPTIONS="exitcode=0 report_thread_leaks=0 history_size=4 suppress_equal_addresses=0",
        ASAN_OPTIONS="detect_leaks=0 detect_stack_use_after_return=0",
        UBSAN_OPTIONS="print_stacktrace=0",
    )
    command = [str(program), *([case] if case else [])]
    try:
        done = _run(command, environment)
    except subprocess.TimeoutExpired:
        report.add(Finding("threads", (), f"the kernel did not end within {_TIMEOUT} s: {case or 'main'}"))
        return
    name = f"{look}: {case or 'main'}, order {seed}"
    output, errors = done.stdout, done.stderr
    if "not taken" in output or "skipped" in output:
        report.skipped.append(
            f"{name}: the kernel does not take this case" if "not taken" in output else output.strip()
        )
        return
    report.ran.append(name)
    before = len(report.findings)
    looks = (_thread_sanitizer, _address_sanitizer, _undefined)
    for found in (*_simulator(errors), *(f for look_at in looks for f in look_at(errors, report.source))):
        report.add(found)
    explained = len(report.findings) > before or "Sanitizer" in errors or "cuda_on_cpu:" in errors
    if match := re.search(r": error (\S+)", output):
        error = float(match[1])
        if not error <= VALUE_LIMIT:
            what = "NaN" if error != error else f"off by {error:.2g}"
            report.add(
                Finding("wrong result", (), f"case {case}: the result is {what} (float64 is the judge)")
            )
    elif match := re.search(r": failed (-?\d+) ?(.*)", output):
        if not explained:
            report.add(
                Finding(
                    "crash", (), f"case {case}: the launch failed with code {match[1]} {match[2]}".rstrip()
                )
            )
    elif done.returncode != 0 and not explained:
        report.add(
            Finding(
                "crash",
                (),
                f"{case or 'main'}: ended with code {done.returncode} {errors.strip()[-200:]}".rstrip(),
            )
        )


def _run(command: list[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    options = dict(
        capture_output=True, text=True, encoding="utf-8", errors="replace", env=environment, timeout=_TIMEOUT
    )
    done = subprocess.run(command, check=False, **options)
    if "unexpected memory mapping" in done.stderr:
        # Older sanitizers do not know the address layout of newer Linux kernels; without randomisation they do.
        done = subprocess.run(["setarch", "-R", *command], check=False, **options)
    return done


def _line(frame: str, source: Path) -> int | None:
    match = re.search(rf"{re.escape(source.name)}:(\d+)", frame)
    return int(match[1]) if match else None


def _first_line(frames: str, source: Path) -> int | None:
    """The innermost stack frame that is in the file under test."""
    for frame in frames.splitlines():
        if re.match(r"\s*#\d+ ", frame) and (line := _line(frame, source)):
            return line
    return None


def _thread_sanitizer(errors: str, source: Path) -> list[Finding]:
    found = []
    for block in errors.split("WARNING: ThreadSanitizer: ")[1:]:
        block = block.split("==================")[0]
        if not block.startswith("data race"):
            found.append(Finding("race", (), "ThreadSanitizer: " + block.splitlines()[0]))
            continue
        sides = re.split(r"\n  (?=(?:Previous )?(?:atomic )?(?:read|write|Read|Write) of size)", block)
        accesses = []
        for side in sides[1:3]:
            kind = "writes" if "rite of size" in side.splitlines()[0] else "reads"
            accesses.append((kind, _first_line(side.split("\n\n")[0], source)))
        lines = tuple(line for _, line in accesses if line)
        words = [f"line {line} {kind}" if line else kind for kind, line in accesses]
        if len(words) == 2:
            text = f"{words[0]} and {words[1]} the same memory in two threads, with no barrier between them"
        else:
            text = f"{' '.join(words)} memory that another thread uses, with no barrier between them"
        found.append(Finding("race", lines, text))
    return found


def _address_sanitizer(errors: str, source: Path) -> list[Finding]:
    match = re.search(r"ERROR: AddressSanitizer: (\S+)", errors)
    if not match:
        return []
    block = errors[match.start() :]
    access = re.search(r"^(READ|WRITE) of size (\d+)", block, re.MULTILINE)
    line = _first_line(block.split("\n\n")[0], source)
    verb = "reads" if not access or access[1] == "READ" else "writes"
    size = f"{access[2]} bytes " if access else ""
    where = {
        "use-after-poison": "past the dynamic shared memory that the launch asked for",
        "heap-buffer-overflow": "outside an array in global memory",
        "SEGV": "at an address that belongs to nothing",
    }.get(match[1], f"where it must not ({match[1]})")
    return [Finding("out of bounds", (line,) if line else (), f"line {line or '?'} {verb} {size}{where}")]


def _undefined(errors: str, source: Path) -> list[Finding]:
    found = []
    for match in re.finditer(r"^(\S+?):(\d+):\d+: runtime error: (.*)$", errors, re.MULTILINE):
        file, line, what = Path(match[1]).name, int(match[2]), match[3]
        outside = "out of bounds" in what or "insufficient space" in what
        kind = "overflow" if "overflow" in what else "out of bounds" if outside else "undefined"
        place = f"line {line}" if file == source.name else f"{file} line {line}"
        found.append(Finding(kind, (line,) if file == source.name else (), f"{place}: {what}"))
    return found


def _simulator(errors: str) -> list[Finding]:
    match = re.search(r"^cuda_on_cpu: (.*(?:\n  .*)*)", errors, re.MULTILINE)
    if not match:
        return []
    lines = tuple(dict.fromkeys(int(n) for n in re.findall(r"line (\d+)", match[1])))
    return [Finding("threads", lines, match[1].replace("\n  ", "; "))]
