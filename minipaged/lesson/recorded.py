"""Results that were recorded on one machine, for readers whose machine cannot make them (chapters 11 to 13).

    registers = recorded("12_triton", "registers", compile_it)       runs it here too, where it can
    changed = recorded("11_engine", "bfloat16", try_it, again=False)  only recorded: it depends on the processor

The output says when and where the result was recorded. Where `measure` runs, its result is compared with the
recorded one and a difference is said, so the output is the same on every machine that agrees. To record anew:
MINIPAGED_RECORD=1 python notebooks/build.py 12_triton.
"""
from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from minipaged.kernels import KernelUnavailable
from minipaged.lesson.present import present

FOLDER = Path(__file__).parent / "recorded_results"
SOFTWARE = ("torch", "triton", "transformers")


def recorded(chapter: str, name: str, measure: Callable[[], object], *, again: bool = True) -> object:
    """The result of `measure()`, or the recorded one where it raises KernelUnavailable or an import is missing.

    `measure` returns plain data (numbers, texts, lists, dictionaries with text keys); the result is as JSON gives
    it back. Says when and where the record was made. `again=False`: what depends on the processor or takes long
    runs only to be recorded. Errors: KeyError for a result that nobody recorded.
    """
    record, recording = _read(chapter).get(name), bool(os.environ.get("MINIPAGED_RECORD"))
    here = None
    if again or recording:
        try:
            here = json.loads(json.dumps(measure()))
        except (KernelUnavailable, ModuleNotFoundError) as missing:
            if record is None:
                raise KeyError(f"{name!r} of {chapter} was not recorded; it can't run here: {missing}") from None
    if here is not None and recording:
        record = {"date": datetime.date.today().isoformat(), "machine": machine(), "value": here}
        _write(chapter, {**_read(chapter), name: record})
    if record is None:
        raise KeyError(f"{name!r} of {chapter} was not recorded; MINIPAGED_RECORD=1 records it")
    said = f"Recorded on {record['date']}: {record['machine']}."
    if again:
        said += " Run again here, where it can run."
    if here is not None and here != record["value"]:
        said += "".join(f"\n{what} {json.dumps(value)[:400]}" for what, value in
                        (("Here it is different:", here), ("Recorded was:        ", record["value"])))
    present(said)
    return record["value"] if here is None else here


def machine() -> str:
    """This machine in a line: processor, GPU or none, system, and the versions that matter."""
    versions = []
    for package in SOFTWARE:
        try:
            versions.append(f"{package} {importlib.metadata.version(package).partition('+')[0]}")
        except importlib.metadata.PackageNotFoundError:
            continue
    if compiler := shutil.which("g++"):
        said = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout
        versions.append(f"g++ {said.strip()}")
    processor = f"{platform.machine()} processor with {os.cpu_count()} cores"
    return ", ".join([processor, _gpu(), platform.system(), *versions])


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"


def _read(chapter: str) -> dict[str, dict]:
    path = FOLDER / f"{chapter}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _write(chapter: str, records: dict[str, dict]) -> None:
    text = json.dumps(records, indent=1, ensure_ascii=False, sort_keys=True)
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{chapter}.json").write_text(text + "\n", encoding="utf-8")
