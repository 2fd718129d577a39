"""A small machine for the simulator's tests."""
from __future__ import annotations

import pytest

from minipaged.sim.cost_model import Roofline
from minipaged.sim.hardware import card, served_model
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import SimResult, check_conservation, simulate
from minipaged.sim.workload import Trace


@pytest.fixture(scope="session")
def serve():
    """serve(trace, num_blocks, **settings): run on an A100 by roofline, invariants checked, tokens conserved."""
    gpu, model = card("a100-80g"), served_model("llama-3.1-8b")

    def run(trace: Trace, num_blocks: int = 2000, *, check_every: int | None = None, seed: int = 0,
            sample_every: float = 0.25, **settings) -> SimResult:
        serving = Serving(num_blocks, **settings)
        if check_every is None:
            check_every = 7 if serving.memory == "paged" else 0
        cost = Roofline(gpu, model, serving.block_size)
        result = simulate(serving.scheduler(), cost, trace, check_every=check_every, seed=seed,
                          sample_every=sample_every)
        check_conservation(result)
        return result
    return run
