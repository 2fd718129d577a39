"""How much of the recent prompts was found in the prefix cache (chapter 06)."""
from __future__ import annotations

from collections import deque


class HitRate:
    """Hit tokens / queried tokens over about the last `max_requests` requests.

    Whole updates are dropped, oldest first, as long as more than `max_requests` requests remain and more
    than one update is left (the rule of vLLM's statistics).
    """

    def __init__(self, max_requests: int = 1000) -> None:
        self.max_requests = max_requests
        self._updates: deque[tuple[int, int, int]] = deque()
        self._totals = [0, 0, 0]  # requests, queried tokens, hit tokens

    def record(self, requests: int, queried_tokens: int, hit_tokens: int) -> None:
        """Add one update; an update of no requests changes nothing."""
        if requests:
            self._add((requests, queried_tokens, hit_tokens), 1)
            while self._totals[0] > self.max_requests and len(self._updates) > 1:
                self._add(self._updates[0], -1)

    def _add(self, update: tuple[int, int, int], sign: int) -> None:
        self._updates.append(update) if sign > 0 else self._updates.popleft()
        self._totals = [total + sign * value for total, value in zip(self._totals, update)]

    def reset(self) -> None:
        self._updates.clear()
        self._totals = [0, 0, 0]

    @property
    def value(self) -> float:
        """0.0 to 1.0; 0.0 before the first update."""
        return self._totals[2] / self._totals[1] if self._totals[1] else 0.0
