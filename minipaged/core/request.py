"""A request, its sampling parameters, and the states of its life (chapters 07 to 09).

A request knows its tokens (prompt, then output) and how many of them have their K and V in memory:
`num_computed_tokens`. Each step lets that number catch up with the number of tokens. Prefill, a chunk of
a prefill, decode, a prefix hit and a resume after preemption are all this one thing.
"""
from __future__ import annotations

from array import array
from collections.abc import Sequence
from enum import Enum
from numbers import Real
from operator import index

from minipaged.errors import RequestError
from minipaged.sampling_params import SamplingParams


class RequestStatus(str, Enum):
    """Where a request is. Every live request is in exactly one queue of the scheduler."""

    WAITING = "waiting"  # holds no memory: new, or preempted to be recomputed
    RUNNING = "running"  # has a seat
    PAUSED = "paused"  # no seat, keeps its blocks (rotated by round-robin, or a fork without a seat)
    SWAPPED = "swapped"  # no seat, its blocks are in the host pool
    FINISHED = "finished"


WAITING, RUNNING, PAUSED, SWAPPED, FINISHED = RequestStatus


class FinishReason(str, Enum):
    """Why a request ended."""

    STOP = "stop"  # an end-of-sequence or stop token, or a stop string
    LENGTH = "length"  # max_tokens or max_model_len
    CAPACITY = "capacity"  # alone it needs more blocks than the whole pool has
    ABORT = "abort"  # the user gave it up


class Request:
    """One prompt and its output so far.

    `token_ids` is prompt then output, one growing list. `priority`: lower runs first. `arrival` orders
    requests of equal priority; the scheduler numbers it when None. `cache_salt` separates prefix caches:
    any value that block_hash.encode can write (text, a LoRA id and version, an image hash, a tuple of
    these); requests with different salts never share a block. `skip_reading_prefix_cache` computes
    everything (its blocks are still published).
    """

    def __init__(self, request_id: str, prompt_token_ids: Sequence[int], params: SamplingParams | None = None, *,
                 priority: float = 0, arrival: float | None = None, cache_salt: object = None,
                 skip_reading_prefix_cache: bool = False) -> None:
        self.request_id = request_id
        try:
            if isinstance(prompt_token_ids, (str, bytes)):
                raise TypeError
            self.token_ids = [int(index(token)) for token in prompt_token_ids]
        except TypeError:
            raise RequestError(f"request {request_id}: a prompt is a list of integer token ids; got "
                               f"{prompt_token_ids!r:.60}") from None
        if not self.token_ids:
            raise RequestError(f"request {request_id}: the prompt is empty; give at least 1 token")
        for token in (min(self.token_ids), max(self.token_ids)):
            if not 0 <= token < 2**63:
                raise RequestError(f"request {request_id}: {token!r:.60} is not a token id; ids are 0 to 2^63 - 1")
        for name, rank in (("priority", priority), ("arrival", 0 if arrival is None else arrival)):
            if not isinstance(rank, Real) or rank != rank:
                raise RequestError(f"request {request_id}: {name} is {rank!r}; it must be a number")
        self.num_prompt_tokens = len(self.token_ids)
        self.params = params if params is not None else SamplingParams()
        self.priority = priority
        self.arrival = arrival
        self.cache_salt = cache_salt
        self.skip_reading_prefix_cache = skip_reading_prefix_cache
        self.status = WAITING
        self.finish_reason: FinishReason | None = None
        self.num_computed_tokens = 0  # tokens whose K and V are in this request's blocks
        self.num_cached_tokens = 0  # of these, found in the prefix cache when first admitted
        self.num_preemptions = 0
        self.steps_in_seat = 0  # since it last got a seat (round-robin)
        self.block_keys: list = []  # chained keys of its full blocks, filled by the prefix cache
        self._packed = array("q", self.token_ids)
        self.max_num_tokens = self.num_prompt_tokens + self.params.max_tokens  # the scheduler may lower it,
        self.outgrows_pool = False  # and says here whether the pool's size was the reason
        self.stop_tokens = frozenset(self.params.stop_token_ids)  # the scheduler adds eos ids

    def packed_tokens(self) -> array:
        """`token_ids` as an array of 64-bit integers, for hashing: side by side in memory, unlike int objects."""
        if len(self._packed) < len(self.token_ids):
            self._packed.extend(self.token_ids[len(self._packed):])
        return self._packed

    @property
    def prompt_token_ids(self) -> list[int]:
        return self.token_ids[: self.num_prompt_tokens]

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens:]

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def is_finished(self) -> bool:
        return self.status is FINISHED

    def fork(self, request_id: str, params: SamplingParams | None = None) -> Request:
        """A second request with the same tokens so far; what memory it shares is the manager's business."""
        child = Request(request_id, self.token_ids, params or self.params, priority=self.priority,
                        arrival=self.arrival, cache_salt=self.cache_salt,
                        skip_reading_prefix_cache=self.skip_reading_prefix_cache)
        child.num_prompt_tokens = self.num_prompt_tokens
        child.num_computed_tokens = self.num_computed_tokens
        child.num_cached_tokens = self.num_cached_tokens
        child.block_keys = list(self.block_keys)
        child.max_num_tokens = self.num_prompt_tokens + child.params.max_tokens
        return child

    def __repr__(self) -> str:
        return (f"Request({self.request_id!r}, {self.status.value}, {self.num_computed_tokens} of "
                f"{self.num_tokens} tokens computed)")
