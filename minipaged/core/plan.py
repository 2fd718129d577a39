"""The plan of one step: plain data that the scheduler makes and an executor runs (chapters 07 and 11).

An executor runs a plan in this order: swap out, swap in, block copies; then, layer by layer, write all new
K and V, then attend. It returns the sampled token of every request whose `sample` is true. The scheduler's
`commit` comes last. A plan holds no reference to live state, so it can be printed, compared and replayed.
"""
from dataclasses import dataclass, field
from typing import NamedTuple


class ScheduledRequest(NamedTuple):
    """One request's share of a step: compute `token_ids` at positions start, start + 1, ...

    `block_table` is the table as of this step: position p lives in block `block_table[p // block_size]`,
    offset `p % block_size`. `sample` is true when the last of these tokens is the request's newest, so that
    its logits choose the next token.
    """

    request_id: str
    start: int
    token_ids: tuple[int, ...]
    block_table: tuple[int, ...]
    sample: bool

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def context_len(self) -> int:
        """Tokens that may be attended after this step's writes: positions 0 to context_len - 1."""
        return self.start + len(self.token_ids)

    def slots(self, block_size: int) -> list[int]:
        """Where each new token's K and V go: slot = block x block_size + offset (the `slot_mapping`)."""
        table = self.block_table
        return [table[p // block_size] * block_size + p % block_size for p in range(self.start, self.context_len)]


class Admission(NamedTuple):
    """A request that got a seat in this step, and how many tokens it found in the prefix cache."""

    request_id: str
    cached_tokens: int
    resumed: bool


@dataclass(slots=True)
class StepPlan:
    """What one step does. Pairs are (source, destination); host blocks are numbered in their own pool."""

    step: int
    block_size: int
    scheduled: list[ScheduledRequest] = field(default_factory=list)
    swap_outs: list[tuple[int, int]] = field(default_factory=list)  # (device block, host block)
    swap_ins: list[tuple[int, int]] = field(default_factory=list)  # (host block, device block)
    copies: list[tuple[int, int]] = field(default_factory=list)  # (device block, device block)
    admitted: list[Admission] = field(default_factory=list)
    preempted: list[str] = field(default_factory=list)

    @property
    def num_scheduled_tokens(self) -> dict[str, int]:
        """request id -> tokens computed in this step."""
        return {item.request_id: len(item.token_ids) for item in self.scheduled}

    @property
    def total_tokens(self) -> int:
        return sum(len(item.token_ids) for item in self.scheduled)

    @property
    def slot_mapping(self) -> list[int]:
        """The slots of all new tokens of this step, request after request."""
        return [slot for item in self.scheduled for slot in item.slots(self.block_size)]

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to run."""
        return not (self.scheduled or self.swap_outs or self.swap_ins or self.copies)
