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
from minipaged.lab.plain import Said
from minipaged.lab.trace import Trace

SOUND = Said("CUDA text that compiles and runs without a fault")
_RUNNER = "run_kernel"
#: no kernel of a lab needs these; they would blind the race checker or change the program that measures
_FOREIGN = re.compile(r"__attribute|SIM_QUIET|\[\[|<:|_Pragma|\basm\b|__asm|\b(?:lab|sim)\b"
                      r"|(?:#|%:)(?!\s*pragma\s+unroll)\s*\w*")
#: stands before a learner's text. `Floats` is global memory that notes who reads what; on a GPU: const float*.
PRELUDE = '''\
#include "cuda_on_cpu.h"
#include <set>
#include <tuple>

namespace lab {  // plain arrays, so that the race checker sees only what the kernel does
struct Read { int warp, number; int64_t sector; };  // the number-th read of a thread; a sector is 32 bytes
constexpr int kMost = 1 << 18;
inline Read reads[kMost];
inline int num_reads, reads_of[1024], outside;
SIM_QUIET inline void note(int64_t index, int64_t size) {
  int thread = sim::current->linear;
  if (num_reads < kMost) reads[num_reads++] = {thread / 32, reads_of[thread]++, index * (int64_t)sizeof(float) / 32};
  if (index < 0 || index >= size) outside++;
}
inline int sectors() {  // those of one request, an instruction of a warp, count once
  auto key = [](const Read& a) { return std::make_tuple(a.warp, a.number, a.sector); };
  std::sort(reads, reads + num_reads, [=](const Read& a, const Read& b) { return key(a) < key(b); });
  int sum = 0;
  for (int i = 0; i < num_reads; i++) sum += i == 0 || key(reads[i]) != key(reads[i - 1]);
  return sum;
}
inline int requests() {
  std::set<std::pair<int, int>> all;
  for (int i = 0; i < num_reads; i++) all.insert({reads[i].warp, reads[i].number});
  return all.size();
}
inline double number() { double x = 0; if (scanf("%lf", &x) != 1) exit(3); return x; }
template <class T> std::vector<T> numbers(int count) {
  std::vector<T> all(count);
  for (T& x : all) x = number();
  return all;
}
inline std::vector<float> floats(int count) { return numbers<float>(count); }
inline std::vector<int> ints(int count) { return numbers<int>(count); }
}  // namespace lab

struct Floats {
  const float* data;
  int64_t size;
  SIM_QUIET float operator[](int64_t index) const {
    lab::note(index, size);
    return index < 0 || index >= size ? NAN : data[index];
  }
};
'''


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
        if foreign := _FOREIGN.search(re.sub(r"\\\s*\n", "", text)):
            return Said(f"text with `{foreign[0][:30]}`: a kernel here stands alone, without directives, attributes "
                        "and the program around it")
        what, *rest = _run(trace.answer, text, main, numbers)
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
    for line in said.splitlines():
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
        pairs.add(" and ".join(f"`{row}`" for row in sorted(shown)))
    if pairs:
        found.append(f"race: two threads use the same memory with no barrier between them: {'; '.join(sorted(pairs))}")
    return found
