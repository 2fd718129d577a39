"""The exceptions that minipaged raises, one class for each kind of mistake.

Each also inherits from the standard exception that it is a kind of, so that a reader who knows Python
but not this project may write ``except MemoryError`` or ``except ValueError``. A message says what was
asked, what there is, and what to do next. Chapter 03 meets the first two, chapter 11 the others.
"""

from __future__ import annotations

from numbers import Integral


class OutOfBlocks(MemoryError):
    """The pool has fewer free blocks than an operation needs. The refused operation changed nothing.

    Not a bug in itself: a scheduler answers it by preempting a request or by making the newcomer wait.
    """


class BlockError(ValueError):
    """A block was used against the rules: unknown id, double free, freeing a free block, bad position.

    Always a bug in the caller. The message names the block, and nothing has changed.
    """


class RequestError(ValueError):
    """A request that cannot be served as asked: empty, too long for the model or the pool, a bad
    parameter, a duplicate or unknown request id. Other requests are not affected."""


class ModelFormatError(ValueError):
    """A model folder, configuration, tokenizer or weight file that cannot be read as what it claims to
    be. The message names the file and the key, tensor or shard."""


class TraceFormatError(ValueError):
    """A recorded workload or event log with a line that cannot be read. The message names the line."""


def whole_number(name: str, value: object, least: int) -> int:
    """An option as an int. Raises ValueError that names the option for anything else, True and 2.5 included."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r:.40}; it must be a whole number of at least {least}")
    return int(value)
