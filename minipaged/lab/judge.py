"""Do two outcomes agree, and if not, what is the difference in words (all labs)."""
from __future__ import annotations

from minipaged.lab.plain import difference, same, show
from minipaged.lab.trace import HANGS, MUTATES, RAISES, RETURNS, SHARES, Outcome


def agrees(expected: Outcome, got: Outcome) -> bool:
    """Exact types and values (see plain.same). An exception agrees when it is of the expected class or below it;
    its message is free."""
    if expected.kind != got.kind:
        return False
    if expected.kind == RAISES:
        return expected.value[0] in got.value
    return expected.kind == RETURNS and same(expected.value, got.value)


def words(outcome: Outcome) -> str:
    """"returned 5", "raised BlockError: block 3 is already free"."""
    if outcome.kind == RAISES:
        return f"raised {outcome.value[0]}" + (f": {outcome.message}" if outcome.message else "")
    if outcome.kind == HANGS:
        return "did not come back: the time was up"
    if outcome.kind == MUTATES:
        return f"changed its argument number {outcome.value + 1}, which belongs to the caller"
    if outcome.kind == SHARES:
        return "gave one list in two places, or a list of the caller: a change in one place would show in the other"
    return "returned None" if outcome.value is None else f"gave {show(outcome.value)}"


def explain(expected: Outcome, got: Outcome) -> str:
    """One sentence: what was expected and what came."""
    if got.kind == RETURNS and expected.kind == RETURNS:
        text = difference(expected.value, got.value) or f"is {show(got.value)}, not {show(expected.value)}"
        return f"your answer {text}"
    wanted = f"{expected.value[0]} must be raised" if expected.kind == RAISES else f"{_noun(expected)} was expected"
    return f"{wanted}; your code {words(got)}"


def _noun(expected: Outcome) -> str:
    return "None" if expected.value is None else show(expected.value)


__all__ = ["agrees", "explain", "words", "HANGS", "MUTATES", "RAISES", "RETURNS", "SHARES"]
