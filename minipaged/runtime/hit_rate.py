"""How much of the recent prompts was found in the prefix cache (chapter 06)."""
from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from minipaged.core.plan import StepPlan
from minipaged.core.request import Request


class HitRate:
    """Hit tokens / queried tokens over about the last `max_requests` requests.

    Whole updates are dropped, oldest first, as long as more than `max_requests` requests remain and more
    than one update is left (the rule of vLLM's statistics).
    """

    def __init__(self, max_requests: int = 1000) -> None:
        self.max_requests = max_requests
        self._updates: deque[tuple[int, int, int]] = deque()  # requests, queried tokens, hit tokens
        self._num_requests = 0  # in these updates

    def record(self, requests: int, queried_tokens: int, hit_tokens: int) -> None:
        """Add one update; an update of no requests changes nothing."""
        if requests:
            self._updates.append((requests, queried_tokens, hit_tokens))
            self._num_requests += requests
            while self._num_requests > self.max_requests and len(self._updates) > 1:
                self._num_requests -= self._updates.popleft()[0]

    def record_plan(self, plan: StepPlan, requests: Mapping[str, Request]) -> None:
        """Add the requests that a plan admits for the first time."""
        for admission in plan.admitted:
            if not admission.resumed:
                self.record(1, requests[admission.request_id].num_tokens, admission.cached_tokens)

    def reset(self) -> None:
        self._updates.clear()
        self._num_requests = 0

    @property
    def value(self) -> float:
        """0.0 to 1.0; 0.0 before the first update."""
        queried = sum(tokens for _, tokens, _ in self._updates)
        return sum(hits for _, _, hits in self._updates) / queried if queried else 0.0
