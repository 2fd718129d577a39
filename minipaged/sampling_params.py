"""How to choose tokens and when to stop: what a user says with a prompt (chapter 11).

The scheduler reads only when to stop; the sampler and the text output of `runtime` read the rest.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real

from minipaged.errors import RequestError

#: field -> (the least and the largest value, what is allowed in words); a whole number where the bounds are
RULES = {
    "n": (1, None, "a whole number of at least 1"),
    "temperature": (0.0, None, "a number of at least 0 (0 is greedy)"),
    "top_p": (1e-12, 1.0, "a number above 0 and at most 1 (1 is off)"),
    "top_k": (-1, None, "a whole number of at least -1 (0 and -1 are off)"),
    "min_p": (0.0, 1.0, "a number between 0 (off) and 1"),
    "presence_penalty": (-1e9, None, "a finite number"),
    "frequency_penalty": (-1e9, None, "a finite number"),
    "repetition_penalty": (1e-12, None, "a number above 0 (1 is off)"),
    "seed": (-2 ** 200, None, "a whole number or None"),
    "max_tokens": (1, None, "a whole number of at least 1"),
    "min_tokens": (0, None, "a whole number of at least 0"),
    "logprobs": (0, None, "a whole number of at least 0, or None"),
}


@dataclass(frozen=True)
class SamplingParams:
    """How to choose tokens and when to stop. Names and defaults are vLLM's.

    `temperature` below 1e-5 means greedy. `top_k` 0 or -1 means off. `stop` and `logprobs` are applied by
    the engine; `core` reads only the limits and the stop tokens. Errors: RequestError naming the field.
    """

    n: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_tokens: int = 16
    min_tokens: int = 0
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, (least, most, rule) in RULES.items():
            value, kind = getattr(self, name), Integral if isinstance(least, int) else Real
            if value is None and name in ("seed", "logprobs"):
                continue
            if not (isinstance(value, kind) and not isinstance(value, bool) and abs(value) < 10 ** 300
                    and value >= least and (most is None or value <= most)):
                raise RequestError(f"{name} is {value!r:.40}; it must be {rule}")
            object.__setattr__(self, name, int(value) if kind is Integral else float(value))
        if self.min_tokens > self.max_tokens:
            raise RequestError(f"min_tokens is {self.min_tokens}; max_tokens is only {self.max_tokens}")
        self._list("stop", str, "text that is not empty, or a list of it", lambda text: bool(text))
        self._list("stop_token_ids", Integral, "a list of token ids of at least 0", lambda token: token >= 0)
        for name in ("ignore_eos", "include_stop_str_in_output"):
            if not isinstance(getattr(self, name), bool):
                raise RequestError(f"{name} is {getattr(self, name)!r:.40}; it must be True or False")

    def _list(self, name: str, kind: type, rule: str, allowed) -> None:
        """Make a field a tuple: None is empty, one text is a tuple of one."""
        value = getattr(self, name)
        items = () if value is None else (value,) if isinstance(value, str) else value
        items = tuple(items) if isinstance(items, Iterable) else (None,)
        if not all(isinstance(item, kind) and not isinstance(item, bool) and allowed(item) for item in items):
            raise RequestError(f"{name} is {value!r:.60}; it must be {rule}")
        object.__setattr__(self, name, items)
