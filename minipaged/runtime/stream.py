"""One request's outputs as they come (chapter 11)."""
from __future__ import annotations

from collections.abc import Callable

from minipaged.runtime.engine_core import EngineCore
from minipaged.runtime.interrupts import interruptible
from minipaged.runtime.outputs import RequestOutput
from minipaged.runtime.sequence_group import SequenceGroup


class Stream:
    """The outputs of one request, one for each new token. `close`, or dropping it, aborts the request.

    `advance` makes one step of the engine, in which the other requests advance too.
    """

    def __init__(self, core: EngineCore, advance: Callable[[], object], group: SequenceGroup) -> None:
        self._core, self._advance, self._group = core, advance, group
        self._num_seen = 0
        self._is_over = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> RequestOutput:
        if self._is_over:
            raise StopIteration
        group = self._group
        with self._core.whole():
            try:
                while not group.is_finished and group.num_output_tokens == self._num_seen:
                    self._advance()
                    with interruptible():
                        pass  # a place for Ctrl-C between steps
            except BaseException:
                self.close()
                raise
            self._num_seen = group.num_output_tokens
            self._is_over = group.is_finished
            return group.output()

    def close(self) -> None:
        """Abort the request unless it has ended; there are no more outputs."""
        self._is_over = True
        self._core.give_up(self._group)

    def __del__(self) -> None:
        if not self._is_over:
            self._core.abandon(self._group)
