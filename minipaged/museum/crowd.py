"""Random requests on a piece's stage: what a scene shows must hold for any others too (see repair.py).

Some share a beginning, some are forked or given up on the way; the judges look after each step as they do in a scene.
"""
from __future__ import annotations

import random

from minipaged.museum.stage import Run, Stage

BEGINNINGS = (range(1, 13), range(1, 10), range(40, 52))
PATIENCE = 300  # steps


def crowd(seed: int, num_blocks: int, block_size: int = 4, **options) -> Run:
    """A run of a few random requests with the options of a stage: the same for the same seed."""
    rng = random.Random(f"crowd {seed}")
    stage = Stage(num_blocks, block_size, **options)
    try:
        _play(stage, rng)
    except Exception as error:  # whatever wrong lines lead to
        stage.complain("errors", f"{type(error).__name__}: {error}")
    stage.run.tokens = {name: request.output_token_ids for name, request in stage.requests.items()}
    return stage.run


def _play(stage: Stage, rng: random.Random) -> None:
    room = stage.kv.num_blocks * stage.kv.block_size
    for number in range(rng.randint(3, 8)):
        common = list(rng.choice(BEGINNINGS))[:rng.choice((0, 0, 4, 9))]
        prompt = (common + [rng.randint(60, 99) for _ in range(rng.randint(1, 6))])[:room]
        stage.add(f"r{number}", prompt, max_tokens=rng.randint(1, 14), priority=rng.randint(0, 2))
        stage.step(rng.choice((0, 0, 0, 1, 3)))
        if not stage.is_static and rng.random() < 0.2:
            _interfere(stage, rng, number)
    stage.finish(PATIENCE)
    free, blocks = stage.kv.free_count, stage.kv.num_blocks
    if free != blocks:
        stage.complain("invariants", f"all have ended, and {free} of {blocks} blocks are free")


def _interfere(stage: Stage, rng: random.Random, number: int) -> None:
    """Somebody's reader goes away, or wants a second answer."""
    running = [one for one in stage.scheduler.running if one.num_tokens + 1 < one.max_num_tokens]
    if running and rng.random() < 0.5:
        stage.fork(rng.choice(running).request_id, f"f{number}")
    elif stage.scheduler.requests:
        stage.scheduler.abort(rng.choice(list(stage.scheduler.requests)))
        stage.check()
