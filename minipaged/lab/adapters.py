"""Adapters: a learner's small class or function in the place of a part of the engine (all labs).

The engine asks more of its parts than an exercise does. An adapter keeps the engine's own books, lets the
learner's object decide, and says so when a decision can't be: a block handed out twice, a count that is wrong.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence

from minipaged.core.allocator import BlockAllocator
from minipaged.core.block_table import BlockTable
from minipaged.core.policy import FCFS
from minipaged.core.request import Request
from minipaged.errors import BlockError, OutOfBlocks


class SwapError(ValueError):
    """A learner's part does something that the engine can't go on with. The message says what."""


def need(thing: object, name: str, *methods: str) -> None:
    """Raises SwapError when a class lacks a method that the engine calls."""
    for method in methods:
        if not hasattr(thing, method):
            raise SwapError(f"the engine calls {name}.{method}; your class has no {method}")


def call(function: Callable, *args: object) -> object:
    """Call with as many of the arguments as the learner's function takes."""
    try:
        takes = [parameter.kind for parameter in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return function(*args)
    if inspect.Parameter.VAR_POSITIONAL not in takes:
        args = args[:sum(kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                         for kind in takes)]
    return function(*args)


def allocator_class(mine: type) -> type:
    """BlockAllocator with the learner's choice of blocks. `mine(num_blocks)` or `mine(num_blocks, block_size)`
    has allocate() and free(block); with increment_ref(block) it counts references itself; with touch(block) it
    can give a free block back to the prefix cache."""
    if issubclass(mine, BlockAllocator):
        return mine
    need(mine, "BlockAllocator", "allocate", "free")

    class LearnersAllocator(BlockAllocator):
        """The engine's books beside the learner's decisions."""

        def __init__(self, num_blocks: int, block_size: int = 16, **options: object) -> None:
            super().__init__(num_blocks, block_size, **options)
            self.mine = call(mine, num_blocks, block_size)

        def allocate_many(self, count: int, request_id: str | None = None, index: int | None = None) -> list[int]:
            taken: list[int] = []
            if count > self.free_count:
                return super().allocate_many(count, request_id, index)  # raises as the engine expects
            for _ in range(count):
                try:
                    block = self.mine.allocate()
                except OutOfBlocks:
                    raise SwapError(f"your allocate() says that no block is free; {self.free_count - len(taken)} "
                                    f"of {self.num_blocks} are") from None
                if type(block) is not int or not 0 <= block < self.num_blocks:
                    raise SwapError(f"your allocate() gave {block!r:.60}; the blocks are 0 to {self.num_blocks - 1}")
                if self.ref_count[block] or block in taken:
                    raise SwapError(f"your allocate() gave block {block}, which is still held by somebody")
                taken.append(block)
            for block in taken:
                self._unlink(block)
            self._link(taken, self.num_blocks, self._next[self.num_blocks])  # to the front: the engine takes them there
            return super().allocate_many(count, request_id, index)

        def increment_ref(self, block: int) -> None:
            super().increment_ref(block)
            if hasattr(self.mine, "increment_ref"):
                self.mine.increment_ref(block)

        def touch(self, block: int) -> None:
            if self.ref_count[block]:
                self.increment_ref(block)
                return
            if not hasattr(self.mine, "touch"):
                raise SwapError(f"the prefix cache wants the free block {block} back; your class has no touch(block). "
                                "Write it, or serve with enable_prefix_caching=False")
            self.mine.touch(block)
            super().touch(block)

        def free_many(self, blocks: Iterable[int], keep: Sequence[int] | None = None,
                      request_id: str | None = None) -> None:
            blocks = list(dict.fromkeys(blocks))
            super().free_many(blocks, keep, request_id)
            for block in reversed(blocks):
                if self.ref_count[block] == 0 or hasattr(self.mine, "increment_ref"):
                    try:
                        self.mine.free(block)
                    except BlockError as error:
                        raise SwapError(f"your free({block}) refuses a block that is held: {error}") from None
            count = getattr(self.mine, "free_count", self.free_count)
            count = count() if callable(count) else count
            if count != self.free_count:
                raise SwapError(f"after free of {blocks} your free_count is {count}; {self.free_count} blocks are free")

    return LearnersAllocator


def table_class(mine: type) -> type:
    """BlockTable that keeps its entries in the learner's. `mine(block_size)` or `mine()` has append(block),
    get_physical(logical) and num_blocks; slot(position), if it has one, is used too."""
    if issubclass(mine, BlockTable):
        return mine
    need(mine, "BlockTable", "append", "get_physical")

    class LearnersTable(BlockTable):
        """Reads and writes go to the learner's object."""

        __slots__ = ("mine",)

        def __init__(self, block_size: int = 16, blocks: Iterable[int] = ()) -> None:
            self.mine = call(mine, block_size)
            super().__init__(block_size, blocks)

        @property
        def blocks(self) -> tuple[int, ...]:
            count = self.mine.num_blocks
            count = count() if callable(count) else count
            return tuple(self.mine.get_physical(logical) for logical in range(count))

        @blocks.setter
        def blocks(self, blocks: tuple[int, ...]) -> None:
            present = self.blocks
            if blocks[:len(present)] != present:  # an entry was replaced: begin anew
                self.mine = call(mine, self.block_size)
                present = ()
            for block in blocks[len(present):]:
                self.mine.append(block)
            if self.blocks != blocks:
                raise SwapError(f"after append of {list(blocks)} your table holds {list(self.blocks)}")

        def slot(self, position: int) -> int:
            return self.mine.slot(position) if hasattr(self.mine, "slot") else super().slot(position)

    return LearnersTable


def request_row(request: Request) -> dict:
    """A request as plain data, for a learner's policy."""
    return {"request_id": request.request_id, "priority": request.priority, "arrival": request.arrival,
            "num_tokens": request.num_tokens, "num_computed_tokens": request.num_computed_tokens,
            "num_output_tokens": request.num_output_tokens, "max_num_tokens": request.max_num_tokens,
            "num_preemptions": request.num_preemptions}


def victim_rule(choose: Callable[[list[dict]], str]) -> Callable[[Sequence[Request]], Request]:
    """The rule of a learner's `choose_victim(running) -> request_id`; rows as `request_row`, oldest seat first."""
    def rule(running: Sequence[Request]) -> Request:
        return _named("choose_victim", choose([request_row(request) for request in running]), running)

    return rule


class PickPolicy(FCFS):
    """Admission in the order in which a learner's `pick_next(waiting) -> request_id` names them."""

    def __init__(self, pick: Callable[[list[dict]], str]) -> None:
        self._pick = pick

    def enqueue(self, waiting, request: Request) -> None:
        waiting.append(request)
        rest = sorted(waiting, key=lambda one: one.arrival)
        waiting.clear()
        while rest:
            chosen = _named("pick_next", self._pick([request_row(one) for one in rest]), rest)
            rest.remove(chosen)
            waiting.append(chosen)

    requeue = enqueue


def _named(function: str, name: object, requests: Sequence[Request]) -> Request:
    for request in requests:
        if request.request_id == name:
            return request
    raise SwapError(f"your {function} gave {name!r:.60}; it must give one of the request ids "
                    f"{', '.join(request.request_id for request in requests)}")
