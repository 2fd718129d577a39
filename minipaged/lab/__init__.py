"""Labs: exercises with checks that teach. In a notebook: `from minipaged.lab import check, hint, use`.

The names are loaded when first used; the checks of torch-free exercises load no torch.
"""
from __future__ import annotations

from importlib import import_module

_WHERE = {"check": "minipaged.lab.check", "hint": "minipaged.lab.hints", "use": "minipaged.lab.use",
          "panel": "minipaged.lab.panel"}
__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'minipaged.lab' has no attribute {name!r}; it has {', '.join(_WHERE)}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value  # the function, not the module of the same name
    return value
