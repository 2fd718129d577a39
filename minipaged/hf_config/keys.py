"""Reading a ``config.json`` and single values of it, each of the type that it must have. Chapters 01 and 11.

Every error is a ModelFormatError that names the key, what stands there and what may stand there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from minipaged.errors import ModelFormatError

MOST_FILE_BYTES = 16 * 2**20  # a real config.json takes kilobytes; weights given by mistake take gigabytes
MOST_LAYERS = 100_000  # far above any real model; every layer gets an entry in a list
MOST = 10**12


def load_config(source: str | os.PathLike | Mapping) -> Mapping:
    """The content of a ``config.json``, from its path, its folder's path, or as it is.

    FileNotFoundError if there is no such file, ModelFormatError that names it if it is not a JSON object.
    """
    if isinstance(source, Mapping):
        return source
    path = Path(source)
    if path.is_dir():
        path = path / "config.json"
    if not path.exists():
        raise FileNotFoundError(f"no model config at {path}; give a config.json or the folder that holds it")
    with path.open("rb") as file:
        data = file.read(MOST_FILE_BYTES + 1)
    if len(data) > MOST_FILE_BYTES:
        raise ModelFormatError(f"{path} is larger than {MOST_FILE_BYTES // 2**20} MiB; it is no model config")
    try:
        content = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise ModelFormatError(f"{path} is nested too deep for a model config") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelFormatError(f"{path} is not valid JSON: {error}") from None
    except ValueError as error:  # Python reads no number of more than 4,300 digits
        raise ModelFormatError(f"{path} holds a number that cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise ModelFormatError(f"{path} holds a JSON {type(content).__name__}; it must be an object with model "
                               "settings")
    return content


def found(config: Mapping, names: tuple[str, ...]) -> str | None:
    """The first of ``names`` that the config has a value for."""
    return next((name for name in names if config.get(name) is not None), None)


def integer(config: Mapping, *names: str, least: int = 1, most: int = MOST) -> int:
    """The first of ``names`` that is set, as a whole number from ``least`` to ``most``; one of them must be."""
    value = optional_integer(config, *names, least=least, most=most)
    if value is None:
        others = f" (also looked for {', '.join(names[1:])})" if names[1:] else ""
        raise ModelFormatError(f"config lacks the key {names[0]!r}{others}")
    return value


def optional_integer(config: Mapping, *names: str, default: int | None = None, least: int = 1,
                     most: int = MOST) -> int | None:
    """As :func:`integer`, but ``default`` where none of ``names`` is set."""
    name = found(config, names)
    if name is None:
        return default
    value = config[name]
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ModelFormatError(f"config key {name!r} is {shown(value)}; it must be a whole number of at least {least} "
                               f"and at most {most:,}")
    return value


def flag(config: Mapping, name: str, default: bool = False) -> bool:
    """A value that is true or false; ``default`` where it is not set."""
    value = config.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ModelFormatError(f"config key {name!r} is {shown(value)}; it must be true or false")
    return value


def model_type(config: Mapping) -> str:
    """The name of the model family, empty where the config has none."""
    value = config.get("model_type")
    if not isinstance(value, str | None):
        raise ModelFormatError(f"config key 'model_type' is {shown(value)}; it must be a name")
    return value or ""


def shown(value: object) -> str:
    """``value`` as part of a message, cut to a readable length."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or lists in lists in lists
        return f"a value of type {type(value).__name__} that is too large to print"
    return text if len(text) <= 80 else f"{text[:77]}..."
