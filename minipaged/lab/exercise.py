"""What an exercise is: one definition for notebook, grader, `minipaged learn`, builder and mutant table.

How to write one: README.md in this folder.
"""
from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace

from minipaged.lab.answer import Answer, LocalAnswer
from minipaged.lab.judge import agrees
from minipaged.lab.limits import TimeUp
from minipaged.lab.trace import HANGS, Outcome, Step, Trace, TraceEnds

LEVELS = ("easy", "medium", "hard")
_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*\.[a-z][a-z0-9]*(-[a-z0-9]+)*")
_INTERFACE = re.compile(r"(?P<name>[A-Za-z_]\w*)(\.(?P<member>[A-Za-z_]\w*))?(?P<call>\((?P<args>[^)]*)\))?")


@dataclass(frozen=True)
class Misconception:
    """A plausible wrong answer. `source`: its text; `message`: what to tell a learner who behaves like it,
    about the idea and not about the text ("The offset is position % block_size, not ...")."""

    id: str
    message: str
    source: str


@dataclass(frozen=True)
class Member:
    """One line of an exercise's interface: a function, a class (its constructor), a method or an attribute."""

    name: str
    member: str | None
    args: tuple[str, ...] | None  # None: an attribute

    def __str__(self) -> str:
        name = self.name if self.member is None else f"{self.name}.{self.member}"
        return name if self.args is None else f"{name}({', '.join(self.args)})"


@dataclass(frozen=True)
class Exercise:
    """id            "blocks.allocator": never a number, never changed; topic.name in small letters
    title         what stands above it: "A pool of blocks"
    chapter       the notebook it belongs to, "03_blocks"; the lab has the same name
    minutes       that a learner needs
    level         easy, medium or hard
    goal          one sentence: what the learner will have made
    interface     what the learner defines: "slot(block_table, position)", "Pool(num_blocks)", "Pool.allocate()",
                  "Pool.free_count"
    hints         three: a question, a sketch, nearly the code
    rule          the rule that is tested, in one or two sentences; shown when a check fails
    examples      the cases that are always tried first, in this order; the first is the worked one
    case          random.Random -> a small random case (JSON-able); every choice from that generator
    drive         (trace, case) -> None: makes the calls of a case through the trace (see trace.py)
    reference     () -> namespace with right objects under the interface's names
    misconceptions  plausible wrong answers with a message each
    agrees        (expected, got) -> bool for outcomes where exact comparison is too strict
    needs         (), ("torch",), ("torch", "triton") or ("g++",)
    trials        random cases of one check
    seconds       a case may take
    """

    id: str
    title: str
    chapter: str
    minutes: int
    level: str
    goal: str
    interface: tuple[str, ...]
    hints: tuple[str, str, str]
    rule: str
    examples: tuple[dict, ...]
    case: Callable[[random.Random], dict]
    drive: Callable[[Trace, dict], None]
    reference: Callable[[], SimpleNamespace]
    misconceptions: tuple[Misconception, ...] = ()
    agrees: Callable[[Outcome, Outcome], bool] = agrees
    needs: tuple[str, ...] = ()
    trials: int = 100
    seconds: float = 1.0
    members: tuple[Member, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"exercise id {self.id!r} must look like 'blocks.allocator'")
        if self.level not in LEVELS:
            raise ValueError(f"{self.id}: level is {self.level!r}; it must be one of {', '.join(LEVELS)}")
        if len(self.hints) != 3:
            raise ValueError(f"{self.id}: there are {len(self.hints)} hints; it takes a question, a sketch, near-code")
        object.__setattr__(self, "members", tuple(map(self._member, self.interface)))

    def _member(self, text: str) -> Member:
        match = _INTERFACE.fullmatch(text)
        if match is None:
            raise ValueError(f"{self.id}: {text!r} is no line of an interface, such as 'Pool.free(block)'")
        args = None if match["call"] is None else tuple(filter(None, re.split(r",\s*", match["args"].strip())))
        return Member(match["name"], match["member"], args)

    @property
    def names(self) -> tuple[str, ...]:
        """The functions and classes that the learner defines."""
        return tuple(dict.fromkeys(member.name for member in self.members))

    @cached_property
    def reference_answer(self) -> LocalAnswer:
        return LocalAnswer(self.reference())

    def expected(self, case: dict) -> list[Step]:
        """The steps of a right answer."""
        return self.run(self.reference_answer, case)

    def run(self, answer: Answer, case: dict, expected: Sequence[Step] | None = None) -> list[Step]:
        """The steps of an answer; with `expected`, up to the first that differs."""
        return self.trace(answer, case, expected).steps

    def trace(self, answer: Answer, case: dict, expected: Sequence[Step] | None = None) -> Trace:
        """As `run`, with the exception of the last step beside the steps."""
        trace = Trace(answer, expected, self.agrees)
        try:
            self.drive(trace, copy.deepcopy(case))  # an answer that changes its arguments spoils no other run
        except TraceEnds:
            pass
        except TimeUp:  # the alarm rang between two calls
            trace.steps.append(Step("(between two calls)", Outcome(HANGS)))
        return trace

    def is_right(self, expected: Sequence[Step], steps: Sequence[Step]) -> bool:
        """Is every step there, and as expected?"""
        return len(steps) == len(expected) and self.first_difference(expected, steps) is None

    def first_difference(self, expected: Sequence[Step], steps: Sequence[Step]) -> int | None:
        """The index of the first step that differs."""
        for index, (wanted, step) in enumerate(zip(expected, steps)):
            if not self.agrees(wanted.outcome, step.outcome):
                return index
        return None if len(expected) == len(steps) else min(len(expected), len(steps))

    def answer(self, objects: Mapping[str, object]) -> LocalAnswer:
        """An answer made of these objects; others are left out."""
        return LocalAnswer({name: objects[name] for name in self.names if name in objects})
