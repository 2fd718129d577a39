"""Where a learner's predictions are kept: one small JSON file on this machine, never sent anywhere.

The folder is the environment variable MINIPAGED_PROGRESS, or the usual one of the platform. A write replaces
the whole file at once, so a killed process leaves the old file or the new one.
"""
from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

VERSION = 1
FILE = "predictions.json"


def folder() -> Path:
    """The folder of the learner's files; it may not exist yet."""
    if named := os.environ.get("MINIPAGED_PROGRESS"):
        return Path(named)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "minipaged"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "minipaged"
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "minipaged"


def load() -> dict[str, dict]:
    """Prediction id -> what is known of it; {} if there is no file. Errors: ValueError for a damaged file."""
    path = folder() / FILE
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
    target = folder() / FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=FILE, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            json.dump({"version": VERSION, "predictions": predictions}, file, ensure_ascii=False, indent=1)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
