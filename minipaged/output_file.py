"""A file that a command will write at its end is tried at its start: minutes of work must not end in a wrong path."""

from __future__ import annotations

from pathlib import Path


def check_writable(*paths: str | Path | None) -> None:
    """Open each file for writing and leave everything as it was; None is passed over.

    Raises OSError, with the path, for a folder that is missing, a folder in the place of the file, or no permission.
    """
    for path in [Path(path) for path in paths if path is not None]:
        is_new = not path.exists()
        path.open("a", encoding="utf-8").close()
        if is_new:
            path.unlink()
