"""The operations of the random walk as a state machine: hypothesis chooses them, and shrinks a failure to the
shortest story that still fails."""
from __future__ import annotations

from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from minipaged.core import FinishReason, SamplingParams

from .world import Config, World

CONFIGS = st.builds(
    Config,
    num_blocks=st.integers(1, 8), block_size=st.integers(1, 4), num_cpu_blocks=st.sampled_from([0, 2, 16]),
    free_order=st.sampled_from(["unhashed_first", "append"]), enable_prefix_caching=st.booleans(),
    share_partial_blocks=st.booleans(), weak_hash=st.sampled_from([0, 1, 3]), vocab_size=st.just(3),
    max_num_seqs=st.integers(1, 4), max_num_batched_tokens=st.sampled_from([1, 4, 7, 32]),
    max_model_len=st.sampled_from([None, 12]), enable_chunked_prefill=st.booleans(),
    long_prefill_token_threshold=st.sampled_from([0, 2]), watermark=st.sampled_from([0.0, 0.3]),
    scheduling_policy=st.sampled_from(["fcfs", "round_robin", "priority", "static"]),
    quantum=st.integers(1, 3), victim=st.sampled_from(["newest", "most_generated", "lowest_priority"]),
    preemption_mode=st.sampled_from(["recompute", "swap"]), log_events=st.booleans())
NAMES = st.sampled_from("abcdefg")
PROMPTS = st.one_of(
    st.integers(1, 16).map(lambda length: [index % 3 for index in range(length)]),  # prefixes of one another
    st.lists(st.integers(0, 2), min_size=1, max_size=12))
MAX_TOKENS = st.sampled_from([1, 3, 9, 20])


class ServingMachine(RuleBasedStateMachine):
    """Some requests, some steps, some accidents; everything is checked after each (see World)."""

    @initialize(config=CONFIGS)
    def start(self, config: Config) -> None:
        self.world = World(config)

    @rule(name=NAMES, prompt=PROMPTS, max_tokens=MAX_TOKENS, seed=st.integers(0, 1),
          priority=st.integers(0, 2), cache_salt=st.sampled_from([None, None, None, "x"]),
          skip_reading=st.booleans())
    def add(self, name, prompt, max_tokens, seed, priority, cache_salt, skip_reading) -> None:
        self.world.add(name, prompt, SamplingParams(max_tokens=max_tokens, seed=seed, ignore_eos=True),
                       priority=priority, cache_salt=cache_salt, skip_reading_prefix_cache=skip_reading)

    @precondition(lambda self: not self.world.is_static)
    @rule(parent=NAMES, child=NAMES, seed=st.integers(0, 1), max_tokens=MAX_TOKENS)
    def fork(self, parent, child, seed, max_tokens) -> None:
        self.world.fork(parent, child, seed, max_tokens)

    @rule(name=NAMES, reason=st.sampled_from([FinishReason.ABORT, FinishReason.STOP]))
    def end(self, name, reason) -> None:
        self.world.end(name, reason)
        self.world.check()

    @rule(count=st.integers(1, 6))
    def steps(self, count) -> None:
        for _ in range(count):
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
TestServing.settings = settings(max_examples=150, stateful_step_count=30, deadline=None, derandomize=True,
                                database=None, suppress_health_check=list(HealthCheck))
