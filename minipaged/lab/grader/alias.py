"""Is one list in two places? Only where the objects themselves are can that be seen: values cross as copies.

Used by minipaged.lab.answer in a notebook and by server.py in a learner's process, which imports it by its file name,
without minipaged.
"""
from __future__ import annotations


def one_in_two_places(value: object, arguments: object) -> bool:
    """Does `value` hold the same list or dict twice, or one that an argument holds too? A later change in one place
    would then show in the other. Only plain containers are looked at."""
    known: set[int] = set()
    _walk(arguments, known)
    return _walk(value, known)


def _walk(value: object, known: set[int]) -> bool:
    """Note all containers below `value`; True when one that can be changed had been met before."""
    waiting, twice = [value], False
    while waiting:
        one = waiting.pop()
        if type(one) not in (list, tuple, dict):
            continue
        if id(one) in known:
            twice = twice or type(one) is not tuple
            continue
        known.add(id(one))
        waiting += one.values() if type(one) is dict else one
    return twice
