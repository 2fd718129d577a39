"""The contest of chapter 14: a policy of a few lines serves real traffic, and three numbers judge it.

    def rank(row):                    # who waits: the smallest is served next
        return row["prompt_tokens"] + 200 * row["arrival"]

    def victim_rank(row):             # optional; memory is short: the largest gives way (default: the newest)
        return -row["output_tokens"]

    QUANTUM = 64                      # optional; steps in a seat before others may have it

A row has `arrival` (0, 1, 2, ... in the order of arrival), `prompt_tokens`, `output_tokens` (so far) and
`preemptions`. Nothing in it says how long an answer will be: no server knows. A policy is pure arithmetic, so that
anybody can run it again: it may import math, and nothing else reaches outside of it. What no replay can see is a rule
that was fitted to this one hour; a teacher tries the best ones on another trace.
"""
from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from minipaged.core.policy import RoundRobin, newest
from minipaged.core.request import Request
from minipaged.lab.limits import TimeUp, time_limit
from minipaged.sim import metrics
from minipaged.sim.scenario import Scenario
from minipaged.sim.simulator import SimResult, check_conservation, simulate

REFERENCES = {
    "first come": "def rank(row):\n    return row['arrival']\n",
    "round robin": "QUANTUM = 64\n\ndef rank(row):\n    return row['arrival']\n",
    "shortest prompt": "def rank(row):\n    return row['prompt_tokens']\n",
}
#: score -> is more better?
AXES = {"tokens_per_s": True, "ttft_p99_s": False, "fairness": True}
NEVER = 10**9  # a quantum that never ends
MOST_CHARACTERS = 2000

_BUILTINS = {one.__name__: one for one in (
    abs, all, any, bool, dict, divmod, enumerate, float, int, len, list, max, min, pow, range, round, set, sorted, sum,
    tuple, zip)}
_METHODS = {"get", "append", "pop", "items", "keys", "values", "add", *(name for name in dir(math) if name[0] != "_")}


_REFUSED = (ast.Import, ast.ImportFrom, ast.ClassDef, ast.Try, ast.TryStar, ast.With, ast.Match, ast.AsyncFunctionDef)


class ContestError(ValueError):
    """A policy that can't be run, or an entry that is not what it says; one sentence for its author."""


@dataclass(frozen=True)
class Contest:
    """The traffic and the server. `seconds`: processor time that one run may take."""

    name: str
    about: str
    scenario: Scenario
    seconds: float


_SERVER = {"model": "llama-2-13b", "gpu": "a100-80g", "trace": "azure-conv", "max_num_seqs": 32,
           "prefix_caching": False}
CONTESTS = {one.name: one for one in (
    Contest("short", "the first 400 requests of the hour, about two minutes of service", Scenario(first=400, **_SERVER),
            60),
    Contest("hour", "each second request of the hour of chats, 9,683 of them", Scenario(every=2, **_SERVER), 900))}


def contest(name: str) -> Contest:
    """The contest of that name. Raises ContestError for another."""
    if name not in CONTESTS:
        raise ContestError(f"there is no contest {name!r}; there are {', '.join(CONTESTS)}")
    return CONTESTS[name]


class Policy(RoundRobin):
    """A learner's functions in the place of the engine's rules. Raises ContestError for what can't be one."""

    def __init__(self, source: str) -> None:
        names = _load(source)
        quantum = names.get("QUANTUM", NEVER)
        if not isinstance(quantum, int) or quantum < 1:
            raise ContestError(f"QUANTUM is {quantum!r:.40}; it must be a whole number of steps, 1 or more")
        super().__init__(quantum)
        self._rank, self._victim_rank = names["rank"], names.get("victim_rank")
        self._ranks: dict[str, object] = {}

    def enqueue(self, waiting, request: Request) -> None:
        rank = self._ranks[request.request_id] = _called(self._rank, request)
        ranks = self._ranks
        at = next((at for at, other in enumerate(waiting) if ranks[other.request_id] > rank), len(waiting))
        waiting.insert(at, request)

    requeue = enqueue

    def victim(self, running: Sequence[Request]) -> Request:
        """Of equals the one that got its seat last."""
        if self._victim_rank is None:
            return newest(running)
        return max(reversed(running), key=lambda request: _called(self._victim_rank, request))


