"""Does an answer have the functions, classes and methods that its exercise asks for (all labs).

Each problem is one sentence for the learner. Only what is wrong in itself is reported here; what an answer does
is the business of the checks.
"""
from __future__ import annotations

import inspect
from collections.abc import Mapping

from minipaged.lab.exercise import Exercise, Member


def problem(exercise: Exercise, objects: Mapping[str, object]) -> str | None:
    """What is missing or has the wrong shape, or None."""
    for member in exercise.members:
        if member.name not in objects:
            return (f"`{member.name}` is not defined here: write it, run the cell it stands in, and then check "
                    "again.")
        found = _of_function(member, objects[member.name]) if member.member is None else _of_method(
            member, objects[member.name])
        if found:
            return found
    return None


def _of_function(member: Member, thing: object) -> str | None:
    if not callable(thing):
        return f"`{member.name}` is {_a(type(thing).__name__)}; it must be something to call: `{member}`."
    return _of_call(member, thing)


def _of_method(member: Member, owner: object) -> str | None:
    if not inspect.isclass(owner):
        return f"`{member.name}` is {_a(type(owner).__name__)}; it must be a class with `{member}`."
    method = inspect.getattr_static(owner, member.member, None)
    if member.args is None:  # it may also be set in __init__
        return (f"`{member}` is a method in your class; it is read without parentheses: write @property above it."
                if inspect.isfunction(method) else None)
    if method is None:
        return f"Your class `{member.name}` has no method `{member.member}` yet; it is called as `{member}`."
    if isinstance(method, property):
        return f"`{member.name}.{member.member}` is a property; it is called with parentheses: `{member}`."
    return _of_call(member, getattr(owner, member.member), bound=not isinstance(method, (staticmethod, classmethod)))


def _of_call(member: Member, thing: object, bound: bool = False) -> str | None:
    """Can it be called with that many arguments, by position?"""
    if member.args is None:
        return None
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):  # a class of C code: calling it will tell
        return None
    given = [arg.partition("=")[0].strip() for arg in member.args]
    required = [arg for arg in given if not arg.startswith("*")]
    try:
        signature.bind(*([None] if bound else []), *required)
    except TypeError:
        return (f"`{_name(member)}` takes {_parameters(signature, bound)}; it must take {_list(given)}, since it is "
                f"called as `{member}`." + (" (A method's first parameter is `self`.)" if bound else ""))
    return None


def _name(member: Member) -> str:
    return member.name if member.member is None else f"{member.name}.{member.member}"


def _parameters(signature: inspect.Signature, bound: bool) -> str:
    return _list([str(parameter) for parameter in signature.parameters.values()][1 if bound else 0:])


def _list(names: list[str]) -> str:
    return f"({', '.join(names)})" if names else "no arguments"


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
