"""Where a learner's predictions are kept: one small JSON file on this machine, never sent anywhere.

It lies beside the progress of the labs (minipaged.lab.progress says where). A write replaces the whole file at
once, so a killed process leaves the old file or the new one.
"""
from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from minipaged.lab.progress import progress_file

VERSION = 1


def file() -> Path:
    """The file of the predictions; it may not exist yet."""
    return progress_file().with_name("predictions.json")


def load() -> dict[str, dict]:
    """Prediction id -> what is known of it; {} if there is no file. Errors: ValueError for a damaged file."""
    path = file()
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        entries = content["predictions"] if content["version"] == VERSION else None
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError):
        entries = None
    if not isinstance(entries, dict) or not all(isinstance(entry, dict) for entry in entries.values()):
        raise ValueError(f"{path} is no file of predictions of this version ({VERSION}); move it away to start again")
    return entries


def save(predictions: dict[str, dict]) -> None:
    """Replace the file."""
    target = file()
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=target.name, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as out:
            json.dump({"version": VERSION, "predictions": predictions}, out, ensure_ascii=False, indent=1)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
