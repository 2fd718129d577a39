"""What arrives: requests with times, lengths and identities, made from a seed (chapters 07, 08 and 14).

A simulated prompt has no text. What matters for memory is which prompts *begin alike*, so a prompt is a
row of segments: equal leading segments are equal tokens, and what no segment covers is unique to its
request. Readers of recorded traces are in `traces.py`.
"""
from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

#: ids from here on belong to one request only; recorded identities are far below
UNIQUE = 1 << 40


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace.

    arrival             seconds from the start of the trace
    input_tokens        prompt tokens, at least 1
    output_tokens       tokens it generates (its true length; no scheduler is told, except an oracle)
    segments            identities of the leading pieces of the prompt
    segment_tokens      tokens of each piece: one number for all, or one a piece
    output_identity     identity of the generated tokens, where a later prompt repeats them
    priority            lower runs first, under the priority policy
    num_samples         sequences drawn from this prompt (parallel sampling)
    beam_width          beams searched from this prompt; 0: none
    """

    arrival: float
    input_tokens: int
    output_tokens: int
    segments: tuple[int, ...] = ()
    segment_tokens: int | tuple[int, ...] = 0
    output_identity: int | None = None
    priority: float = 0
    num_samples: int = 1
    beam_width: int = 0

    def __post_init__(self) -> None:
        if self.input_tokens < 1 or self.output_tokens < 1:
            raise ValueError(f"a request of {self.input_tokens} tokens in and {self.output_tokens} out; both must be "
                             "at least 1")
        if not 0 <= self.arrival < float("inf"):
            raise ValueError(f"a request arrives at {self.arrival} s; it must be a time from 0 on")

    def token_ids(self, number: int) -> list[int]:
        """Token ids of the prompt of request `number`: every token of a segment is the segment's identity.

        Chained block keys tell prefixes apart by their first difference, so this is enough, and one shared
        integer makes a long prompt cheap.
        """
        lengths = self.segment_tokens
        if isinstance(lengths, int):
            lengths = (lengths,) * len(self.segments)
        tokens: list[int] = []
        for identity, length in zip(self.segments, lengths):
            tokens += [identity] * length
        del tokens[self.input_tokens:]
        tokens += [UNIQUE + 2 * number] * (self.input_tokens - len(tokens))
        return tokens

    def output_token(self, number: int) -> int:
        """The token id that request `number` generates, again and again."""
        return UNIQUE + 2 * number + 1 if self.output_identity is None else self.output_identity


@dataclass(frozen=True)
class Trace:
    """Requests in order of arrival. `skipped`: (line, reason) of lines that a reader left out."""

    name: str
    requests: tuple[TraceRequest, ...]
    skipped: tuple[tuple[int, str], ...] = field(default=())

    def __len__(self) -> int:
        return len(self.requests)

    def first(self, count: int) -> Trace:
        """The first `count` requests."""
        return replace(self, requests=self.requests[:count])

    def every(self, step: int) -> Trace:
        """Each `step`-th request, at its own time: the same hour, thinner."""
        return replace(self, requests=self.requests[::step])

    def at_rate(self, per_second: float) -> Trace:
        """The same requests, arrivals stretched or squeezed to a mean rate of `per_second`."""
        if not per_second > 0:
            raise ValueError(f"a rate of {per_second} requests a second; it must be above 0")
        span = self.requests[-1].arrival or 1.0
        factor = len(self.requests) / per_second / span
        return self.map(lambda request: replace(request, arrival=request.arrival * factor))

    def map(self, change: Callable[[TraceRequest], TraceRequest]) -> Trace:
        """Every request changed by `change`."""
        return replace(self, requests=tuple(change(request) for request in self.requests))

    def repeated(self, times: int) -> Trace:
        """The trace `times` times, one after the other: same rate, longer. Identities repeat too."""
        span = self.requests[-1].arrival * (1 + 1 / max(1, len(self.requests) - 1))
        return replace(self, requests=tuple(replace(request, arrival=request.arrival + turn * span)
                                            for turn in range(times) for request in self.requests))


def sorted_trace(name: str, requests: Iterable[TraceRequest], skipped: Iterable[tuple[int, str]] = ()) -> Trace:
    """A trace in order of arrival; ties keep their order."""
    return Trace(name, tuple(sorted(requests, key=lambda request: request.arrival)), tuple(skipped))


# ---- lengths

def draw_lengths(count: int, mean_input: float, mean_output: float, spread: str,
                 draw: random.Random) -> list[tuple[int, int]]:
    """`count` pairs of tokens in and out. spread: "fixed", "exponential", or "sharegpt" (pairs of the 300
    recorded conversations, scaled to the means)."""
    if spread == "fixed":
        return [(max(1, round(mean_input)), max(1, round(mean_output)))] * count
    if spread == "exponential":
        return [(max(1, round(draw.expovariate(1 / mean_input))), max(1, round(draw.expovariate(1 / mean_output))))
                for _ in range(count)]
    if spread != "sharegpt":
        raise ValueError(f"spread is {spread!r}; it must be one of fixed, exponential, sharegpt")
    from minipaged.sim.traces import load_trace
    recorded = load_trace("sharegpt-300").requests
    scale_in = mean_input * len(recorded) / sum(request.input_tokens for request in recorded)
    scale_out = mean_output * len(recorded) / sum(request.output_tokens for request in recorded)
    picks = []
    while len(picks) < count:  # whole rounds in a random order: the means are kept
        picks += draw.sample(recorded, len(recorded))
    return [(max(1, round(pick.input_tokens * scale_in)), max(1, round(pick.output_tokens * scale_out)))
            for pick in picks[:count]]


# ---- generators: the same seed gives the same trace

def poisson(n: int = 100, rate: float = 1.0, input: float = 512, output: float = 128,
            spread: str = "exponential", levels: int = 1, seed: int = 0) -> Trace:
    """`n` independent requests, `rate` a second on average, with priorities 0 to `levels` - 1."""
    return bursty(n, rate, input, output, spread, 1.0, levels, seed, name="poisson")


def bursty(n: int = 100, rate: float = 1.0, input: float = 512, output: float = 128,
           spread: str = "exponential", burst: float = 4.0, levels: int = 1, seed: int = 0,
           name: str = "bursty") -> Trace:
    """Gaps from a gamma distribution; `burst` is their coefficient of variation (1: Poisson, 4: bursts)."""
    _positive(n=n, rate=rate, input=input, output=output, burst=burst, levels=levels)
    draw = random.Random(f"{name} {seed}")
    shape, now, requests = 1 / burst**2, 0.0, []
    for tokens_in, tokens_out in draw_lengths(n, input, output, spread, draw):
        now += draw.gammavariate(shape, 1 / (rate * shape))
        priority = draw.randrange(levels) if levels > 1 else 0
        requests.append(TraceRequest(now, tokens_in, tokens_out, priority=priority))
    return Trace(name, tuple(requests))


def shared_prefix(n: int = 100, rate: float = 1.0, prefix: int = 341, input: float = 64, output: float = 64,
                  groups: int = 1, spread: str = "exponential", seed: int = 0) -> Trace:
    """Each prompt begins with one of `groups` prefixes of `prefix` tokens, then `input` tokens of its own."""
    _positive(prefix=prefix, groups=groups)
    draw = random.Random(f"groups {seed}")
    return replace(poisson(n, rate, input, output, spread, seed=seed).map(lambda request: replace(
        request, input_tokens=request.input_tokens + prefix, segments=(draw.randrange(groups),),
        segment_tokens=prefix)), name="shared_prefix")


def multi_turn(n: int = 20, rate: float = 0.5, turns: int = 4, system: int = 64, input: float = 64,
               output: float = 128, pause: float = 20.0, spread: str = "exponential", seed: int = 0) -> Trace:
    """`n` conversations: each turn's prompt is the whole talk so far, answers included, and a new question.

    `system` tokens come first in all of them; `pause` is the mean time from one question to the next in
    seconds (an open loop: a question does not wait for the answer before it).
    """
    _positive(n=n, rate=rate, turns=turns, system=system, pause=pause)
    draw = random.Random(f"multi_turn {seed}")
    requests, start, identity = [], 0.0, 1
    for _ in range(n):
        start += draw.expovariate(rate)
        now, ids, lengths = start, [0], [system]
        for question, answer in draw_lengths(turns, input, output, spread, draw):
            ids, lengths = [*ids, identity], [*lengths, question]
            requests.append(TraceRequest(now, sum(lengths), answer, tuple(ids), tuple(lengths), identity + 1))
            ids, lengths = [*ids, identity + 1], [*lengths, answer]
            identity += 2
            now += draw.expovariate(1 / pause)
    return sorted_trace("multi_turn", requests)


def samples(n: int = 100, rate: float = 1.0, input: float = 161.31, output: float = 337.99, num_samples: int = 4,
            spread: str = "sharegpt", seed: int = 0) -> Trace:
    """Every prompt is answered `num_samples` times."""
    _positive(num_samples=num_samples)
    return replace(poisson(n, rate, input, output, spread, seed=seed).map(
        lambda request: replace(request, num_samples=num_samples)), name="samples")


def beams(n: int = 100, rate: float = 1.0, input: float = 161.31, output: float = 337.99, beam_width: int = 4,
          spread: str = "sharegpt", seed: int = 0) -> Trace:
    """Every prompt is answered by beam search."""
    _positive(beam_width=beam_width)
    return replace(poisson(n, rate, input, output, spread, seed=seed).map(
        lambda request: replace(request, beam_width=beam_width)), name="beams")


GENERATORS = {make.__name__: make for make in (poisson, bursty, shared_prefix, multi_turn, samples, beams)}


def _positive(**values: float) -> None:
    for name, value in values.items():
        if not value > 0:
            raise ValueError(f"{name} is {value}; it must be above 0")
