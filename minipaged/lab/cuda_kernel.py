"""A learner's CUDA kernel as text: put into a program, compiled for the CPU, run and examined (lab of chapter 13)."""
from __future__ import annotations

import os
import re
from functools import cache, lru_cache
from pathlib import Path

import minipaged.kernels
from minipaged.doctor import find_compiler
from minipaged.lab import cuda_runner
from minipaged.lab.answer import Answer, LocalAnswer
from minipaged.lab.cuda_prelude import PRELUDE
from minipaged.lab.cuda_text import Foreign, as_written, safe
from minipaged.lab.plain import Said
from minipaged.lab.trace import Trace

SOUND = Said("CUDA text that compiles and runs without a fault")
_RUNNER = "run_kernel"


Lines = dict[str, list[str]]


def play(trace: Trace, function: str, main: str, numbers: list) -> Lines | None:
    """Ask the answer for its text, compile it in a program that ends with `main`, run that, and look for faults.

    `main` is C++; it reads `numbers` and prints lines that begin with a name: those are the result. A number behind
    `outside` or `behind` that is not 0 is a fault. None where there is one: the trace has it already.
    """
    found: list[Lines] = []

    def view(text: object) -> Said:
        if type(text) is not str:
            raise TypeError("no text")
        try:
            compiled = safe(text, re.findall(r"LAUNCH\((\w+)", main))
        except Foreign as foreign:
            return Said(f"text with {foreign}")
        what, *rest = _run(trace.answer, compiled, main, numbers)
        if what == "compiler":
            return Said(_first_error(rest[0]))
        fault, lines = _read(text, rest[1])
        if not fault:
            found.append(lines)
        return Said(fault) if fault else SOUND

    trace.call(function, view=view)
    return found[0] if found else None


def _run(answer: Answer, text: str, main: str, numbers: list) -> tuple:
    program = f'#line 1 "kernel.cu"\n{text}\n#line 1 "main.cu"\n{main}'
    if isinstance(answer, LocalAnswer):
        return _run_here(program, tuple(numbers))
    with answer.fresh() as runner:  # a process of its own, in which only the text is the learner's
        runner.load({}, [("<runner>", Path(cuda_runner.__file__).read_text(encoding="utf-8"), True)])
        return tuple(runner.call(_RUNNER, None, (program, _headers(), list(numbers)), {}).value)


@lru_cache(maxsize=512)
def _run_here(program: str, numbers: tuple) -> tuple:
    return cuda_runner.run_kernel(program, _headers(), numbers, find_compiler() or "g++", str(_cache_folder()))


@cache
def _headers() -> dict[str, str]:
    cpu = Path(minipaged.kernels.__file__).with_name("cpu")  # minipaged.kernels.build knows it too, and loads torch
    return {"prelude.h": PRELUDE, "cuda_on_cpu.h": (cpu / "cuda_on_cpu.h").read_text(encoding="utf-8")}


def _cache_folder() -> Path:
    base = os.environ.get("MINIPAGED_CACHE") or os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "minipaged" / "labs"


def _first_error(said: str) -> str:
    for line in as_written(said).splitlines():
        if found := re.match(r"(.*?):(\d+):\d+: (?:fatal )?error: (.*)", line):
            place = f"line {found[2]}" if found[1] == "kernel.cu" else "in the program around it"
            return f"text that does not compile: {place}: {found[3]}"
    return f"text that does not compile: {said.strip().splitlines()[-1][:200] if said.strip() else 'no reason given'}"


def _read(text: str, runs: list) -> tuple[str, Lines]:
    """What is wrong ("" for nothing), and the lines of the output, word by word."""
    faults = []
    for code, _, errors in runs:
        faults += _faults(text, errors)
        if code == 124:
            faults.append("the kernel does not come to an end")
        elif code and not faults:
            faults.append("the program crashes: an address that belongs to nobody is used")
    outputs = [output for _, output, _ in runs]
    if not faults and len(set(outputs)) > 1:
        faults.append("the result depends on the order in which the threads run")
    lines = {words[0]: words[1:] for line in outputs[0].splitlines() if (words := line.split())}
    for name, what in (("outside", "reads outside of its array"), ("behind", "writes behind the end of out")):
        if lines.get(name, ["0"]) != ["0"]:
            faults.append(f"{lines[name][0]} {what}")
    return "; ".join(dict.fromkeys(faults)), lines


def _faults(text: str, errors: str) -> list[str]:
    """What the race checker and the GPU on the CPU have to say, with the kernel's own lines."""
    found = []
    if match := re.search(r"^cuda_on_cpu: (.*?)(?: in block .*)?$", errors, re.MULTILINE):
        found.append(match[1])
    rows, pairs = text.splitlines(), set()
    for block in errors.split("WARNING: ThreadSanitizer: data race")[1:]:
        sides = re.split(r"\n  (?=(?:Previous )?(?:atomic )?(?:read|write|Read|Write) of size)", block)[1:3]
        lines = [re.search(r"kernel\.cu:(\d+)", side.split("\n\n")[0]) for side in sides]
        shown = {rows[int(line[1]) - 1].strip() for line in lines if line and int(line[1]) <= len(rows)}
        if shown or not found:  # main looks at the memory of threads that never came to their end
            pairs.add(" and ".join(f"`{row}`" for row in sorted(shown)))
    if pairs:
        found.append(f"race: two threads use the same memory with no barrier between them: {'; '.join(sorted(pairs))}")
    return found
