"""Compile a CUDA text with g++ and run it on some numbers (lab of chapter 13). Standard library only.

In a notebook this is imported. Under the grader the text of this file runs in the learner's own locked process: what
a learner's kernel does there, it can't do to the grader. How the GPU is played: kernels/cpu/cuda_on_cpu.h.
"""
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

FLAGS = ("-std=c++17", "-O0", "-g", "-w", "-U_FORTIFY_SOURCE", "-fno-threadsafe-statics", "-fstack-clash-protection",
         "-I.", "-x")
GCC = ("-fstack-reuse=none",)  # a pointer to what was declared in an inner block finds nothing else there
RACES = ("-fsanitize=thread",)
ORDERS = (0, 1, 2, 3)  # of the threads, where no race checker can run
RUN_SECONDS = 10
ENOUGH = 100_000  # characters of what a program prints


def run_kernel(text, headers, numbers, compiler="g++", cache=None):
    """Compile a text that includes prelude.h, one of the headers, and give its program `numbers` on its input.

    ("compiler", what it said) or ("ran", checked for races?, [(exit code, output, errors) for each order]). `cache`: a
    folder where programs are kept; None: a temporary one. Code 124: it did not come to an end.
    """
    checked = _has_room()
    command = [compiler, *(RACES if checked else ()), *(() if "clang" in compiler else GCC), *FLAGS]
    folder = os.path.join(cache or tempfile.mkdtemp(dir=os.getcwd()), "lab-" + _hash(*command, *headers.values()))
    if not os.path.isdir(folder):
        _make(folder, headers, [*command, "c++-header", "prelude.h"] if cache else None)
    program = os.path.join(folder, _hash(text))
    if not os.path.exists(program):
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            source, fresh = os.path.join(scratch, "program.cu"), os.path.join(scratch, "program")
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            done = _call([*command, "c++", "-include", "prelude.h", source, "-o", fresh], folder, scratch)
            if done.returncode:
                return "compiler", done.stderr[:ENOUGH]
            os.replace(fresh, program)
    given = " ".join(map(str, numbers))
    return "ran", checked, [_run(program, given, order) for order in (ORDERS[:1] if checked else ORDERS)]


def _hash(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _make(folder, headers, compile_header):
    """A folder with the headers, the first of them compiled once for all kernels that follow."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    fresh = tempfile.mkdtemp(dir=os.path.dirname(folder))
    for name, text in headers.items():
        with open(os.path.join(fresh, name), "w", encoding="utf-8") as file:
            file.write(text)
    if compile_header:
        _call(compile_header, fresh, fresh)
    try:
        os.rename(fresh, folder)
    except OSError:  # another process was faster
        shutil.rmtree(fresh)


def _call(command, folder, scratch):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace",
                          env={**os.environ, "TMPDIR": scratch, "LC_ALL": "C"})


def _run(program, numbers, order):
    environment = {**os.environ, "CUDA_ON_CPU_SEED": str(order),
                   "TSAN_OPTIONS": "exitcode=0 report_thread_leaks=0 history_size=4 suppress_equal_addresses=0"}
    options = dict(input=numbers, capture_output=True, text=True, errors="replace", env=environment,
                   timeout=RUN_SECONDS)
    try:
        done = subprocess.run([program], **options)
        if "unexpected memory mapping" in done.stderr:  # an older sanitizer on a newer Linux
            done = subprocess.run(["setarch", "-R", program], **options)
    except subprocess.TimeoutExpired:
        return 124, "", ""
    return done.returncode, done.stdout[:ENOUGH], done.stderr[:ENOUGH]


def _has_room():
    """The race checker reserves terabytes of addresses: not where a process may have only so many."""
    if not sys.platform.startswith("linux"):
        return False
    import resource

    return resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
