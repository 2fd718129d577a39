"""The models that ``minipaged calc`` knows by name. Their data and sources are in ``presets.json``."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minipaged.formulas import KVShape

# Parts of a published name that do not change the size of the cache: Llama-2-13b-chat-hf is llama-2-13b.
_NO_MATTER = {"hf", "instruct", "chat", "it", "base"}


@dataclass(frozen=True)
class Preset:
    """A known model: its name, the shape of its KV cache, its parameters if sure, and the source."""

    name: str
    shape: KVShape
    parameters: int | None
    dtype: str | None
    source: str


def preset_names() -> list[str]:
    """All preset names, in the order of the file: by family, oldest first."""
    return list(_models())


def preset(name: str) -> Preset:
    """The preset called ``name``, also by an alias or a published name such as ``meta-llama/Llama-2-13b-hf``.

    An unknown name raises ValueError with a message that offers the closest names.
    """
    known = _index()
    key = _normal(name)
    if key not in known:
        close = list(dict.fromkeys(known[match] for match in difflib.get_close_matches(key, known, n=3)))
        hint = f"did you mean {' or '.join(close)}?" if close else "`minipaged calc --list` shows all names."
        raise ValueError(f"unknown model {name!r:.60}; {hint} A config.json or its folder works too.")
    entry = _models()[known[key]]
    config = entry["config"]
    return Preset(
        known[key],
        KVShape.from_config(config),
        entry.get("parameters"),
        config.get("torch_dtype"),
        entry["source"],
    )


@cache
def _models() -> dict[str, dict]:
    text = (Path(__file__).parent / "presets.json").read_text(encoding="utf-8")
    return json.loads(text)["models"]


@cache
def _index() -> dict[str, str]:
    """Every normalised name and alias -> preset name."""
    return {
        _normal(alias): name
        for name, entry in _models().items()
        for alias in [name, *entry.get("aliases", [])]
    }


def _normal(name: str) -> str:
    parts = re.split(r"[-_ ]+", name.strip().lower().rpartition("/")[2])
    return "-".join(part for part in parts if part not in _NO_MATTER)
