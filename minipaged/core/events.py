"""The event log: every change of memory or schedule as one typed event with a logical time.

Pictures, films, metrics, tests and the graders' counterexamples read this log and nothing else. Without a
log attached the engine skips the reporting, so it costs nothing. Events carry what a picture needs: from the
log alone one can rebuild reference counts, the order of the free queue, the prefix tree and the queues.

A block is named by its number, a request by its id. `end` says which end of the free queue a block goes to;
blocks of one release are logged in the order in which they were put there, one by one. An allocation
always takes the front of the queue; a `share` with count 1 took a block out of the middle.
"""
from collections import Counter
from dataclasses import dataclass

#: kind -> (what happened, the fields of its data)
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "pool": ("a pool was made", ("num_blocks", "block_size", "num_cpu_blocks", "free_order")),
    "scheduler": ("a scheduler was made", ("policy", "max_num_seqs", "max_num_batched_tokens")),
    "add": ("a request joined the waiting queue", ("request", "num_tokens", "max_num_tokens", "priority")),
    "fork": ("a request was forked; it holds its parent's blocks", ("request", "parent", "num_tokens")),
    "admit": ("a request got a seat", ("request", "cached_tokens", "resumed", "was")),
    "allocate": ("a block left the front of the free queue", ("block", "request", "index", "ref_count")),
    "share": ("a table took a block that exists", ("block", "request", "index", "ref_count", "num_tokens")),
    "copy": ("copy-on-write: src was shared, dst is now the writer's", ("src", "dst", "request", "index")),
    "release": ("a table dropped a block that others still hold", ("block", "request", "ref_count")),
    "free": ("a block's count reached 0; it went back to the free queue", ("block", "request", "end", "cached")),
    "publish": ("a block can be found by its contents; a tail replaces a shorter one",
                ("block", "key", "parent", "num_tokens", "tail")),
    "withdraw": ("a block can no longer be found by this key", ("block", "key", "num_tokens", "reason")),
    "swap_out": ("a block is saved in the host pool", ("block", "host_block", "request", "copied")),
    "swap_in": ("a block is back from the host pool", ("block", "host_block", "request", "index", "copied")),
    "host_free": ("a host block is free again", ("host_block",)),
    "rotate": ("round-robin took a seat; the request keeps its blocks", ("request",)),
    "preempt": ("a request lost its seat and its blocks", ("request", "mode", "num_computed_tokens", "unscheduled")),
    "step": ("a plan is ready: what will be computed", ("scheduled", "free_blocks", "waiting", "running")),
    "cancel": ("a plan did not run; what it published is withdrawn", ("returned",)),
    "commit": ("a step is over; these tokens were sampled", ("tokens",)),
    "finish": ("a request ended", ("request", "reason", "num_tokens")),
    "reset": ("the prefix cache was emptied", ("num_keys",)),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One change. `time` counts events from 0, `step` counts scheduler steps from 0 (-1: before the first)."""

    time: int
    step: int
    kind: str
    data: dict

    def __getattr__(self, name: str) -> object:
        try:
            return self.data[name]
        except KeyError:
            raise AttributeError(f"a {self.kind!r} event has no {name!r}; it has {sorted(self.data)}") from None

    def __str__(self) -> str:
        fields = " ".join(f"{name}={value}" for name, value in self.data.items()).replace("'", "")
        return f"{self.time:>5} step {self.step:>3}  {self.kind:<9} {fields}"


class EventLog(list[Event]):
    """The events in order, with `select` and `counts`; `minipaged.event_file` saves and loads it."""

    def __init__(self, recording: bool = True) -> None:
        self.recording = recording  # false: it keeps nothing, and what only a report needs is not computed
        self.step = -1  # set by the scheduler

    def emit(self, kind: str, /, **data: object) -> None:
        if self.recording:
            self.append(Event(len(self), self.step, kind, data))

    def __repr__(self) -> str:
        return f"EventLog of {len(self)} events: {self.counts()}"

    def select(self, *kinds: str, **fields: object) -> list[Event]:
        """The events of these kinds (all when none is named) whose data has these values."""
        unknown = [kind for kind in kinds if kind not in KINDS]
        if unknown:
            raise ValueError(f"no event kind {unknown[0]!r}; there are {', '.join(KINDS)}")
        return [event for event in self
                if (not kinds or event.kind in kinds)
                and all(name in event.data and event.data[name] == value for name, value in fields.items())]

    def counts(self) -> dict[str, int]:
        """kind -> number of events, in the order of KINDS."""
        found = Counter(event.kind for event in self)
        return {kind: found[kind] for kind in KINDS if found[kind]}


NO_LOG = EventLog(recording=False)  # what the engine reports to when no log is attached
