"""Random runs with a log, watched at every moment at which nothing is half done: all options of the random walk."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from minipaged.core import EventLog

from ..core import test_random_walk as walk
from ..core.world import World


def run(seed: int, steps: int, watch: Callable[[World, EventLog], None] | None = None) -> EventLog:
    """The log of one random run of any policy, with forks, aborts, failing steps and swaps. `watch(world, log)` is
    called after every operation."""
    walker = LoggedWalker(seed)
    world = walker.world
    if watch is not None:
        check = world.check

        def check_and_watch() -> None:
            check()
            watch(world, world.scheduler.kv._events)

        world.check = check_and_watch
    while world.num_steps < steps:
        walker.operation()
    world.drain()
    return world.scheduler.kv._events


class LoggedWalker(walk.Walker):
    """A Walker whose world always has a log."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.world = World(replace(self.world.config, log_events=True))


def runs(seeds: range, steps: int) -> Iterator[EventLog]:
    return (run(seed, steps) for seed in seeds)


def engine_state(world: World) -> dict:
    """What the engine itself holds, in the words of Replay."""
    scheduler, kv = world.scheduler, world.kv
    return {
        "ref_count": list(kv.allocator.ref_count),
        "free": kv.allocator.free_blocks(),
        "tables": {name: list(table.blocks) for name, table in kv.tables().items() if table.blocks},
        "running": [request.request_id for request in scheduler.running],
        "waiting": [request.request_id for request in scheduler.waiting],
        "requests": {name: [request.status.value, request.num_tokens, request.num_computed_tokens,
                            request.num_preemptions] for name, request in scheduler.requests.items()},
        "covered": list(kv.prefix_cache.covered),
        "host_free": kv.host.free_count,
    }
