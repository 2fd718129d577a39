"""`minipaged doctor`: what works on this machine, and what to do about what does not (chapter 00).

Each check is a small function that looks and reports; it imports heavy things only when it runs. A check
is `ok`, `off` (not here; that part of the course is skipped) or `missing` (the course needs it). The
programs that tests need (`find_chromium`, `find_compiler`) are found here too, so that doctor and tests
never disagree.
"""
from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

INSTALL = "Run `make setup`, or `pip install -r requirements.lock && pip install --no-deps -e .`."


@dataclass(frozen=True)
class Finding:
    """One line of the report. `status`: ok | off | missing. `advice` is empty when there is nothing to do."""

    name: str
    status: str
    found: str
    advice: str = ""


def run(as_json: bool = False) -> int:
    """Print the report, as a table or as one JSON object. Returns 1 if something required is missing."""
    findings = examine()
    if as_json:
        report = {"ok": not _missing(findings), "findings": [asdict(one) for one in findings]}
        print(json.dumps(report, indent=1, ensure_ascii=False))
    else:
        print(_table(findings))
    return 1 if _missing(findings) else 0


def examine() -> list[Finding]:
    """Run every check. A check that itself fails is a finding too, never an exception."""
    findings = []
    for name, required, check in CHECKS:
        try:
            findings.append(check(name))
        except Exception as error:
            status, advice = ("missing", INSTALL) if required else ("off", "It is here but does not work.")
            findings.append(Finding(name, status, f"{type(error).__name__}: {error}", advice))
    return findings


def find_chromium() -> str | None:
    """Path of Chromium or Chrome, or None. The tests of the interactive film drive it."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge"):
        if path := shutil.which(name):
            return path
    mac = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
    return str(mac) if mac.exists() else None


def find_compiler() -> str | None:
    """Path of g++ or clang++, or None. The CUDA files are compiled with it to run on the CPU."""
    return shutil.which("g++") or shutil.which("clang++")


def _python(name: str) -> Finding:
    return Finding(name, "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _torch(name: str) -> Finding:
    if find_spec("torch") is None:
        return Finding(name, "missing", "not installed", INSTALL)
    import torch

    build = f"CUDA {torch.version.cuda} build" if torch.version.cuda else "CPU build"
    if torch.version.hip:
        build = f"ROCm {torch.version.hip} build"
    return Finding(name, "ok", f"{torch.__version__}, {build}, {torch.get_num_threads()} threads")


def _model(name: str) -> Finding:
    folder = Path(__file__).parent / "models" / "tiny"
    needed = ("config.json", "model.safetensors", "tokenizer.json")
    lacking = [file for file in needed if not (folder / file).exists()]
    if lacking:
        return Finding(name, "missing", f"no {', '.join(lacking)}",
                       "Take a whole copy of the repository, or run python -m minipaged.models.train_tiny.")
    size = sum(file.stat().st_size for file in folder.iterdir())
    return Finding(name, "ok", f"tiny, {size / 1e6:.2f} MB")


def _package(*names: str, optional: bool = False) -> Callable[[str], Finding]:
    """A check that these distributions are installed."""
    def check(name: str) -> Finding:
        found, lacking = [], []
        for package in names:
            try:
                found.append(f"{package} {version(package)}")
            except PackageNotFoundError:
                lacking.append(package)
        if lacking:
            status = "off" if optional else "missing"
            return Finding(name, status, f"not installed: {', '.join(lacking)}", INSTALL)
        return Finding(name, "ok", ", ".join(found))
    return check


def _gpu(name: str) -> Finding:
    import torch

    if torch.cuda.is_available():
        memory = torch.cuda.get_device_properties(0).total_memory
        return Finding(name, "ok", f"{torch.cuda.get_device_name(0)}, {memory / 2**30:.1f} GiB, "
                                   f"{torch.cuda.device_count()} device(s)")
    if shutil.which("nvidia-smi"):
        return Finding(name, "off", "nvidia-smi is here but torch sees no GPU",
                       "Install the CUDA build: make clean && make setup TORCH=cuda. Then check the driver.")
    return Finding(name, "off", "none", "Nothing to do: everything runs on the CPU.")


def _triton(name: str) -> Finding:
    if find_spec("triton") is None:
        where = "Install it: pip install 'triton>=3.7,<3.10'." if sys.platform == "linux" else \
            "There is no triton for this system; chapter 12 can be read, not run."
        return Finding(name, "off", "not installed", where)
    import torch

    if torch.cuda.is_available():
        return Finding(name, "ok", f"{version('triton')}, on the GPU")
    return Finding(name, "ok", f"{version('triton')}, on the CPU by its interpreter (TRITON_INTERPRET=1)")


def _program(find: Callable[[], str | None], advice: str) -> Callable[[str], Finding]:
    """A check that a program is there and starts."""
    def check(name: str) -> Finding:
        path = find()
        if path is None:
            return Finding(name, "off", "not found", advice)
        try:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
        except (OSError, subprocess.TimeoutExpired) as error:
            return Finding(name, "off", f"{path} does not start: {error}", advice)
        lines = [line for line in done.stdout.splitlines() if any(letter.isdigit() for letter in line)]
        if done.returncode != 0 or not lines:
            return Finding(name, "off", f"{path} does not start (exit code {done.returncode})", advice)
        release = next((line for line in lines if "release" in line), lines[0])  # not nvcc's copyright line
        return Finding(name, "ok", release.strip())
    return check


NVCC = "Only for chapter 13 on a GPU: install the CUDA toolkit. On the CPU a C++ compiler is enough."
COMPILER = "For chapter 13 on the CPU: apt install g++, on macOS xcode-select --install, on Windows use WSL."
CHROMIUM = "Only for the browser tests: apt install chromium, or install Chrome."

CHECKS: list[tuple[str, bool, Callable[[str], Finding]]] = [
    # name, required, check
    ("Python", True, _python),
    ("torch", True, _torch),
    ("model", True, _model),
    ("libraries", True, _package("numpy", "safetensors", "tokenizers", "rich")),
    ("Jupyter", True, _package("jupyterlab", "ipykernel", "ipywidgets", "matplotlib")),
    ("film widget", False, _package("anywidget", optional=True)),
    ("GPU", False, _gpu),
    ("triton", False, _triton),
    ("nvcc", False, _program(lambda: shutil.which("nvcc"), NVCC)),
    ("C++ compiler", False, _program(find_compiler, COMPILER)),
    ("Chromium", False, _program(find_chromium, CHROMIUM)),
]


def _missing(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.status == "missing"]


def _table(findings: list[Finding]) -> str:
    width = max(len(one.name) for one in findings)
    lines = []
    for one in findings:
        lines.append(f"{one.status:<8} {one.name:<{width}}  {one.found}")
        if one.advice:
            lines.append(f"{'':<8} {'':<{width}}  -> {one.advice}")
    missing = _missing(findings)
    lines.append("")
    lines.append(f"Missing: {', '.join(one.name for one in missing)}." if missing
                 else "Everything that the course needs is here. What is `off` is skipped and says so.")
    return "\n".join(lines)