def _load(source: str) -> dict:
    if len(source) > MOST_CHARACTERS:
        raise ContestError(f"the policy has {len(source):,} characters; {MOST_CHARACTERS:,} are enough for a rule, "
                           "and too few for a table of the traffic")
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise ContestError(f"Python can't read the policy: {error}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and [alias.name for alias in node.names] == ["math"]:
            continue
        name = {ast.Attribute: "attr", ast.Name: "id", ast.FunctionDef: "name", ast.arg: "arg"}.get(type(node))
        word = getattr(node, name) if name else ""
        if isinstance(node, _REFUSED):
            raise ContestError(f"line {node.lineno} of the policy: {type(node).__name__} is not allowed; a policy may "
                               "import math, define functions and compute")
        if word.startswith("_") or (name == "attr" and word not in _METHODS):
            raise ContestError(f"line {node.lineno} of the policy uses {word!r}, which could reach outside of it")
    names: dict = {"__builtins__": {**_BUILTINS, "__import__": lambda *_: math}}
    try:
        exec(compile(tree, "<policy>", "exec", dont_inherit=True), names)
    except Exception as error:
        raise ContestError(f"the policy can't be loaded: {type(error).__name__}: {error}") from None
    for function in ("rank", "victim_rank"):
        if not callable(names.get(function, abs if function == "victim_rank" else None)):
            raise ContestError(f"the policy has no function {function}(row)")
    return names


def _called(function: Callable, request: Request) -> object:
    """A number or a tuple of numbers for one request."""
    row = {"arrival": request.arrival, "prompt_tokens": request.num_prompt_tokens,
           "output_tokens": request.num_output_tokens, "preemptions": request.num_preemptions}
    try:
        rank = function(row)
    except Exception as error:
        raise ContestError(f"{function.__name__}({row}) raises {type(error).__name__}: {error}") from None
    for part in rank if isinstance(rank, tuple) else (rank,):
        if not isinstance(part, (int, float)) or part != part:
            raise ContestError(f"{function.__name__}({row}) gives {rank!r:.60}; it must give a number, or a tuple of "
                               "numbers")
    return rank


@dataclass(frozen=True)
class Played:
    """One run: `log` has a row a request (first token, last token, preemptions; times in microseconds)."""

    scores: dict[str, float]
    log: list[list[int]]

    @property
    def digest(self) -> str:
        """SHA-256 of the log."""
        return hashlib.sha256(repr(self.log).encode()).hexdigest()


def play(source: str, name: str = "short") -> Played:
    """Serve the contest's traffic with a policy. The same source gives the same result. Raises ContestError."""
    arena = contest(name)
    policy = Policy(source)
    scheduler = arena.scenario.serving().scheduler()
    # the scheduler takes the names of rules; here a rule itself stands in their place
    scheduler._policy, scheduler._choose_victim = policy, policy.victim
    try:
        with time_limit(arena.seconds):
            result = simulate(scheduler, arena.scenario.cost_model(), arena.scenario.load(), sample_every=0)
    except TimeUp:
        raise ContestError(f"the run took more than {arena.seconds:g} s of processor time") from None
    except TypeError as error:
        raise ContestError(f"two ranks can't be compared: {error}") from None
    check_conservation(result)
    return Played(_scores(result), [[round(1e6 * record.first_token), round(1e6 * record.last_token),
                                     record.preemptions] for record in result.records])


@cache
def references(name: str = "short") -> dict[str, Played]:
    """The three reference policies on a contest."""
    return {label: play(source, name) for label, source in REFERENCES.items()}


def points(scores: dict[str, float], name: str = "short") -> float:
    """100 x the geometric mean of each score over the best of the three references on that axis."""
    product = 1.0
    for axis, more in AXES.items():
        best = (max if more else min)(played.scores[axis] for played in references(name).values())
        product *= scores[axis] / best if more else best / scores[axis]
    return round(100 * product ** (1 / len(AXES)), 1)


def _scores(result: SimResult) -> dict[str, float]:
    report = metrics.summary(result)
    values = (report["output_tokens_per_s"], report["ttft"]["p99"], report["fairness"])
    return {axis: float(f"{value:.6g}") for axis, value in zip(AXES, values)}
