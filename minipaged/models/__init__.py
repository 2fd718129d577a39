"""Models that come with the package, and how to find one by its name (chapter 00).

A model is a folder in Hugging Face layout. `tiny` is bundled: a small Llama that tells stories for
children, trained by `python -m minipaged.models.train_tiny`. Nothing here loads torch.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from minipaged.errors import ModelFormatError

BUNDLED = {"tiny": Path(__file__).parent / "tiny"}
"""Bundled models: name -> folder."""


def model_path(name_or_path: str | PathLike[str]) -> Path:
    """The folder of a model, given the name of a bundled model or a path to a folder.

    A bundled name wins over a folder of the same name; write `./tiny` to mean the folder.

    Raises:
        ModelFormatError: there is neither such a name nor such a folder, or the folder has no config.json.
    """
    if isinstance(name_or_path, str) and name_or_path in BUNDLED:
        return BUNDLED[name_or_path]
    path = Path(name_or_path).expanduser()
    names = ", ".join(sorted(BUNDLED))
    if not str(name_or_path).strip() or not path.is_dir():
        what = "is a file, not a folder" if path.is_file() else "is not a folder"
        raise ModelFormatError(
            f"no model {str(name_or_path)!r}: it {what}, and the bundled models are: {names} (and smollm2 after "
            "`make smollm2`). Give one of these names or a folder in Hugging Face layout."
        )
    if not (path / "config.json").is_file():
        raise ModelFormatError(
            f"no model in {str(name_or_path)!r}: the folder has no config.json. Give a folder in Hugging "
            f"Face layout (config.json, model.safetensors, tokenizer.json) or a bundled name: {names}."
        )
    return path
