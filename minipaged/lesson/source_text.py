"""Print the real source of a function of the package, so that the text about it and the code cannot drift apart.

    source(BlockAllocator.free)                 the method, without its docstring
    source(split_waste, lines=(5, 12))          only these of its lines
    source(BuddyAllocator.allocate, BuddyAllocator.free)
"""
from __future__ import annotations

import ast
import importlib.util
import inspect
import textwrap
from collections.abc import Callable
from pathlib import Path

from minipaged.lesson.present import present

MOST_LINES = 40


def source(*things: Callable | property | str, lines: tuple[int, int] | None = None, docstring: bool = False) -> None:
    """Show the source of functions, methods, properties or classes of minipaged, one after the other. A text names a
    file of the package and maybe a function in it.

    `lines`: first and last line to show, counted from 1 in what would be shown. `docstring`: keep docstrings.
    Errors: ValueError for more than 40 lines, which nobody reads in a chapter, and for lines that are not there.
    """
    things = tuple(thing.fget if isinstance(thing, property) else thing for thing in things)
    text = "\n\n".join(source_of(thing, docstring) for thing in things)
    if lines is not None:
        first, last = lines
        present_lines = text.splitlines()
        if not 1 <= first <= last <= len(present_lines):
            raise ValueError(f"lines {first} to {last} were asked for; there are lines 1 to {len(present_lines)}")
        text = textwrap.dedent("\n".join(present_lines[first - 1:last]))
    if len(text.splitlines()) > MOST_LINES:
        raise ValueError(f"{len(text.splitlines())} lines are too many for a chapter; show {MOST_LINES} or fewer with "
                         "lines=(first, last)")
    if isinstance(things[0], str):
        title, language = things[0], "python" if ".py" in things[0] else "cpp"
    else:
        title, language = f"{_file_of(things[0])}: {', '.join(thing.__qualname__ for thing in things)}", "python"
    text = f"{'#' if language == 'python' else '//'} {title}\n{text}"
    present(text, f"```{language}\n{text}\n```")


def source_of(thing: Callable | str, docstring: bool = False) -> str:
    """The source of one function, method, class or named file, moved to the left edge."""
    if isinstance(thing, str):
        text = _in_file(thing)
        return text if docstring or ".py" not in thing else _without_docstrings(text)
    text = textwrap.dedent(inspect.getsource(inspect.unwrap(thing))).rstrip()
    return text if docstring else _without_docstrings(text)


def _in_file(name: str) -> str:
    """A whole file of the package, or "FILE: function" of it with its decorators. Nothing is imported from it."""
    file, _, function = name.partition(": ")
    top, _, rest = file.partition("/")
    package = "minipaged.kernels" if top == "kernels" else top
    text = (Path(importlib.util.find_spec(package).origin).parent / rest).read_text(encoding="utf-8").rstrip()
    if not function:
        return text
    found = [node for node in ast.walk(ast.parse(text)) if getattr(node, "name", None) == function]
    if not found:
        raise ValueError(f"{file} has no function {function!r}")
    first = min([found[0].lineno, *(one.lineno for one in found[0].decorator_list)])
    return textwrap.dedent("\n".join(text.splitlines()[first - 1:found[0].end_lineno]))


def _without_docstrings(text: str) -> str:
    dropped: set[int] = set()
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            first, last = node.body[0].lineno, node.body[0].end_lineno
            if len(node.body) == 1:
                continue  # nothing but a docstring: it is the body
            if last < len(lines) and not lines[last].strip():
                last += 1  # the empty line below it
            dropped |= set(range(first, last + 1))
    return "\n".join(line for number, line in enumerate(lines, 1) if number not in dropped)


def _file_of(thing: Callable) -> str:
    """As a reader finds it in the repository, on every machine the same."""
    path = Path(inspect.getsourcefile(inspect.unwrap(thing)))
    package = inspect.getmodule(inspect.unwrap(thing)).__name__.split(".")
    depth = len(package) - (0 if path.stem == "__init__" else 1)
    folders = ["kernels", *package[2:depth]] if package[:2] == ["minipaged", "kernels"] else package[:depth]
    return "/".join([*folders, path.name])
