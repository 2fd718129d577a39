"""The ``minipaged`` command: a table of subcommands, and one place where errors become one readable line.

A subcommand is a module with ``add_arguments(parser)`` and ``run(args) -> int`` (the exit code). It is
imported only when it is named, so that ``minipaged --help`` does not wait for torch. The table is
:data:`minipaged.commands.COMMANDS`.

Exit codes: 0 done, 1 a check failed or minipaged itself has a fault, 2 the user can put it right, 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from minipaged import __version__
from minipaged.commands import COMMANDS, Command
from minipaged.errors import OutOfBlocks
from minipaged.formulas import format_bytes

__all__ = ["COMMANDS", "Command", "UsageError", "main"]

_TRACEBACK = "MINIPAGED_TRACEBACK"

# Torch's allocators raise a plain RuntimeError: the CPU's on Linux, on macOS and on Windows, and the GPU's.
_ALLOCATOR_FAILED = (
    "[enforce fail at alloc_cpu.cpp",
    "can't allocate memory",
    "not enough memory",
    "out of memory",
)


class UsageError(ValueError):
    """The command line itself is wrong."""


class _Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors take the same road as all others: one line, exit code 2."""

    def __init__(self, **options) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)$", message)
        close = wrong and difflib.get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), n=1)
        meant = f"; did you mean {close[0]}?" if close else ""
        raise UsageError(f"{message}{meant} (see `{self.prog} --help`)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` (default: the process's own) and return the exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    speaker = f"minipaged {argv[0]}" if argv and argv[0] in COMMANDS else "minipaged"
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a Windows code page cannot print every text
    try:
        code = _dispatch(argv)
        sys.stdout.flush()
        return code
    except SystemExit as stop:  # argparse ends --help and --version this way
        if isinstance(stop.__context__, BrokenPipeError):  # rich makes one of the other
            return _reader_left()
        if isinstance(stop.code, str):
            return _fail(speaker, stop.code)
        return stop.code or 0
    except KeyboardInterrupt:
        print(f"{speaker}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return _reader_left()
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        return _fail(speaker, *_explain(error))


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] in COMMANDS:
        name, rest = argv[0], argv[1:]
        command = COMMANDS[name]
        module = importlib.import_module(command.module)
        parser = _Parser(
            prog=f"minipaged {name}",
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            epilog=f"example:\n  {command.example}",
        )
        module.add_arguments(parser)
        return module.run(parser.parse_args(rest)) or 0

    parser = _top_parser()
    if not argv:
        parser.print_help()
        return 0
    args, _ = parser.parse_known_args(argv)
    if args.command in COMMANDS:
        raise UsageError(f"write the command first: `minipaged {args.command} {argv[0]} ...`")
    if args.command is None:
        raise UsageError(f"no command given, and {argv[0]!r} is not an option (see `minipaged --help`)")
    close = difflib.get_close_matches(args.command, COMMANDS, n=1)
    hint = f"did you mean `minipaged {close[0]}`?" if close else f"there are: {', '.join(COMMANDS)}"
    raise UsageError(f"unknown command {args.command!r}; {hint}")


def _top_parser() -> argparse.ArgumentParser:
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:<{width}}  {command.help}" for name, command in COMMANDS.items())
    parser = _Parser(
        prog="minipaged",
        usage="minipaged [-h] [--version] COMMAND ...",
        description="PagedAttention, small enough to read: a course with a working engine.",
        epilog=f"commands:\n{rows}\n\nexamples:\n"
        + "\n".join(f"  {command.example}" for command in COMMANDS.values())
        + f"\n\n`minipaged COMMAND --help` explains one. {_TRACEBACK}=1 shows where an error came from.",
    )
    parser.add_argument("--version", action="version", version=f"minipaged {__version__}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    return parser


def _explain(error: Exception) -> tuple[str, int]:
    """What to tell the user, and the exit code: 2 for what they can put right, 1 for a fault of ours."""
    if isinstance(error, OSError) and error.strerror:
        return (f"{error.filename}: {error.strerror}" if error.filename else error.strerror), 2
    if isinstance(error, ModuleNotFoundError):
        return f"the module {error.name!r} is not installed here; `minipaged doctor` shows what is missing", 2
    if _out_of_memory(error):
        asked = re.search(r"allocate (\d+) bytes", str(error))
        size = f" (it asked for {format_bytes(int(asked[1]))})" if asked else ""
        return (
            f"the memory of this machine is too small for this{size}; ask for less: a smaller pool "
            "(--num-blocks, in Python also kv_memory), fewer or shorter requests, or a smaller model"
        ), 2
    if isinstance(error, (ValueError, OSError, MemoryError)):  # the project's own errors are kinds of these
        return str(error) or f"{type(error).__name__} (set {_TRACEBACK}=1 to see where)", 2
    return f"internal error, {type(error).__name__}: {error} (set {_TRACEBACK}=1 to see where)", 1


def _out_of_memory(error: Exception) -> bool:
    """Whether the machine has no memory left; a pool without blocks has a message of its own."""
    if isinstance(error, MemoryError):
        return not isinstance(error, OutOfBlocks)
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _ALLOCATOR_FAILED)


def _reader_left() -> int:
    """The reader of our output, such as `head`, has seen enough: what is still buffered goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _fail(speaker: str, message: str, code: int = 2) -> int:
    print(f"{speaker}: {' '.join(message.split())}", file=sys.stderr)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
