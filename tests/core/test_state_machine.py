"""The operations of the random walk as a state machine: hypothesis chooses them, and shrinks a failure to the
shortest story that still fails."""
from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from minipaged.core import FinishReason, SamplingParams

from .world import Config, World

MOSTLY = st.sampled_from([True, True, False])
CONFIGS = st.builds(
    Config,
    num_blocks=st.integers(2, 8), block_size=st.integers(1, 4), num_cpu_blocks=st.sampled_from([16, 2, 0]),
    free_order=st.sampled_from(["unhashed_first", "append"]), enable_prefix_caching=MOSTLY,
    share_partial_blocks=MOSTLY, weak_hash=st.sampled_from([0, 1, 3]), vocab_size=st.just(3),
    max_num_seqs=st.integers(2, 5), max_num_batched_tokens=st.sampled_from([16, 5, 2]),
    max_model_len=st.sampled_from([None, None, 12]), enable_chunked_prefill=MOSTLY,
    long_prefill_token_threshold=st.sampled_from([0, 0, 2]), watermark=st.sampled_from([0.0, 0.0, 0.3]),
    scheduling_policy=st.sampled_from(["round_robin", "fcfs", "priority", "static"]),
    quantum=st.integers(1, 3), victim=st.sampled_from(["newest", "most_generated", "lowest_priority"]),
    preemption_mode=st.sampled_from(["swap", "recompute"]), log_events=st.booleans())
NAMES = st.sampled_from("abcdefgh")
PROMPTS = st.one_of(
    st.integers(1, 20).map(lambda length: [index % 3 for index in range(length)]),  # prefixes of one another
    st.lists(st.integers(0, 2), min_size=1, max_size=8))
MAX_TOKENS = st.sampled_from([20, 9, 3, 1])
ADDS = st.tuples(NAMES, PROMPTS, MAX_TOKENS, st.integers(0, 1), st.integers(0, 2),
                 st.sampled_from([None, None, None, None, "x"]), st.sampled_from([False, False, False, True]))


class ServingMachine(RuleBasedStateMachine):
    """Some requests, some steps, some accidents; everything is checked after each (see World)."""

    @initialize(config=CONFIGS, requests=st.lists(ADDS, min_size=2, max_size=4))
    def start(self, config: Config, requests: list) -> None:
        self.world = World(config)
        for request in requests:
            self.add(request)

    @rule(request=ADDS)
    def add(self, request) -> None:
        name, prompt, max_tokens, seed, priority, cache_salt, skip_reading = request
        self.world.add(name, prompt, SamplingParams(max_tokens=max_tokens, seed=seed, ignore_eos=True),
                       priority=priority, cache_salt=cache_salt, skip_reading_prefix_cache=skip_reading)

    @rule(first=ADDS, second=ADDS)
    def add_two_and_step(self, first, second) -> None:
        self.add(first)
        self.add(second)
        self.world.step()

    @precondition(lambda self: not self.world.is_static)
    @rule(parent=NAMES, child=NAMES, seed=st.integers(0, 1), max_tokens=MAX_TOKENS)
    def fork(self, parent, child, seed, max_tokens) -> None:
        self.world.fork(parent, child, seed, max_tokens)

    @rule(name=NAMES, reason=st.sampled_from([FinishReason.ABORT, FinishReason.STOP]))
    def end(self, name, reason) -> None:
        self.world.end(name, reason)
        self.world.check()

    @rule(count=st.integers(1, 8))
    def steps(self, count) -> None:
        for _ in range(count):
            self.world.step()

    @precondition(lambda self: not self.world.is_static)
    @rule(choice=st.integers(0, 9), child=NAMES, seed=st.integers(0, 1))
    def fork_somebody_and_step(self, choice, child, seed) -> None:
        if self.world.live:
            self.world.fork(self.world.live[choice % len(self.world.live)], child, seed, 20)
        self.world.step()

    @rule(name=NAMES)
    def step_with_abort(self, name) -> None:
        self.world.step(meanwhile=lambda: self.world.end(name))

    @rule(seed=st.integers(0, 2**16))
    def failing_step(self, seed) -> None:
        self.world.failing_step(Random(seed))

    @rule()
    def incomplete_step(self) -> None:
        self.world.incomplete_step()

    @rule()
    def reset(self) -> None:
        self.world.reset()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


TestServing = ServingMachine.TestCase
TestServing.settings = settings(max_examples=250, stateful_step_count=40, deadline=None, derandomize=True,
                                database=None, suppress_health_check=list(HealthCheck))
