"""What memory and queues look like after each event, rebuilt from the log alone (every chapter's pictures).

    state = replay(llm.engine.events, until=40)
    state.ref_count[3], state.holders[3], state.tables["A"], state.free_blocks(), state.running

The film's JavaScript (film/state.js) keeps the same state; a test compares both with the engine, event by event.
A log made by a wrong implementation can be replayed too: an event that cannot follow is told in `faults`.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from minipaged.core.events import Event
from minipaged.viz.replay_queues import QueueReplay


class ReplayError(ValueError):
    """An event that cannot follow the events before it; the message names both."""


class Replay(QueueReplay):
    """Memory and queues after the events seen so far.

    ref_count, holders: for each block, its count and the requests that hold it, oldest first. tables: request ->
    blocks in logical order (-1: none), of all that hold any. full, tail: block -> (key, parent, tokens) and
    (parent, tokens) by which it can be found. host: host block -> requests whose blocks it keeps. Requests and
    queues are those of QueueReplay.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_blocks = self.block_size = self.num_cpu_blocks = 0
        self.ref_count: list[int] = []
        self.holders: list[list[str]] = []
        self._free: OrderedDict[int, None] = OrderedDict()  # front first; every operation is O(1)
        self.tables: dict[str, list[int]] = {}
        self.full: dict[int, tuple[str, str, int]] = {}
        self.tail: dict[int, tuple[str, int]] = {}
        self.host: dict[int, list[str]] = {}
        self.time = self.step = -1

    # ---- what a picture asks ----

    def free_blocks(self) -> list[int]:
        """The free queue, front first."""
        return list(self._free)

    @property
    def free_count(self) -> int:
        return len(self._free)

    def is_cached(self, block: int) -> bool:
        return block in self.full or block in self.tail

    def covered(self, block: int) -> int:
        """How many of the block's first tokens can be found by their contents."""
        return max(self.full.get(block, ("", "", 0))[2], self.tail.get(block, ("", 0))[1])

    def filled(self) -> list[int]:
        """For each block, the tokens whose K and V it holds for a request (0 when nobody holds it)."""
        filled = [0] * self.num_blocks
        for name, table in self.tables.items():
            computed = self.requests[name].computed
            for index, block in enumerate(table):
                if block >= 0:
                    filled[block] = max(filled[block], min(computed - index * self.block_size, self.block_size))
        return filled

    def snapshot(self) -> dict:
        """Everything as plain data, as film/state.js gives it; for tests and for comparisons."""
        return {
            "ref_count": list(self.ref_count), "holders": [list(names) for names in self.holders],
            "free": self.free_blocks(), "tables": [[name, list(table)] for name, table in self.tables.items()],
            "full": [[block, *self.full[block]] for block in sorted(self.full)],
            "tail": [[block, *self.tail[block]] for block in sorted(self.tail)],
            "host": [[block, list(self.host[block])] for block in sorted(self.host)],
            "running": list(self.running), "waiting": list(self.waiting), "finished": list(self.finished),
            "requests": [[one.name, one.status, one.num_tokens, one.computed, one.cached, one.preemptions]
                         for one in self.requests.values()],
            "faults": len(self.faults),
        }

    # ---- one event ----

    def see(self, event: Event) -> None:
        """Apply one event."""
        self.time, self.step = event.time, event.step
        absent = [event.data[name] for name in ("block", "src", "dst")
                  if name in event.data and not 0 <= event.data[name] < self.num_blocks]
        if absent:
            self._expect(False, event, f"there is no P{absent[0]}; the blocks are P0 to P{self.num_blocks - 1}")
        else:
            getattr(self, f"_on_{event.kind}")(event)

    def _on_pool(self, event: Event) -> None:
        self.num_blocks, self.block_size = event.num_blocks, event.block_size
        self.num_cpu_blocks = event.num_cpu_blocks
        self.ref_count = [0] * event.num_blocks
        self.holders = [[] for _ in range(event.num_blocks)]
        self._free = OrderedDict.fromkeys(range(event.num_blocks))

    # ---- memory ----

    def _on_allocate(self, event: Event) -> None:
        block = event.block
        self._expect(block in self._free, event, f"P{block} is handed out, but it is not free")
        self._free.pop(block, None)
        self.ref_count[block] = event.ref_count
        self._hold(event)

    def _on_share(self, event: Event) -> None:
        block = event.block
        self._free.pop(block, None)
        self.ref_count[block] += 1
        self._expect(self.ref_count[block] == event.ref_count, event,
                     f"P{block} has {self.ref_count[block]} holders, but its count is {event.ref_count}")
        self._hold(event)

    def _on_copy(self, event: Event) -> None:
        self._expect(self.ref_count[event.src] > 1, event, f"P{event.src} is copied, but only one request holds it")

    def _on_release(self, event: Event) -> None:
        self._drop(event)
        left = self.ref_count[event.block]
        self._expect(left == event.ref_count, event,
                     f"P{event.block} has {left} holders left, but its count is {event.ref_count}")

    def _on_free(self, event: Event) -> None:
        block = event.block
        if self.ref_count[block] == 0:
            self._expect(False, event, f"P{block} is freed a second time")
            return
        self._drop(event)
        left = self.ref_count[block]
        self._expect(left == 0, event, f"P{block} goes to the free queue, but {left} still hold it")
        self._free[block] = None
        self._free.move_to_end(block, last=event.end != "front")

    def _hold(self, event: Event) -> None:
        """The event's request has the event's block at the event's place of its table."""
        block, name, index = event.block, self._request(event.request).name, event.index
        if name not in self.holders[block]:
            self.holders[block].append(name)
        table = self.tables.setdefault(name, [])
        index = len(table) if index is None else index
        table += [-1] * (index + 1 - len(table))
        table[index] = block

    def _drop(self, event: Event) -> None:
        block, name = event.block, self._request(event.request).name
        self.ref_count[block] -= 1
        held = name in self.holders[block]
        self._expect(held, event, f"{name} gives P{block} back, but does not hold it")
        if held:
            self.holders[block].remove(name)
        table = self.tables.get(name, [])
        if block in table:  # else a copy took its place
            table[table.index(block)] = -1
            if max(table) < 0:
                del self.tables[name]

    def _on_publish(self, event: Event) -> None:
        if event.tail:
            self.tail[event.block] = (event.parent, event.num_tokens)
        else:
            self.full[event.block] = (event.key, event.parent, event.num_tokens)

    def _on_withdraw(self, event: Event) -> None:
        keys = self.tail if event.key is None else self.full
        self._expect(event.block in keys, event, f"P{event.block} loses a key that it does not have")
        keys.pop(event.block, None)

    def _on_reset(self, event: Event) -> None:
        self.full.clear()
        self.tail.clear()

    def _on_swap_out(self, event: Event) -> None:
        names = self.host.setdefault(event.host_block, [])
        names.append(self._request(event.request).name)

    def _on_swap_in(self, event: Event) -> None:
        if not event.copied:  # else it was allocated just now
            self._free.pop(event.block, None)
            self.ref_count[event.block] += 1
        self._hold(event)
        names = self.host.get(event.host_block, [])
        if event.request in names:
            names.remove(event.request)

    def _on_host_free(self, event: Event) -> None:
        self._expect(event.host_block in self.host, event, f"host block H{event.host_block} is freed a second time")
        self.host.pop(event.host_block, None)

    def _forget_host(self, name: str) -> None:
        for names in self.host.values():
            if name in names:
                names.remove(name)

    def _on_step(self, event: Event) -> None:
        super()._on_step(event)
        self._expect(event.free_blocks == len(self._free), event,
                     f"the engine counts {event.free_blocks} free blocks, the log {len(self._free)}")


def replay(events: Iterable[Event], until: int | None = None, strict: bool = True) -> Replay:
    """The state after the event with time `until` (after the last one when None).

    Errors: ReplayError for a log that does not begin with its pool and, when `strict`, for an event that cannot
    follow; else such events are listed in `faults`.
    """
    state = Replay()
    for event in events:
        if until is not None and event.time > until:
            break
        if not state.num_blocks and event.kind != "pool":
            raise ReplayError(f"the log begins with {event.kind!r}; it must begin with 'pool' to know the blocks")
        state.see(event)
        if strict and state.faults:
            raise ReplayError(f"event {state.faults[0][0]} cannot follow: {state.faults[0][1]}")
    if not state.num_blocks:
        raise ReplayError("the log is empty; it must begin with 'pool' to know the blocks")
    return state
