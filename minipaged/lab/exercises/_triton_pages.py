"""What the Triton exercises share: the setup of an answer, and pools with pages of any order."""
from __future__ import annotations

import random

NEEDS = ("torch", "triton")
#: as in the lab's setup cell; an answer has to stand alone
SETUP = '''\
import os
os.environ["TRITON_INTERPRET"] = "1"
os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
import torch
import triton
import triton.language as tl

def guarded(tensor):
    beside = torch.full((tensor.numel() + 4096,), float("nan"), dtype=tensor.dtype)
    return torch.cat([beside, tensor.flatten(), beside])[len(beside):]

def launch(kernel, *arguments, **constants):
    try:
        kernel[(1,)](*arguments, **constants)
    except Exception as error:
        raise (error.__cause__ or error) from None

'''


def filled_pools(case: dict, count: int = 1) -> list:
    """float32 pools [num_blocks, page, dim]; slots without a token hold case["stale"], None for NaN."""
    import torch

    generator = torch.Generator().manual_seed(case["seed"])
    shape = case["num_blocks"], case["page"], case["dim"]
    written = torch.zeros(shape[:2], dtype=torch.bool)
    for position in range(case["context_len"]):
        written[case["table"][position // case["page"]], position % case["page"]] = True
    pools = [torch.randn(shape, generator=generator) for _ in range(count)]
    for pool in pools:
        pool[~written] = float("nan") if case["stale"] is None else case["stale"]
    return pools


def page_case(rng: random.Random) -> dict:
    """A context of any length in up to 4 pages of up to 4 slots, in any order."""
    page, num_blocks = rng.choice([1, 2, 4]), rng.randint(1, 4)
    context = rng.randint(1, page * num_blocks)
    return {"seed": rng.randint(0, 999), "num_blocks": num_blocks, "page": page, "dim": rng.choice([1, 2, 4]),
            "table": rng.sample(range(num_blocks), num_blocks), "context_len": context, "stale": rng.choice([None, 5])}


#: P2, P0, P1 and 7 tokens, then a page exactly full, then one token
EXAMPLES = ({"seed": 1, "num_blocks": 3, "page": 4, "dim": 2, "table": [2, 0, 1], "context_len": 7, "stale": None},
            {"seed": 2, "num_blocks": 2, "page": 4, "dim": 4, "table": [1, 0], "context_len": 8, "stale": 5},
            {"seed": 3, "num_blocks": 3, "page": 2, "dim": 1, "table": [2, 1, 0], "context_len": 1, "stale": 5})


def say(name: str, case: dict, arguments: str) -> str:
    """A call as text, without the numbers of its tensors."""
    return f"{name}({arguments}) of {case['num_blocks']} pages of {case['page']} slots, {case['dim']} numbers a slot"
