"""What a learner has done: one JSON file that survives kills and moves between machines (all labs).

`MINIPAGED_PROGRESS` names the file; without it, it lies in the platform's folder for data of programs. To move
it, copy it. It knows exercises by their ids, so that a new order or new exercises change nothing; ids that this
version doesn't know are kept. Each change is written to a second file that then takes the place of the first,
so a kill leaves the old state or the new one.
"""
from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

VERSION = 1


class ProgressError(ValueError):
    """A progress file that can't be read. The message names it and says what to do."""


def progress_file() -> Path:
    """Where the progress is kept. If MINIPAGED_PROGRESS is a folder, it is progress.json in there."""
    chosen = os.environ.get("MINIPAGED_PROGRESS")
    if chosen:
        path = Path(chosen).expanduser()
        return path / "progress.json" if path.is_dir() or chosen.endswith(("/", os.sep)) else path
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "minipaged" / "progress.json"


def read() -> dict[str, dict]:
    """exercise id -> {"checks": n, "passed": bool, "hints": n, "solution": bool, "forced": bool}.

    Raises ProgressError for a file that is not ours, or of a later version.
    """
    path = progress_file()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise ProgressError(f"the progress file {path} can't be read ({error}); move it away to start anew") from None
    if not isinstance(data, dict) or not isinstance(data.get("exercises"), dict) or "version" not in data:
        raise ProgressError(f"{path} is no progress file of minipaged; move it away to start anew, or set "
                            "MINIPAGED_PROGRESS to another one")
    if data["version"] != VERSION:
        raise ProgressError(f"{path} has version {data['version']!r}, this minipaged knows {VERSION}; update it, or "
                            "set MINIPAGED_PROGRESS to another file")
    return {name: entry for name, entry in data["exercises"].items() if isinstance(entry, dict)}


def write(entries: dict[str, dict]) -> None:
    """Replace the file at once."""
    path = progress_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": VERSION, "exercises": entries}, indent=1, ensure_ascii=False, sort_keys=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".tmp")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def update(exercise_id: str, **values: object) -> dict:
    """Change one exercise's entry; returns it."""
    entries = read()
    entry = entries.setdefault(exercise_id, {})
    entry.update(values)
    write(entries)
    return entry


def record_check(exercise_id: str, passed: bool) -> None:
    """One more check. Once passed stays passed. A file that can't be written is said, not raised: the check
    itself is done. Under `nbgrader autograde` the answer is a learner's and the file the teacher's: nothing is kept."""
    if os.environ.get("NBGRADER_EXECUTION") == "autograde":
        return
    try:
        entry = read().get(exercise_id, {})
        update(exercise_id, checks=entry.get("checks", 0) + 1, passed=entry.get("passed", False) or passed)
    except (OSError, ProgressError) as error:
        print(f"(progress was not recorded: {error})")


def record_hint(exercise_id: str, stage: int) -> None:
    """Hint number `stage` (1 to 3) was shown."""
    update(exercise_id, hints=max(stage, read().get(exercise_id, {}).get("hints", 0)))
