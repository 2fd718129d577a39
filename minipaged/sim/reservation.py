"""Memory before paging: each request holds one contiguous region, reserved when it is admitted (chapter 02).

The baselines of the PagedAttention paper (Kwon et al., SOSP 2023, section 6.1), which it calls Orca (Max),
(Pow2) and (Oracle): room for the longest sequence the model can have, for the prompt and the next power of
two of the true output, or for exactly what the request will hold. Orca's own memory management is not
public; the paper gives these baselines a buddy allocator.
"""
from __future__ import annotations

from collections.abc import Iterable

from minipaged.core import ContinuousBatchingScheduler, Request, StepPlan
from minipaged.core.prefix_tree import NO_MATCH, Match
from minipaged.errors import RequestError
from minipaged.formulas import Reservation, WasteSplit, split_waste
from minipaged.sim.regions import ALLOCATORS


def _outputs(request: Request) -> int:
    return request.max_num_tokens - request.num_prompt_tokens


#: name -> slots that a request reserves, from the request and max_model_len
RESERVATIONS = {
    "max": lambda request, max_model_len: max_model_len,
    "pow2": lambda request, max_model_len: min(
        request.num_prompt_tokens + (1 << (_outputs(request) - 1).bit_length()), max_model_len or 1 << 62),
    "oracle": lambda request, max_model_len: request.max_num_tokens,
}


class ContiguousKV:
    """What a scheduler asks of a KV manager, answered with one region a request. Its blocks are single slots.

    Admission reserves the whole region or nothing, so a running request never lacks memory; nothing is
    shared, cached, swapped or preempted.
    """

    block_size = 1
    enable_prefix_caching = False

    def __init__(self, num_slots: int, reservation: str, *, fit: str = "buddy",
                 max_model_len: int | None = None) -> None:
        if fit not in ALLOCATORS:
            raise ValueError(f"fit is {fit!r}; it must be one of {', '.join(ALLOCATORS)}")
        self.num_blocks = num_slots
        self.max_model_len = max_model_len
        self._allocator = ALLOCATORS[fit](num_slots)
        self._slots_for = RESERVATIONS[reservation]
        self._largest = max(self._allocator.holes())
        self._regions: dict[str, range] = {}
        self._asked = 1  # slots that the request at the door needs, rounded: smaller holes are lost to it

    @property
    def free_count(self) -> int:
        """Free slots, in holes of any size."""
        return sum(self._allocator.holes())

    def slots_for(self, request: Request) -> int:
        """Slots that a request reserves, before the allocator rounds."""
        return self._slots_for(request, self.max_model_len)

    def can_ever_hold(self, request: Request) -> bool:
        return self._allocator.rounded(self.slots_for(request)) <= self._largest

    def begin_plan(self, step: int) -> StepPlan:
        return StepPlan(step, self.block_size)  # its moves stay empty: a region never moves

    def match(self, request: Request) -> Match:
        return NO_MATCH

    def admit(self, request: Request, match: Match, num_tokens: int, reserve: int = 0) -> range | None:
        slots = self.slots_for(request)
        self._asked = self._allocator.rounded(slots)
        region = self._allocator.allocate(slots)
        if region is not None:
            self._regions[request.request_id] = region
        return region

    def grow(self, request: Request, start: int, end: int) -> range:
        return self._regions[request.request_id]

    def blocks_of(self, request_id: str) -> range:
        return self._regions[request_id]

    def tables(self) -> dict[str, range]:
        return dict(self._regions)

    def free(self, request: Request) -> None:
        self._allocator.free(self._regions.pop(request.request_id))

    def feeds_copy(self, request: Request) -> bool:
        return False

    def commit(self, requests: Iterable[Request]) -> None:
        """Nothing to publish."""

    def cancel(self, plan: StepPlan) -> None:
        """Nothing to withdraw."""

    def waste_split(self, requests: dict[str, Request]) -> WasteSplit:
        """Where the slots are now. A request's last token is sampled, never stored."""
        held = [Reservation(requests[name].num_computed_tokens, requests[name].max_num_tokens - 1, len(region))
                for name, region in self._regions.items()]
        return split_waste(held, self._allocator.holes(), self._asked)


class ReservingScheduler(ContinuousBatchingScheduler):
    """Continuous batching over contiguous regions: refuses a request that no region can ever hold."""

    def _register(self, request: Request) -> None:
        most = self.max_model_len or request.max_num_tokens
        request.max_num_tokens = min(request.max_num_tokens, most)
        if not self.kv.can_ever_hold(request):
            raise RequestError(f"request {request.request_id} reserves {self.kv.slots_for(request)} slots; no region "
                               "of this memory is that large. Take more memory or a smaller max_model_len")
        super()._register(request)
