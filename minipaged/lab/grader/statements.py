"""What a cell's text says, without running it: the names it defines, and the statements others may build on.

The text is a stranger's: reading it must neither fail nor take long, whatever it is.
"""
from __future__ import annotations

import ast
import warnings
from functools import lru_cache

MAX_STATEMENTS = 500  # of one cell
_KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def without_magics(source: str) -> str:
    """Python only: lines for IPython are left empty, so that line numbers stay."""
    if _parse(source) is not None:
        return source
    lines = source.splitlines()
    return "\n".join("" if line.lstrip().startswith(("%", "!")) or line.rstrip().endswith("?") else line
                     for line in lines)


@lru_cache(maxsize=1)
def _parse(source: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings(action="ignore"):  # about a learner's text; nobody could do anything about it here
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def defined(source: str) -> list[str]:
    """The functions and classes that a cell defines."""
    tree = _parse(source)
    return [] if tree is None else [node.name for node in tree.body if isinstance(node, (
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]


def shared_part(source: str, everything: bool) -> list[str]:
    """The statements of a cell that an answer may build on, each on its own: imports, helpers and constants."""
    tree = _parse(source)
    kept = [] if tree is None else [node for node in tree.body if everything or isinstance(node, _KEPT)
                                    or _is_constant(node)][:MAX_STATEMENTS]
    return [text for node in kept if (text := _text(node))]


def _text(node: ast.stmt) -> str:
    """Python text of a statement; none for what can't be written, such as a number of 5,000 digits."""
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError, MemoryError):
        return ""


def _is_constant(node: ast.stmt) -> bool:
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
