"""The swap-in engine: a learner's class or function replaces ours, everything else stays (all labs).

    with use(BlockAllocator=BlockAllocator):
        llm = LLM(model="tiny", num_blocks=48, enable_prefix_caching=False)
        print(llm.generate(["Once upon a time"])[0].outputs[0].text)

    llm = use(BlockAllocator=BlockAllocator).llm(num_blocks=48)      # the same, the engine at once
    result = use(choose_victim=choose_victim).simulate(trace="azure-conv", first=50)

Inside a `with`, a mistake of the learner's code becomes one sentence and the notebook goes on. So any exercise can
be done alone: what it does not replace is the reference.
"""
from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import NamedTuple

from minipaged.lab.adapters import (
    PickPolicy,
    SwapError,
    allocator_class,
    need,
    table_class,
    victim_rule,
)
from minipaged.lab.trace import line_of


class Place(NamedTuple):
    """Where a part is found, "module:name", and how a learner's object is made to fit there."""

    targets: tuple[str, ...]
    adapt: Callable[[object], object]


def _subclass_of(name: str) -> Callable[[object], object]:
    """The part must bring all methods of ours: a subclass is the easy way."""
    def adapt(mine: object) -> object:
        ours = getattr(importlib.import_module("minipaged.core"), name)
        if not inspect.isclass(mine):
            raise SwapError(f"{name} must be a class; got {mine!r:.60}")
        public = [method for method in vars(ours) if not method.startswith("_") and callable(getattr(ours, method))]
        need(mine, name, *public)
        return mine
    return adapt


def _attention(mine: Callable) -> Callable:
    """A backend that asks the learner for each token: (query [num_heads, head_dim], key_blocks, value_blocks,
    block_table, context_len) -> [num_heads, head_dim]."""
    def make(name: str = "auto", device: object = "cpu") -> object:
        from minipaged.lab.torch_adapters import OneTokenBackend

        return OneTokenBackend(mine)
    return make


def _slots(mine: Callable) -> object:
    from minipaged.lab.torch_adapters import inputs_class

    return inputs_class(mine)


def _hash(mine: Callable) -> object:
    from minipaged.core.prefix_cache import PrefixCache

    def make(*args: object, **options: object) -> PrefixCache:
        return PrefixCache(*args, **{**options, "hash_fn": mine})
    return make


#: what can be replaced
PLACES: dict[str, Place] = {
    "BlockAllocator": Place(("minipaged.core.kv_memory:BlockAllocator",), allocator_class),
    "BlockTable": Place(("minipaged.core.kv_memory:BlockTable", "minipaged.core.kv_manager:BlockTable"), table_class),
    "PrefixCache": Place(("minipaged.core.kv_memory:PrefixCache",), _subclass_of("PrefixCache")),
    "KVCacheManager": Place(("minipaged.runtime.llm_engine:KVCacheManager", "minipaged.sim.serving:KVCacheManager"),
                            _subclass_of("KVCacheManager")),
    "ContinuousBatchingScheduler": Place(("minipaged.runtime.llm_engine:ContinuousBatchingScheduler",
                                          "minipaged.sim.serving:ContinuousBatchingScheduler"),
                                         _subclass_of("ContinuousBatchingScheduler")),
    "block_hash": Place(("minipaged.core.kv_memory:PrefixCache",), _hash),
    "choose_victim": Place(("minipaged.core.scheduler:choose_victim_rule",),
                           lambda mine: lambda name, policy: victim_rule(mine)),
    "pick_next": Place(("minipaged.core.scheduler:make_policy",), lambda mine: lambda name, quantum: PickPolicy(mine)),
    "slot": Place(("minipaged.runtime.executor:StepInputs",), _slots),
    "paged_attention": Place(("minipaged.runtime.llm_engine:make_backend",), _attention),
}


def use(**parts: object) -> Swap:
    """Replace parts of the engine by a learner's. Names: those of PLACES. Raises SwapError for what can't fit."""
    for name, mine in parts.items():
        if name not in PLACES:
            raise SwapError(f"there is no part {name!r} to replace; there are {', '.join(PLACES)}")
        if not callable(mine):
            raise SwapError(f"{name} must be a class or a function; got {mine!r:.60}")
    return Swap(parts, {name: PLACES[name].adapt(mine) for name, mine in parts.items()})


class Swap:
    """The replacement of some parts: a context manager, or an engine or a simulation made with it.

    `error`: the sentence of the last `with` that ended in a mistake of the learner's code, or None.
    """

    def __init__(self, parts: dict[str, object], adapted: dict[str, object]) -> None:
        self._parts, self._adapted = parts, adapted
        self._open: list[contextlib.ExitStack] = []
        self.error: str | None = None

    def __enter__(self) -> Swap:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.in_place())
            self._open.append(stack.pop_all())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> bool:
        self._open.pop().close()
        if not isinstance(error, Exception):
            return False
        self.error = self._sentence(error)
        print(self.error)
        return True

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """As `with use(...)`, but errors are raised."""
        saved = []
        try:
            for name, adapted in self._adapted.items():
                for target in PLACES[name].targets:
                    module_name, _, attribute = target.partition(":")
                    module = importlib.import_module(module_name)
                    saved.append((module, attribute, getattr(module, attribute)))
                    setattr(module, attribute, adapted)
            yield
        finally:
            for module, attribute, value in reversed(saved):
                setattr(module, attribute, value)

    def _sentence(self, error: Exception) -> str:
        names = ", ".join(self._parts)
        first = error
        while first.__context__ is not None and not isinstance(first, SwapError):
            first = first.__context__  # what went wrong first; cleaning up may fail too
        error = first if isinstance(first, SwapError) else error
        if isinstance(error, NotImplementedError):
            return f"✗ With your {names}: not written yet, it still has `raise NotImplementedError()`."
        if isinstance(error, SwapError):
            return f"✗ With your {names}: {error}."
        text = " ".join(str(error).split())
        line = line_of(error)
        where = f" (line {line} of its cell)" if line else ""
        return f"✗ With your {names} the engine stopped: {type(error).__name__}: {text}{where}"

    def llm(self, model: str = "tiny", **options: object) -> object:
        """An LLM with these parts in place, now and whenever it is asked. Options are those of LLM."""
        from minipaged import LLM

        allocator = self._adapted.get("BlockAllocator")
        if allocator is not None and not hasattr(self._parts["BlockAllocator"], "touch"):
            options.setdefault("enable_prefix_caching", False)
        llm = self._run(LLM, model, **options)
        for name in ("generate", "chat", "beam_search"):
            setattr(llm, name, functools.partial(self._run, getattr(llm, name)))
        return llm

    def simulate(self, **options: object) -> object:
        """A simulated run (a SimResult) with these parts in place. Options are those of sim.scenario.Scenario."""
        from minipaged.sim.scenario import Scenario

        return self._run(Scenario(**options).simulate)

    def _run(self, function: Callable, *args: object, **options: object) -> object:
        with self.in_place():
            return function(*args, **options)
