"""Labs: exercises with checks that teach. In a notebook: `from minipaged.lab import check, hint, use`.

The names are loaded when first used; the checks of torch-free exercises load no torch.
"""
from __future__ import annotations

from importlib import import_module

# Modules have other names than the functions: a module that is loaded becomes an attribute of its package.
_WHERE = {"check": "minipaged.lab.checks", "hint": "minipaged.lab.hints", "use": "minipaged.lab.swaps",
          "panel": "minipaged.lab.panels"}
__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'minipaged.lab' has no attribute {name!r}; it has {', '.join(_WHERE)}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
