"""A seeded random walk over every operation and every option, 200,000 steps, each one checked.

A failure prints the seed, the configuration and the last operations; `walk(seed, steps)` plays it again.
"""
from __future__ import annotations

from random import Random

import pytest

from minipaged.core import FinishReason, SamplingParams

from .world import Config, World

STEPS_A_WORLD = 250
WORLDS_A_TEST = 40
TESTS = 20


def random_config(random: Random) -> Config:
    """Any combination of options; small pools come often, for they preempt."""
    pick = random.choice
    num_blocks = pick((1, 2, 4, 6, 6, 8, 8, 10, 12, 16, 40))
    return Config(
        num_blocks=num_blocks,
        block_size=pick((1, 2, 3, 4, 4, 5, 8)),
        num_cpu_blocks=pick((0, 1, 2, num_blocks, 3 * num_blocks)),
        free_order=pick(("unhashed_first", "append")),
        enable_prefix_caching=random.random() < 0.85,
        share_partial_blocks=random.random() < 0.7,
        weak_hash=pick((0, 0, 1, 4)),
        vocab_size=pick((2, 3, 5)),
        max_num_seqs=pick((1, 2, 3, 4, 6, 8)),
        max_num_batched_tokens=pick((1, 3, 5, 8, 16, 16, 64)),
        max_model_len=pick((None, None, None, 20)),
        enable_chunked_prefill=random.random() < 0.75,
        long_prefill_token_threshold=pick((0, 0, 1, 3, 7)),
        watermark=pick((0.0, 0.0, 0.0, 0.2, 0.6)),
        scheduling_policy=pick(("fcfs", "fcfs", "fcfs", "round_robin", "round_robin", "priority", "static")),
        quantum=pick((1, 2, 5)),
        victim=pick(("newest", "most_generated", "lowest_priority")),
        preemption_mode=pick(("recompute", "swap")),
        log_events=random.random() < 0.2)


class Walker:
    """Chooses operations for a World."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(random_config(self.random))
        config = self.world.config
        self.longest = min(self.world.capacity * self.random.choice((1, 2, 4)) // 4 + 1, 40)
        self.documents = [[self.random.randrange(config.vocab_size) for _ in range(self.longest)]
                          for _ in range(2)]
        self.load = self.random.choice((3, 6, 10))  # requests that are kept in flight
        self.forks = self.random.choice((0.02, 0.1, 0.3))  # before so many operations somebody is forked
        self.num_names = 0

    def name(self) -> str:
        """A new name, now and then one that was used before."""
        if self.random.random() < 0.1 and self.num_names:
            return f"r{self.random.randrange(self.num_names)}"
        self.num_names += 1
        return f"r{self.num_names - 1}"

    def some(self) -> str:
        live = self.world.live
        return self.random.choice(live) if live and self.random.random() < 0.95 else "nobody"

    def add(self, name: str | None = None) -> None:
        random, config = self.random, self.world.config
        prompt = list(random.choice(self.documents))
        if random.random() < 0.8:
            prompt = prompt[:random.randrange(1, len(prompt) + 1)]
        if random.random() < 0.3:
            prompt = prompt[:max(1, len(prompt) // config.block_size * config.block_size)]
        if random.random() < 0.3:
            prompt = prompt[:len(prompt) * 2 // 3] + [random.randrange(config.vocab_size) for _ in range(3)]
        if random.random() < 0.3:  # what somebody has now is what somebody else asks next
            self.documents[random.randrange(2)] = self.conversation() or prompt
        max_tokens = random.choice((1, 6, 12, 30))
        self.world.add(
            name or self.name(), prompt,
            SamplingParams(max_tokens=max_tokens, seed=random.randrange(3), ignore_eos=random.random() < 0.9,
                           min_tokens=random.choice((0, 0, max_tokens // 2)),
                           stop_token_ids=[1] if random.random() < 0.1 else []),
            priority=random.randrange(3), cache_salt=random.choice((None,) * 9 + ("a", 1, ("a", 1))),
            skip_reading_prefix_cache=random.random() < 0.1)

    def conversation(self) -> list[int]:
        """The tokens of somebody who is being served, up to a length that is not refused too often."""
        requests = list(self.world.scheduler.requests.values())
        return self.random.choice(requests).token_ids[:self.longest] if requests else []

    def meanwhile(self) -> None:
        """What may happen while a step is running."""
        random = self.random
        for _ in range(random.choice((0, 1, 1, 5))):
            name = self.some()
            if random.random() < 0.6:
                self.world.end(name)
            if random.random() < 0.5:
                self.add(name if random.random() < 0.3 else None)

    def operation(self) -> None:
        """One operation, most often a step."""
        random, world = self.random, self.world
        while len(world.live) < self.load and random.random() < 0.7:
            self.add()
        if random.random() < self.forks and not world.is_static:
            world.fork(self.some(), self.name(), random.randrange(3), random.choice((1, 12, 30, 30)))
        kind = random.random()
        if kind < 0.88:
            world.step(self.meanwhile if random.random() < 0.05 else None)
        elif kind < 0.91:
            world.end(self.some(), random.choice((FinishReason.ABORT, FinishReason.STOP)))
            world.check()
        elif kind < 0.93:
            world.failing_step(random, self.meanwhile if random.random() < 0.2 else None)
        elif kind < 0.94:
            world.incomplete_step()
        elif kind < 0.96:
            world.reset()
        elif kind < 0.97:
            world.drain()
        else:
            self.add()


def walk(seed: int, steps: int = STEPS_A_WORLD) -> World:
    """Walk until `steps` steps are done, then to the end."""
    walker = Walker(seed)
    world = walker.world
    try:
        while world.num_steps < steps:
            walker.operation()
        world.drain()
    except Exception as error:
        history = "\n".join(world.log)
        raise AssertionError(f"walk({seed}, {steps}) with {world.config}\n{history}\n"
                             f"{type(error).__name__}: {error}") from error
    return world


@pytest.mark.parametrize("part", range(TESTS))
def test_random_walk(part: int) -> None:
    seen: dict[str, int] = {}
    steps = 0
    for seed in range(part * WORLDS_A_TEST, (part + 1) * WORLDS_A_TEST):
        world = walk(seed)
        steps += world.num_steps
        for what, count in world.seen.items():
            seen[what] = seen.get(what, 0) + count
    assert steps >= STEPS_A_WORLD * WORLDS_A_TEST
    assert all(seen.values()), f"the walk never came to some situations: {seen}"
