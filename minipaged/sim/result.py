"""What a simulated run leaves behind: a record a request, a log of the steps, totals (chapters 08 and 14)."""
from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import numpy as np

from minipaged.sim.memory import MemorySample


@dataclass(slots=True)
class Record:
    """What happened to one request. Times in seconds on the virtual clock; None: it did not happen."""

    number: int
    arrival: float
    input_tokens: int
    output_tokens: int = 0  # generated, over all its sequences
    sequences: int = 1  # samples or beams of this prompt
    scheduled: float | None = None  # start of the first step that computed it
    first_token: float | None = None
    last_token: float | None = None
    cached_tokens: int = 0
    preemptions: int = 0
    finish: str = ""  # "length", "capacity", or "refused: why"


@dataclass
class StepLog:
    """One entry a step, in flat arrays. `owners` lists the sequence of each sampled token, step after step."""

    start: array = field(default_factory=lambda: array("d"))
    seconds: array = field(default_factory=lambda: array("d"))
    tokens: array = field(default_factory=lambda: array("i"))
    decodes: array = field(default_factory=lambda: array("i"))
    running: array = field(default_factory=lambda: array("i"))
    waiting: array = field(default_factory=lambda: array("i"))
    free_blocks: array = field(default_factory=lambda: array("i"))
    sampled: array = field(default_factory=lambda: array("i"))
    owners: array = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.start)


@dataclass
class Counts:
    """Totals of a run. Tokens that had to be in memory = computed + reused - lost (see `check_conservation`)."""

    needed_tokens: int = 0  # prompt and output but the last token, of each sequence, as far as it came
    computed_tokens: int = 0
    reused_tokens: int = 0  # found in the prefix cache or shared by a fork
    lost_tokens: int = 0  # computed or found, dropped by a preemption, to be done again
    preemptions: int = 0
    swapped_blocks: int = 0
    copied_blocks: int = 0


@dataclass
class SimResult:
    """A finished run: one record a request (in order of arrival), the steps, memory samples, totals."""

    trace: str
    num_blocks: int
    block_size: int
    records: list[Record]
    steps: StepLog
    memory: list[MemorySample]
    counts: Counts
    sequence_record: array  # sequence -> number of its request
    prompt_lookup_tokens: int = 0  # prompt tokens of admitted requests, and how many of them were cached
    prompt_hit_tokens: int = 0

    @property
    def end(self) -> float:
        """Seconds from the start of the trace to the end of the last step."""
        return self.steps.start[-1] + self.steps.seconds[-1] if len(self.steps) else 0.0


def finish_times(result: SimResult) -> None:
    """Fill the token times and counts of the records from the step log."""
    steps, records = result.steps, result.records
    if not len(steps.owners):
        return
    ends = np.frombuffer(steps.start) + np.frombuffer(steps.seconds)
    times = np.repeat(ends, np.array(steps.sampled))
    numbers = np.array(result.sequence_record)[np.array(steps.owners)]
    first = np.full(len(records), np.inf)
    last = np.full(len(records), -np.inf)
    np.minimum.at(first, numbers, times)
    np.maximum.at(last, numbers, times)
    counts = np.bincount(numbers, minlength=len(records))
    for record, count, early, late in zip(records, counts.tolist(), first.tolist(), last.tolist()):
        if count:
            record.output_tokens, record.first_token = count, early
            if record.finish and not record.finish.startswith("refused"):
                record.last_token = late


def check_conservation(result: SimResult) -> None:
    """Every token that had to be in memory was computed or reused, once more for each loss.

    Raises AssertionError with the four numbers. Holds for a run that came to its end.
    """
    counts = result.counts
    if counts.needed_tokens != counts.computed_tokens + counts.reused_tokens - counts.lost_tokens:
        raise AssertionError(f"tokens are not conserved: {counts.needed_tokens} were needed; "
                             f"{counts.computed_tokens} computed + {counts.reused_tokens} reused - "
                             f"{counts.lost_tokens} lost")
