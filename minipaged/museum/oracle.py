"""A model without weights whose next token depends on all that it reads (the oracle of the museum).

What K and V hold at a position depends on the token there and on everything read before it. Here one number
stands for K and V, and it is made of just that, so one wrong slot changes every token after it, as in a real
model. `alone` gives the tokens of a request without any of the engine's code: no blocks, no tables.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from minipaged.core import Request, ScheduledRequest, StepPlan

VOCAB_SIZE = 50


def mix(*values: object) -> int:
    """One number out of many, the same on every machine."""
    return crc32(repr(values).encode())


def dense(tokens: Sequence[int], salt: object = None, weights: int = 0) -> list[int]:
    """What memory must hold at each position of a sequence."""
    states: list[int] = []
    for token in tokens:
        states.append(mix(weights, salt, token, tuple(states)))
    return states


def next_token(states: Sequence[int], seed: int | None) -> int:
    return mix(seed, tuple(states)) % VOCAB_SIZE


def alone(request: Request, capacity: int, weights: int = 0, eos_token_ids: Sequence[int] = ()) -> list[int]:
    """The output of a request that is alone in a pool of `capacity` tokens."""
    params, tokens = request.params, list(request.prompt_token_ids)
    stops = {*params.stop_token_ids, *(() if params.ignore_eos else eos_token_ids)}
    limit = min(len(tokens) + params.max_tokens, capacity + 1)  # the newest token takes no slot
    output: list[int] = []
    while len(tokens) < limit:
        output.append(next_token(dense(tokens, request.cache_salt, weights), params.seed))
        tokens.append(output[-1])
        if output[-1] in stops and len(output) >= params.min_tokens:
            break
    return output


class ToyModel:
    """Runs plans: `scheduler.step(ToyModel(scheduler).run)`. `complain(judge, text)` hears of wrong contents.

    `weights` stands for the model's weights: another number, other tokens.
    """

    def __init__(self, scheduler, complain: Callable[[str, str], None] | None = None) -> None:
        self.scheduler = scheduler
        self.weights = 0
        self._size = scheduler.kv.block_size
        self._device: list[list] = [[None] * self._size for _ in range(scheduler.kv.num_blocks)]
        self._host: dict[int, list] = {}
        self._writer: dict[object, str] = {None: "nothing"}
        self._complain = complain or (lambda judge, text: None)

    def run(self, plan: StepPlan) -> dict[str, int]:
        """Swap out, swap in, copy, then write everything and read; the sampled tokens."""
        for block, host_block in plan.swap_outs:
            self._host[host_block] = list(self._device[block])
        for host_block, block in plan.swap_ins:
            self._device[block] = list(self._host[host_block])
        copied = [list(self._device[source]) for source, _ in plan.copies]
        for (_, copy), contents in zip(plan.copies, copied):
            self._device[copy] = contents
        for item in plan.scheduled:
            self._write(item)
        return {item.request_id: next_token(self._read(item, item.context_len),
                                            self._request(item).params.seed)
                for item in plan.scheduled if item.sample}

    def contents(self) -> list[list]:
        """What each device block holds, slot by slot (None: nothing yet)."""
        return self._device

    def _write(self, item: ScheduledRequest) -> None:
        salt = self._request(item).cache_salt
        states = self._read(item, item.start)
        for number, (token, slot) in enumerate(zip(item.token_ids, item.slots(self._size)), item.start):
            states.append(mix(self.weights, salt, token, tuple(states)))
            block, offset = divmod(slot, self._size)
            self._device[block][offset] = states[-1]
            self._writer.setdefault(states[-1], f"position {number} of {item.request_id}")

    def _read(self, item: ScheduledRequest, count: int) -> list:
        places = [divmod(position, self._size) for position in range(count)]
        found = [self._device[item.block_table[logical]][offset] for logical, offset in places]
        request = self._request(item)
        right = dense(request.token_ids[:count], request.cache_salt, self.weights)
        for position, (held, needed) in enumerate(zip(found, right)):
            if held != needed:
                block = item.block_table[position // self._size]
                self._complain("contents", f"{item.request_id} reads its position {position} in block {block}, "
                                           f"which holds {self._writer.get(held, 'something older')}")
                break
        return found

    def _request(self, item: ScheduledRequest) -> Request:
        return self.scheduler.requests[item.request_id]
